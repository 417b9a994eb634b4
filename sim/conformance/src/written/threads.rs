//! TCBs: configuration, registers, resume and suspend, bound notifications.

use crate::op::{Context, Op, Path, Shown, Slot};
use crate::script::{Script, Topic, cnode_of, copy, delete, letter, make, mint, of_helper, own, start, tcb_of};
use crate::stage::{HELPER_FREE, MAPPING_AREA, OWN_TCB};
use platform::{Badge, CapData, ObjectType, Resume, Rights};

pub(super) fn all() -> Vec<Script> {
    [registers(), configuration(), binding(), suspended(), priorities(), ends(), equals()]
        .into_iter()
        .chain(ANSWERS.map(answers))
        .collect()
}

fn registers() -> Script {
    let mut script = Script::new(Topic::Threads, "registers that were written are read, made harmless first");
    script.then(make(ObjectType::Tcb, 20, 2));
    let values = [
        [0x1000, 0x2000, 1, 2, 3],
        [0x7fff_ffff_ffff, 7, u64::MAX, 0, 1 << 63],
        [0x8000_0000_0000, 0x8000_0000_0000, 0, 0, 0],
        [u64::MAX, u64::MAX, 0, 0, 0],
        [0xffff_8000_0000_0000, 1, 2, 3, 4],
    ];
    for values in values {
        let context = Context::Plain(values);
        script.then(Op::WriteRegisters { tcb: Slot(20), start: Resume::Later, context });
        script.then(Op::ReadRegisters { tcb: Slot(20), shown: Shown::Values });
    }
    script.then(Op::ReadRegisters { tcb: Slot(21), shown: Shown::Values });
    for tcb in [Slot(2), Slot::EMPTY, Slot::TCB, Slot::CNODE, Slot::VSPACE] {
        script.then(Op::ReadRegisters { tcb, shown: Shown::Success });
        script.then(Op::WriteRegisters { tcb, start: Resume::Later, context: Context::Plain([0; 5]) });
    }
    script
}

fn configuration() -> Script {
    let mut script = Script::new(Topic::Threads, "a thread takes CSpace, VSpace and buffer of the right kinds alone");
    script.then(make(ObjectType::Tcb, 20, 1)).then(make(ObjectType::VSpace, 21, 2)).then(make(
        ObjectType::SmallPage,
        23,
        1,
    ));
    script.then(Op::AssignPool { pool: Slot::ASID_POOL, vspace: Slot(21) }).then(make(ObjectType::Endpoint, 24, 1));
    script.then(copy(25, 9)).then(mint(own(26), 24, 3));
    let good = (Slot(20), 0, 50, Slot(9), 59, Slot(21), MAPPING_AREA, Slot(23));
    let configure = |(tcb, fault_endpoint, priority, cspace, guard_bits, vspace, buffer, frame)| Op::Configure {
        tcb,
        fault_endpoint,
        priority,
        cspace,
        guard_bits,
        vspace,
        buffer,
        frame,
    };
    script.then(configure(good));
    for cspace in [Slot(24), Slot(2), Slot::EMPTY, Slot::CNODE, Slot(25)] {
        script.then(configure((good.0, 0, 50, cspace, 59, good.5, MAPPING_AREA, good.7)));
    }
    for vspace in [Slot(22), Slot(24), Slot::EMPTY, Slot::VSPACE, Slot(23)] {
        script.then(configure((good.0, 0, 50, good.3, 59, vspace, MAPPING_AREA, good.7)));
    }
    for (buffer, frame) in [
        (0, Slot::EMPTY),
        (0, Slot(24)),
        (MAPPING_AREA + 1, good.7),
        (MAPPING_AREA + 512, good.7),
        (MAPPING_AREA + 1024, good.7),
        (0, good.7),
    ] {
        script.then(configure((good.0, 0, 50, good.3, 59, good.5, buffer, frame)));
    }
    for (guard_bits, priority) in [(0, 0), (58, 255), (60, 1), (63, 2), (64, 3), (255, 4)] {
        script.then(configure((good.0, 77, priority, good.3, guard_bits, good.5, MAPPING_AREA, good.7)));
    }
    script.then(configure((Slot(24 + 60), 0, 50, good.3, 59, good.5, MAPPING_AREA, good.7)));
    script.then(configure((Slot(2), 0, 50, good.3, 59, good.5, MAPPING_AREA, good.7)));
    // A thread's own capabilities outlive those that it was configured with.
    script.then(delete(21)).then(delete(23)).then(Op::ReadRegisters { tcb: Slot(20), shown: Shown::Values });
    // A helper controls no priority but 0, not even its own.
    let helper_configure = Op::Configure {
        tcb: Slot(OWN_TCB),
        fault_endpoint: 0,
        priority: 1,
        cspace: Slot(1),
        guard_bits: 0,
        vspace: Slot(HELPER_FREE),
        buffer: 0,
        frame: Slot::EMPTY,
    };
    script.then(Op::Copy { dest: of_helper(1, HELPER_FREE), src: Path::Own(Slot::VSPACE), rights: Rights::ALL });
    script.start(1).helper(1, helper_configure).then(Op::Settle);
    script
}

