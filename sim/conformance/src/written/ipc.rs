//! Notifications, messages, capabilities in messages.

use crate::op::{Letter, Op, Path, Slot};
use crate::script::{Script, Topic, cnode_of, copy, delete, letter, make, mint, of_helper, own, revoke, start, tcb_of};
use crate::stage::{FAULT_ENDPOINT, HELPER_FREE};
use platform::{Badge, CapData, ObjectType, Rights};

pub(super) fn all() -> Vec<Script> {
    vec![
        signals(),
        lengths(),
        rights(),
        queues(),
        answers(),
        kept(),
        transfer(),
        answers_with_capabilities(),
        transfer_slots(),
        unwrapped(),
        endings(),
        taken(),
    ]
}

const AT: Slot = Slot(HELPER_FREE);
const RECEIVE_AND_GRANT: Rights = Rights { grant: true, ..Rights::READ };

/// An endpoint in slot 20, with each helper's badge its number plus 100, in [`AT`] of its CSpace.
fn endpoint(script: &mut Script) {
    script.then(make(ObjectType::Endpoint, 20, 1));
    for helper in 1..=3 {
        script.then(mint(of_helper(helper, HELPER_FREE), 20, 100 + u64::from(helper)));
    }
}

fn signals() -> Script {
    let mut script = Script::new(Topic::Notifications, "signals gather until somebody asks, and wake one who waits");
    script.then(make(ObjectType::Notification, 20, 1));
    for helper in 1..=3 {
        script.then(mint(of_helper(helper, HELPER_FREE), 20, Badge::SIGNAL | 1 << helper));
        script.helper(helper, Op::Receive { from: AT }).helper(helper, Op::Receive { from: AT });
    }
    script.then(mint(own(21), 20, Badge::SIGNAL | 0x100)).then(mint(own(22), 20, Badge::SIGNAL | 0x200));
    script.then(Op::NbReceive { from: Slot(20) }).then(Op::Signal { notification: Slot(21) });
    script
        .then(Op::Signal { notification: Slot(22) })
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::NbReceive { from: Slot(20) });
    for helper in [3, 1, 2] {
        script.then(start(helper, 0)).then(Op::Settle);
    }
    for slot in [21, 22, 21, 22, 21, 22, 21] {
        script.then(Op::Signal { notification: Slot(slot) });
    }
    script.then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    // Rights: without write nothing is signalled.
    script
        .then(Op::Copy { dest: own(23), src: own(21), rights: Rights::READ })
        .then(Op::Signal { notification: Slot(23) });
    script.then(Op::NbReceive { from: Slot(20) }).then(Op::NbReceive { from: Slot(23) });
    script.then(Op::Signal { notification: Slot::EMPTY }).then(Op::Signal { notification: Slot(2) });
    script.then(Op::NbSend { dest: Slot(22), letter: letter(1, 1) }).then(Op::NbReceive { from: Slot(20) });
    script
}

fn lengths() -> Script {
    let mut script = Script::new(Topic::Endpoints, "messages of every length arrive whole, by every way");
    endpoint(&mut script);
    let lengths = [0, 1, 2, 3, 4, 5, 8, 31, 32];
    for length in lengths {
        let letter = Letter::new(Letter::FIRST_LABEL + 5, 1000).long(length);
        script.helper(1, Op::Send { dest: AT, letter }).helper(2, Op::Call { endpoint: AT, letter });
    }
    script.then(start(1, 0)).then(start(2, 0)).then(Op::Settle);
    for length in lengths {
        script.then(Op::Receive { from: Slot(20) }).then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
        script.then(Op::Reply { letter: Letter::new(140, 7).long(length) }).then(Op::Settle);
    }
    for length in lengths {
        script.helper(3, Op::Receive { from: AT });
        script.start(3);
        script.then(Op::NbSend { dest: Slot(30), letter: Letter::new(141, 3).long(length) });
    }
    script.then(mint(own(30), 20, 77)).then(start(3, 0)).then(Op::Settle);
    for length in lengths {
        script.then(Op::NbSend { dest: Slot(30), letter: Letter::new(141, 3).long(length) }).then(Op::Settle);
    }
    script
}