fn binding() -> Script {
    let mut script =
        Script::new(Topic::Threads, "a notification is bound to one thread and a thread to one notification");
    let bind = |tcb, notification| Op::Bind { tcb: Slot(tcb), notification: Slot(notification) };
    script.then(make(ObjectType::Tcb, 20, 2)).then(make(ObjectType::Notification, 22, 2)).then(make(
        ObjectType::Endpoint,
        24,
        1,
    ));
    script.then(Op::Copy { dest: own(25), src: own(22), rights: Rights::WRITE }).then(bind(20, 25)).then(bind(20, 24));
    script.then(bind(20, 0)).then(bind(20, 22)).then(bind(20, 22)).then(bind(21, 22)).then(bind(20, 23));
    script.then(Op::NbReceive { from: Slot(23) }).then(bind(Slot::TCB.0, 23)).then(delete(20)).then(bind(21, 22));
    script.then(delete(22)).then(bind(21, 23)).then(bind(22, 23)).then(bind(0, 23));
    // A thread waits there: too late to bind.
    script.then(make(ObjectType::Notification, 30, 1));
    script.then(Op::Copy { dest: of_helper(1, HELPER_FREE), src: own(30), rights: Rights::ALL });
    script.start(1).helper(1, Op::Receive { from: Slot(HELPER_FREE) }).then(Op::Settle).then(bind(tcb_of(2).0, 30));
    script.then(mint(own(31), 30, Badge::SIGNAL | 4)).then(Op::Signal { notification: Slot(31) }).then(Op::Settle);
    script.then(bind(tcb_of(2).0, 30));
    // The bound thread is woken at an endpoint.
    script.then(Op::Copy { dest: of_helper(2, HELPER_FREE), src: own(24), rights: Rights::ALL });
    script
        .start(2)
        .helper(2, Op::Receive { from: Slot(HELPER_FREE) })
        .helper(2, Op::NbReceive { from: Slot(HELPER_FREE) });
    script.then(Op::Settle).then(Op::Signal { notification: Slot(31) }).then(Op::Settle);
    script
}

fn suspended() -> Script {
    let mut script = Script::new(Topic::Threads, "who is stopped while waiting waits again when resumed");
    script.then(make(ObjectType::Endpoint, 20, 1)).then(make(ObjectType::Notification, 21, 1));
    script.then(mint(of_helper(1, HELPER_FREE), 20, 11)).then(mint(of_helper(2, HELPER_FREE), 20, 12));
    script.then(mint(of_helper(3, HELPER_FREE), 21, Badge::SIGNAL | 8)).then(mint(own(22), 21, Badge::SIGNAL | 16));
    script.helper(1, Op::Send { dest: Slot(HELPER_FREE), letter: letter(1, 100) });
    script.helper(1, Op::Send { dest: Slot(HELPER_FREE), letter: letter(2, 200) });
    script.helper(2, Op::Call { endpoint: Slot(HELPER_FREE), letter: letter(3, 300) });
    script.helper(3, Op::Receive { from: Slot(HELPER_FREE) });
    for helper in 1..=3 {
        script.then(start(helper, 0));
    }
    script.then(Op::Settle);
    for helper in 1..=3 {
        script.then(Op::Suspend { tcb: tcb_of(helper) });
    }
    script
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::Signal { notification: Slot(22) })
        .then(Op::NbReceive { from: Slot(20) });
    for helper in 1..=3 {
        script.then(Op::Resume { tcb: tcb_of(helper) });
    }
    script
        .then(Op::Settle)
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::Settle)
        .then(Op::NbReceive { from: Slot(20) });
    script.then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    // The caller waits for its reply. Stopped and resumed, it calls again, and the first call has no caller any more.
    script
        .then(Op::Suspend { tcb: tcb_of(2) })
        .then(Op::Reply { letter: letter(9, 9) })
        .then(Op::Resume { tcb: tcb_of(2) });
    script
        .then(Op::Settle)
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::Reply { letter: letter(9, 10) })
        .then(Op::Settle);
    for tcb in [Slot::EMPTY, Slot(2), Slot(20 + 3)] {
        script.then(Op::Suspend { tcb }).then(Op::Resume { tcb });
    }
    // A thread that was woken and has not run yet is ready: resuming it changes nothing.
    let call = script.threads[3].len() as u16;
    script.helper(3, Op::Receive { from: Slot(HELPER_FREE) });
    script
        .then(start(3, call))
        .then(Op::Resume { tcb: tcb_of(3) })
        .then(Op::Settle)
        .then(Op::Signal { notification: Slot(22) });
    script.then(Op::Resume { tcb: tcb_of(3) }).then(Op::Settle).then(Op::NbReceive { from: Slot(21) });
    // Those that never ran, and those that have finished.
    script.then(make(ObjectType::Tcb, 30, 1)).then(Op::Suspend { tcb: Slot(30) }).then(Op::Suspend { tcb: tcb_of(1) });
    script.then(Op::Resume { tcb: tcb_of(1) }).then(Op::Settle).then(Op::Resume { tcb: tcb_of(3) }).then(Op::Settle);
    script
}

fn priorities() -> Script {
    let mut script = Script::new(Topic::Threads, "the highest runs first, and whom it wakes runs at its place");
    script.priorities = [50, 90, 70];
    script.then(make(ObjectType::Notification, 20, 1)).then(make(ObjectType::Endpoint, 21, 1));
    for helper in 1..=3 {
        script.then(mint(of_helper(helper, HELPER_FREE), 20, Badge::SIGNAL | 1 << helper));
        script.then(mint(of_helper(helper, HELPER_FREE + 1), 21, u64::from(helper)));
    }
    script.helper(1, Op::Signal { notification: Slot(HELPER_FREE) });
    script.helper(1, Op::Send { dest: Slot(HELPER_FREE + 1), letter: letter(1, 1) });
    script.helper(1, Op::Signal { notification: Slot(HELPER_FREE) });
    script.helper(2, Op::Receive { from: Slot(HELPER_FREE) });
    script.helper(2, Op::Receive { from: Slot(HELPER_FREE) });
    script.helper(2, Op::NbReceive { from: Slot(HELPER_FREE) });
    script.helper(3, Op::Signal { notification: Slot(HELPER_FREE) });
    script.helper(3, Op::Receive { from: Slot(HELPER_FREE + 1) });
    script.helper(3, Op::Signal { notification: Slot(HELPER_FREE) });
    for helper in 1..=3 {
        script.then(start(helper, 0));
    }
    script.then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    script
}

fn ends() -> Script {
    let mut script = Script::new(Topic::Threads, "a thread that is deleted is gone, with what waited for it");
    script.then(make(ObjectType::Endpoint, 20, 1));
    script.then(mint(of_helper(1, HELPER_FREE), 20, 1)).then(mint(of_helper(2, HELPER_FREE), 20, 2));
    script.helper(1, Op::Receive { from: Slot(HELPER_FREE) });
    script.helper(2, Op::Call { endpoint: Slot(HELPER_FREE), letter: letter(1, 7) });
    script.then(start(1, 0)).then(Op::Settle).then(start(2, 0)).then(Op::Settle);
    // Helper 1 has the message and its caller waits. The right to reply is lost with the caller, not with the one called.
    script.then(delete(tcb_of(1).0)).then(Op::Settle).then(Op::Resume { tcb: tcb_of(1) });
    script.then(Op::Suspend { tcb: tcb_of(2) }).then(Op::Resume { tcb: tcb_of(2) }).then(Op::Settle);
    script.then(Op::NbReceive { from: Slot(20) }).then(Op::SaveCaller { slot: own(30) });
    script.then(Op::Send { dest: Slot(30), letter: letter(5, 5) }).then(Op::Settle).then(delete(30));
    // Its CNode outlives the capabilities to it as long as the thread has it.
    script.then(delete(cnode_of(3).0)).then(Op::Copy { dest: own(31), src: own(20), rights: Rights::ALL });
    script.helper(3, Op::Copy { dest: Path::Own(Slot(9)), src: Path::Own(Slot(OWN_TCB)), rights: Rights::ALL });
    script.helper(3, Op::Delete { slot: Path::Own(Slot(9)) });
    script.then(start(3, 0)).then(Op::Settle);
    script
}