fn rights() -> Script {
    let mut script = Script::new(Topic::Endpoints, "without the right nothing is sent; without grant no answer comes");
    script.then(make(ObjectType::Endpoint, 20, 1));
    let all = [Rights::ALL, Rights::READ_WRITE, Rights::WRITE, Rights::CALL, Rights::CALL_WITH_CAPS, RECEIVE_AND_GRANT];
    for (number, rights) in (0u16..).zip(all) {
        let data = CapData::Badge(Badge(200 + u64::from(number)));
        script.then(Op::Mint { dest: of_helper(1, HELPER_FREE + number), src: own(20), rights, data });
        script.then(Op::Mint { dest: own(30 + number), src: own(20), rights, data });
    }
    script.then(mint(of_helper(1, FAULT_ENDPOINT), 20, 0xfa));
    for number in 0..6u16 {
        let from = Slot(HELPER_FREE + number);
        for op in [
            Op::NbSend { dest: from, letter: letter(1, 1) },
            Op::Send { dest: from, letter: letter(2, 2) },
            Op::Call { endpoint: from, letter: letter(3, 3) },
            Op::Receive { from },
        ] {
            script.start(1).helper(1, op).then(Op::Settle).then(Op::NbReceive { from: Slot(20) }).then(Op::Settle);
            script.then(Op::Reply { letter: letter(4, 4) }).then(Op::Settle);
            script.then(Op::NbSend { dest: Slot(30 + number), letter: letter(5, 5) }).then(Op::Settle);
        }
    }
    script
}

fn queues() -> Script {
    let mut script =
        Script::new(Topic::Endpoints, "who waits first is served first, and a cancelled wait leaves the queue");
    endpoint(&mut script);
    script.then(mint(own(21), 20, 500));
    for helper in [2, 3, 1] {
        script.helper(helper, Op::Send { dest: AT, letter: letter(1, u64::from(helper)) });
        script.helper(helper, Op::Receive { from: AT });
        script.then(start(helper, 0)).then(Op::Settle);
    }
    script
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::Suspend { tcb: tcb_of(3) })
        .then(Op::NbReceive { from: Slot(20) });
    script.then(Op::NbReceive { from: Slot(20) }).then(Op::Settle).then(Op::Resume { tcb: tcb_of(3) }).then(Op::Settle);
    for number in 0..4 {
        script.then(Op::NbSend { dest: Slot(21), letter: letter(2, number) }).then(Op::Settle);
    }
    // Revoking a badge ends the waits of the senders with that badge, and of no others.
    for helper in [1, 2, 3] {
        script.start(helper).helper(helper, Op::Send { dest: AT, letter: letter(3, u64::from(helper)) });
        script.helper(helper, Op::NbSend { dest: AT, letter: letter(4, u64::from(helper)) });
    }
    script.then(Op::Settle).then(Op::Revoke { slot: of_helper(2, HELPER_FREE) }).then(Op::Settle);
    script
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::Settle)
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::Settle);
    script.then(Op::NbReceive { from: Slot(20) }).then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    script
}

fn answers() -> Script {
    let mut script =
        Script::new(Topic::Endpoints, "an answer goes to the last who asked, once, and to nobody without a question");
    endpoint(&mut script);
    script.then(Op::Reply { letter: letter(1, 1) });
    for helper in 1..=2 {
        script.helper(helper, Op::Call { endpoint: AT, letter: letter(2, u64::from(helper)) });
        script.helper(helper, Op::Call { endpoint: AT, letter: letter(3, u64::from(helper)) });
        script.then(start(helper, 0));
    }
    // The second call replaces the first, whose caller waits for ever.
    script.then(Op::Settle).then(Op::NbReceive { from: Slot(20) }).then(Op::NbReceive { from: Slot(20) });
    script.then(Op::Reply { letter: letter(4, 4) }).then(Op::Reply { letter: letter(4, 5) }).then(Op::Settle);
    script
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::Reply { letter: letter(4, 6) });
    script.then(Op::Settle);
    // A helper replies to a helper, and calls the root thread meanwhile.
    script.start(3).helper(3, Op::Receive { from: AT }).helper(3, Op::Reply { letter: letter(6, 66) });
    script
        .helper(3, Op::Receive { from: AT })
        .helper(3, Op::NbReceive { from: AT })
        .helper(3, Op::Reply { letter: letter(6, 67) });
    script.then(Op::Settle);
    let call = script.threads[1].len() as u16;
    script
        .helper(1, Op::Call { endpoint: AT, letter: letter(5, 55) })
        .helper(1, Op::Call { endpoint: AT, letter: letter(5, 56) });
    script.then(start(1, call)).then(Op::Settle);
    script
}