/// Two helpers of one priority: which one waits, is woken, yields.
fn equals() -> Script {
    let mut script = Script::new(Topic::Threads, "equals take turns when they yield or wait");
    script.priorities = [60, 60, 60];
    script.then(make(ObjectType::Notification, 20, 1)).then(make(ObjectType::Endpoint, 21, 1));
    for helper in 1..=3 {
        let badge = CapData::Badge(Badge(Badge::SIGNAL | 1 << helper));
        script.then(Op::Mint { dest: of_helper(helper, HELPER_FREE), src: own(20), rights: Rights::ALL, data: badge });
        script.then(mint(of_helper(helper, HELPER_FREE + 1), 21, u64::from(helper)));
    }
    for helper in 1..=3 {
        for _ in 0..3 {
            script.helper(helper, Op::ReceiveSlot { slot: None });
            script.helper(helper, Op::Yield);
        }
    }
    script.helper(1, Op::Receive { from: Slot(HELPER_FREE) });
    script.helper(1, Op::Receive { from: Slot(HELPER_FREE + 1) });
    script.helper(2, Op::Signal { notification: Slot(HELPER_FREE) });
    script.helper(2, Op::Yield);
    script.helper(2, Op::Send { dest: Slot(HELPER_FREE + 1), letter: letter(1, 1) });
    script.helper(2, Op::Signal { notification: Slot(HELPER_FREE) });
    script.helper(3, Op::Yield);
    script.helper(3, Op::Receive { from: Slot(HELPER_FREE) });
    for helper in [2, 1, 3] {
        script.then(start(helper, 0));
    }
    script.then(Op::Settle);
    script
}

/// Priorities of a server, its client, and a third thread that becomes ready while the server works.
const ANSWERS: [[u8; 3]; 10] = [
    [90, 50, 70],
    [90, 50, 50],
    [90, 70, 50],
    [90, 50, 90],
    [90, 50, 110],
    [64, 63, 63],
    [65, 63, 64],
    [200, 127, 128],
    [60, 60, 60],
    [50, 90, 70],
];

/// A server that answers and waits again in one call, as all servers here do, for each choice of [`ANSWERS`].
fn answers(priorities: [u8; 3]) -> Script {
    let [server, client, third] = priorities;
    let name = format!("server at {server} answers its client at {client} while one at {third} becomes ready");
    let mut script = Script::new(Topic::Threads, name);
    script.priorities = priorities;
    script.then(make(ObjectType::Endpoint, 20, 1)).then(make(ObjectType::Notification, 21, 2));
    for helper in 1..=3 {
        script.then(mint(of_helper(helper, HELPER_FREE), 20, u64::from(helper)));
        script.then(mint(of_helper(helper, HELPER_FREE + 1), 21, Badge::SIGNAL | 1 << helper));
    }
    script.then(mint(of_helper(1, HELPER_FREE + 2), 22, Badge::SIGNAL | 0x100));
    let (endpoint, wake, own_signal) = (Slot(HELPER_FREE), Slot(HELPER_FREE + 1), Slot(HELPER_FREE + 2));
    let answer = |number| Op::ReplyReceive { letter: letter(2, number), from: endpoint };
    // Alone with its client, then with the third ready, then with the third ready that yielded.
    script.helper(1, Op::Receive { from: endpoint }).helper(1, answer(1));
    script.helper(1, Op::Signal { notification: wake }).helper(1, answer(2));
    script.helper(1, Op::Signal { notification: wake }).helper(1, Op::Yield).helper(1, answer(3));
    // The third waits to send: the server continues with it.
    script.helper(1, answer(4)).helper(1, answer(5));
    // A reply that is too long for registers, and one without a caller.
    script.helper(1, Op::ReplyReceive { letter: letter(2, 6).long(9), from: endpoint }).helper(1, answer(7));
    // A signal that the server gets beside messages.
    script.helper(1, Op::Signal { notification: own_signal }).helper(1, answer(8)).helper(1, answer(9));
    for number in 0..6 {
        script.helper(2, Op::Call { endpoint, letter: letter(1, number) });
    }
    script.helper(3, Op::Receive { from: wake }).helper(3, Op::ReceiveSlot { slot: None });
    script.helper(3, Op::Receive { from: wake }).helper(3, Op::Yield);
    for number in 10..14 {
        script.helper(3, Op::Call { endpoint, letter: letter(1, number) });
    }
    script.then(Op::Bind { tcb: tcb_of(1), notification: Slot(22) });
    for helper in [3, 1, 2] {
        script.then(start(helper, 0)).then(Op::Settle);
    }
    // Stopped while it waits after its reply, the server replies again, and no caller is there.
    script.then(Op::Suspend { tcb: tcb_of(1) }).then(Op::Resume { tcb: tcb_of(1) }).then(Op::Settle);
    script
}