fn kept() -> Script {
    let mut script =
        Script::new(Topic::Endpoints, "the right to answer is kept in a slot, used once, moved but not copied");
    endpoint(&mut script);
    for helper in 1..=3 {
        for number in 0..3 {
            script.helper(helper, Op::Call { endpoint: AT, letter: letter(1, number) });
        }
        script.then(start(helper, 0));
    }
    script.then(Op::SaveCaller { slot: own(30) }).then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    script
        .then(Op::SaveCaller { slot: own(20) })
        .then(Op::SaveCaller { slot: own(30) })
        .then(Op::SaveCaller { slot: own(31) });
    script.then(Op::NbReceive { from: Slot(20) }).then(Op::SaveCaller { slot: own(31) }).then(copy(32, 30)).then(mint(
        own(32),
        30,
        1,
    ));
    script.then(Op::Move { dest: own(33), src: own(30) }).then(Op::Send { dest: Slot(30), letter: letter(2, 1) });
    script.then(Op::Send { dest: Slot(33), letter: letter(2, 2) }).then(Op::Settle);
    script.then(Op::Send { dest: Slot(33), letter: letter(2, 3) }).then(Op::NbReceive { from: Slot(20) });
    script
        .then(Op::NbSend { dest: Slot(31), letter: letter(2, 4).long(9) })
        .then(Op::Settle)
        .then(Op::SaveCaller { slot: own(34) });
    script
        .then(delete(34))
        .then(Op::Settle)
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::SaveCaller { slot: own(35) });
    // The caller is stopped: its saved reply capability has no effect any more.
    script
        .then(Op::Suspend { tcb: tcb_of(1) })
        .then(Op::Suspend { tcb: tcb_of(2) })
        .then(Op::Suspend { tcb: tcb_of(3) });
    script.then(Op::Send { dest: Slot(35), letter: letter(2, 5) }).then(copy(36, 35)).then(delete(35));
    script
}

fn transfer() -> Script {
    let mut script = Script::new(Topic::Transfer, "a capability goes with the message when both sides allow it");
    endpoint(&mut script);
    script.then(make(ObjectType::SmallPage, 21, 1)).then(make(ObjectType::Notification, 22, 1));
    script.then(Op::Copy { dest: of_helper(1, 10), src: own(21), rights: Rights::READ });
    script.then(mint(of_helper(1, 11), 22, Badge::SIGNAL | 32));
    script.then(Op::Copy { dest: of_helper(1, 12), src: own(tcb_of(2).0), rights: Rights::ALL });
    let data = CapData::Badge(Badge(150));
    script.then(Op::Mint { dest: of_helper(1, 13), src: own(20), rights: Rights::READ_WRITE, data });
    for (cap, by) in [(10, AT), (11, AT), (12, AT), (10, Slot(13)), (14, AT), (0, AT)] {
        script.helper(1, Op::Send { dest: by, letter: letter(1, 1).and_cap(Slot(cap)) });
    }
    script.then(start(1, 0)).then(Op::Settle);
    // No receive slot, then an empty one each time, then a full one.
    script.then(Op::Receive { from: Slot(20) });
    for slot in 40..43 {
        script.then(Op::ReceiveSlot { slot: Some(own(slot)) }).then(Op::Receive { from: Slot(20) }).then(Op::Settle);
        script.then(Op::FrameAddress { frame: Slot(slot) }).then(Op::Signal { notification: Slot(slot) });
        script.then(Op::NbReceive { from: Slot(22) }).then(copy(50 + slot, slot));
    }
    script.then(Op::Receive { from: Slot(20) }).then(Op::Settle).then(Op::ReceiveSlot { slot: Some(own(45)) });
    script
        .then(Op::NbReceive { from: Slot(20) })
        .then(copy(60, 45))
        .then(Op::Settle)
        .then(Op::NbReceive { from: Slot(20) });
    // In an answer, and back out of it.
    script.helper(2, Op::ReceiveSlot { slot: Some(Path::Own(Slot(20))) });
    script.helper(2, Op::Call { endpoint: AT, letter: letter(2, 2) }).helper(2, Op::Signal { notification: Slot(20) });
    script.then(start(2, 0)).then(Op::Settle).then(Op::NbReceive { from: Slot(20) }).then(mint(
        own(70),
        22,
        Badge::SIGNAL | 64,
    ));
    script
        .then(Op::Reply { letter: letter(3, 3).and_cap(Slot(70)) })
        .then(Op::Settle)
        .then(Op::NbReceive { from: Slot(22) });
    script.then(revoke(22)).then(Op::Copy { dest: own(71), src: of_helper(2, 20), rights: Rights::ALL });
    script
}

/// The name of the sequence of [`answers_with_capabilities`].
const ANSWERS: &str = "an answer carries a capability as the receiver's rights allow it";

/// Calls are received through capabilities with and without grant: by a receiver that waits or comes later. Each answer has a
/// capability, and one of them comes by a saved reply capability. Kernels differ here ([`sim_kernel::Grants`]).
fn answers_with_capabilities() -> Script {
    let mut script = Script::new(Topic::Transfer, ANSWERS);
    endpoint(&mut script);
    script.then(make(ObjectType::Notification, 22, 1)).then(mint(own(70), 22, Badge::SIGNAL | 64));
    let into = Path::Own(Slot(20));
    script.helper(1, Op::ReceiveSlot { slot: Some(into) });
    for (number, rights) in (0u16..).zip([Rights::ALL, RECEIVE_AND_GRANT, Rights::READ_WRITE, Rights::READ]) {
        let from = Slot(30 + number);
        script.then(Op::Copy { dest: own(from.0), src: own(20), rights });
        for _ in 0..3 {
            script.helper(1, Op::Call { endpoint: AT, letter: letter(1, 1) });
            script.helper(1, Op::Signal { notification: Slot(20) }).helper(1, Op::Delete { slot: into });
        }
        let answer = letter(2, 2).and_cap(Slot(70));
        if number == 0 {
            script.then(start(1, 0));
        }
        script.then(Op::Receive { from }).then(Op::Reply { letter: answer });
        script.then(Op::Settle).then(Op::NbReceive { from: Slot(22) });
        script.then(Op::NbReceive { from }).then(Op::Reply { letter: answer });
        script.then(Op::Settle).then(Op::NbReceive { from: Slot(22) });
        script.then(Op::NbReceive { from }).then(Op::SaveCaller { slot: own(40) });
        script.then(Op::Send { dest: Slot(40), letter: answer });
    }
    script.then(Op::Settle).then(Op::NbReceive { from: Slot(22) });
    script
}

fn transfer_slots() -> Script {
    let mut script =
        Script::new(Topic::Transfer, "receive slots that are full, missing, elsewhere, or found at another depth");
    endpoint(&mut script);
    script.then(make(ObjectType::SmallPage, 21, 1));
    script.then(Op::Copy { dest: of_helper(1, 10), src: own(21), rights: Rights::ALL });
    let cnode = cnode_of(3);
    let slots = [
        Some(own(21)),
        Some(Path::OwnAt(Slot(40), 16)),
        Some(Path::OwnAt(Slot(40), 63)),
        Some(Path::In(Slot(21), 0, 5)),
        Some(Path::In(Slot::EMPTY, 0, 5)),
        Some(Path::In(cnode, 9, 5)),
        Some(Path::In(cnode, 9, 5)),
        Some(Path::In(cnode, 10, 64)),
        Some(Path::In(cnode, 10, 4)),
        None,
        Some(own(41)),
    ];
    for slot in slots {
        script.helper(1, Op::Send { dest: AT, letter: letter(1, 9).and_cap(Slot(10)) });
        script.then(Op::ReceiveSlot { slot });
        script.start(1);
        script.threads[0].pop();
    }
    script.then(start(1, 0)).then(Op::Settle);
    for slot in slots {
        script.then(Op::ReceiveSlot { slot }).then(Op::NbReceive { from: Slot(20) }).then(Op::Settle);
    }
    for index in [9, 10] {
        script.then(Op::Copy { dest: own(50 + index), src: Path::In(cnode, u64::from(index), 5), rights: Rights::ALL });
        script.then(Op::FrameAddress { frame: Slot(50 + index) });
    }
    script.then(Op::FrameAddress { frame: Slot(41) });
    script
}

fn unwrapped() -> Script {
    let mut script = Script::new(Topic::Transfer, "a capability to the endpoint it is sent through comes as its badge");
    endpoint(&mut script);
    script.then(mint(of_helper(1, 10), 20, 321)).then(make(ObjectType::Endpoint, 21, 1)).then(mint(
        of_helper(1, 11),
        21,
        322,
    ));
    script.then(Op::ReceiveSlot { slot: Some(own(40)) });
    for cap in [10, 11, HELPER_FREE] {
        script.helper(1, Op::Send { dest: AT, letter: letter(1, 1).and_cap(Slot(cap)) });
    }
    script.then(start(1, 0)).then(Op::Settle);
    for _ in 0..3 {
        script
            .then(Op::NbReceive { from: Slot(20) })
            .then(copy(41, 40))
            .then(delete(40))
            .then(delete(41))
            .then(Op::Settle);
    }
    script
}

fn endings() -> Script {
    let mut script = Script::new(Topic::Endpoints, "when an endpoint ends, those who wait there try again and fault");
    script.then(Op::Retype {
        untyped: Slot(3),
        object: ObjectType::Endpoint,
        size_bits: 0,
        cnode: Slot::CNODE,
        first: 19,
        count: 1,
    });
    endpoint(&mut script);
    for helper in 1..=3 {
        script.then(mint(of_helper(helper, FAULT_ENDPOINT), 19, 10 + u64::from(helper)));
    }
    script.helper(1, Op::Send { dest: AT, letter: letter(1, 1) });
    script.helper(2, Op::Call { endpoint: AT, letter: letter(1, 1) });
    script.helper(3, Op::Call { endpoint: AT, letter: letter(1, 1) });
    script.then(start(3, 0)).then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    script.then(start(1, 0)).then(start(2, 0)).then(Op::Settle).then(revoke(2)).then(Op::Settle);
    for _ in 0..3 {
        script.then(Op::NbReceive { from: Slot(19) }).then(Op::Settle);
    }
    script.then(Op::Reply { letter: letter(2, 2) }).then(Op::Settle);
    script
}

fn taken() -> Script {
    let mut script =
        Script::new(Topic::Endpoints, "who asks again where the right to ask was taken is answered by the kernel");
    endpoint(&mut script);
    for helper in 1..=3 {
        script.helper(helper, Op::Call { endpoint: AT, letter: letter(1, u64::from(helper)) });
        script.helper(helper, Op::Call { endpoint: AT, letter: letter(2, u64::from(helper)) });
        script.then(start(helper, 0)).then(Op::Settle);
    }
    // One waits for its reply, one for a receiver, and one was stopped before.
    script.then(Op::NbReceive { from: Slot(20) }).then(Op::Suspend { tcb: tcb_of(3) }).then(revoke(20));
    for helper in 1..=3 {
        script.then(Op::Suspend { tcb: tcb_of(helper) }).then(Op::Resume { tcb: tcb_of(helper) }).then(Op::Settle);
    }
    script.then(Op::Reply { letter: letter(3, 3) }).then(Op::NbReceive { from: Slot(20) }).then(Op::Settle);
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, model};
    use sim_kernel::Grants;

    /// For each answer of the sequence, whether its capability arrived.
    fn arrived(grants: Grants) -> Vec<bool> {
        let mut script = answers_with_capabilities();
        script.rules.grants = grants;
        let answers = model::run(&script).unwrap().into_iter().filter_map(|entry| match entry.answer {
            Answer::Message { cap, .. } if entry.thread == 1 => Some(cap),
            _ => None,
        });
        answers.collect()
    }

    #[test]
    fn since_11_0_0_an_answer_carries_a_capability_only_through_grant() {
        let (with, without) = ([true; 6], [false; 6]);
        assert_eq!(arrived(Grants::Lax), [with, with].concat());
        assert_eq!(arrived(Grants::Strict), [with, without].concat());
    }
}
