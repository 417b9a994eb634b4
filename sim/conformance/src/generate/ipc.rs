//! IPC, faults and threads: the helpers wait, call and access memory while the root thread receives, replies, and removes
//! their capabilities and mappings.

use super::invocations;
use super::picture::{
    ANSWERS, ENDPOINTS, KEPT_ENDPOINTS, KEPT_NOTIFICATION, KEPT_SIGNALS, NOTIFICATIONS, Picture, Random,
};
use crate::op::{Letter, Op, Path, Slot};
use crate::script::{Script, cnode_of, of_helper, own, start, tcb_of};
use crate::stage::{FAULT_ENDPOINT, HELPER_CNODE_BITS, HELPER_FREE, MEMORY, OPEN};
use platform::{Badge, CacheAttributes, CapData, ObjectType, Rights, TableLevel};

/// Calls of the root thread, and of each helper.
const CALLS: u32 = 60;
const HELPER_CALLS: u32 = 14;
/// Slots of a helper that are used.
const HELPER_SLOTS: core::ops::Range<u16> = HELPER_FREE..16;
/// The frame that helpers touch, and the table under it.
const FRAME: u16 = 105;
const TABLE: u16 = 106;

/// Fills `script`.
pub(super) fn fill(script: &mut Script, random: &Random) {
    script.priorities = random.one(&[[120, 110, 100], [100, 120, 110], [50, 60, 70], [64, 63, 63]]);
    prepare(script, random);
    for helper in 1..=3 {
        for _ in 0..HELPER_CALLS {
            script.helper(helper, helper_call(random));
        }
    }
    for helper in 1..=3 {
        script.then(start(helper, 0));
    }
    let mut picture = Picture::default();
    for _ in 0..CALLS {
        root_call(script, &mut picture, random);
    }
    script.then(Op::Settle).then(Op::NbReceive { from: KEPT_ENDPOINTS[0] });
    for slot in ENDPOINTS.step_by(4) {
        script.then(Op::FrameAddress { frame: KEPT_SIGNALS[0] }).then(Op::Delete { slot: own(slot) });
    }
}

/// Makes the objects that stay: endpoints and a notification, memory under the open address, and each helper's capabilities.
fn prepare(script: &mut Script, random: &Random) {
    let make = |object, untyped, first: Slot, count| Op::Retype {
        untyped,
        object,
        size_bits: 0,
        cnode: Slot::CNODE,
        first: first.0,
        count,
    };
    script.then(make(ObjectType::Endpoint, MEMORY[3], KEPT_ENDPOINTS[0], 2));
    script.then(make(ObjectType::Notification, MEMORY[3], KEPT_NOTIFICATION, 1));
    for (slot, badge) in KEPT_SIGNALS.iter().zip([1, 2]) {
        let data = CapData::Badge(Badge(Badge::SIGNAL | badge));
        script.then(Op::Mint { dest: Path::Own(*slot), src: Path::Own(KEPT_NOTIFICATION), rights: Rights::ALL, data });
    }
    script.then(make(ObjectType::TranslationTable(TableLevel::Three), MEMORY[1], Slot(TABLE), 1)).then(make(
        ObjectType::SmallPage,
        MEMORY[1],
        Slot(FRAME),
        1,
    ));
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(TABLE), vspace: Slot::VSPACE, vaddr: OPEN });
    for helper in 1..=3 {
        for slot in HELPER_SLOTS.step_by(2) {
            script.then(give(random, helper, slot));
        }
        if random.percent(80) {
            let data = CapData::Badge(Badge(0xf00 + u64::from(helper)));
            let src = Path::Own(random.one(&KEPT_ENDPOINTS));
            script.then(Op::Mint { dest: of_helper(helper, FAULT_ENDPOINT), src, rights: Rights::ALL, data });
        }
    }
}

/// Gives a helper a capability: mostly to an endpoint, else to the notification.
fn give(random: &Random, helper: u8, slot: u16) -> Op {
    let dest = of_helper(helper, slot);
    let rights = random.one(&[Rights::ALL, Rights::ALL, Rights::ALL, Rights::CALL, Rights::READ, Rights::READ_WRITE]);
    let number = 1 + random.below(200);
    if random.percent(75) {
        let src = Path::Own(random.one(&KEPT_ENDPOINTS));
        return Op::Mint { dest, src, rights, data: CapData::Badge(Badge(number)) };
    }
    let data = CapData::Badge(Badge(Badge::SIGNAL | number << 8));
    Op::Mint { dest, src: Path::Own(KEPT_NOTIFICATION), rights, data }
}

fn letter(random: &Random, caps: &[Slot]) -> Letter {
    let label = Letter::FIRST_LABEL + random.below(1000) as u16;
    let letter = Letter::new(label, random.below(1 << 40)).long(random.one(&[0, 1, 2, 4, 4, 5, 12, 32]));
    if random.percent(35) { letter.and_cap(random.one(caps)) } else { letter }
}

/// A slot of a helper: mostly one in use, rarely an empty one, its own CNode's, or one that does not exist.
fn helper_slot(random: &Random) -> Slot {
    match random.below(40) {
        0 => Slot(random.one(&[0, 1, 20])),
        1 => Slot(40),
        _ => Slot(random.of(HELPER_SLOTS)),
    }
}

fn helper_call(random: &Random) -> Op {
    let slot = helper_slot(random);
    let caps = [helper_slot(random), Slot(random.of(HELPER_SLOTS))];
    let path = |random: &Random| Path::Own(Slot(random.of(HELPER_SLOTS)));
    match random.below(100) {
        0..16 => Op::Send { dest: slot, letter: letter(random, &caps) },
        16..24 => Op::NbSend { dest: slot, letter: letter(random, &caps) },
        24..44 => Op::Call { endpoint: slot, letter: letter(random, &caps) },
        44..56 => Op::Receive { from: slot },
        56..60 => Op::NbReceive { from: slot },
        60..62 => Op::Reply { letter: letter(random, &caps) },
        62..66 => Op::ReplyReceive { letter: letter(random, &caps), from: helper_slot(random) },
        66..70 => Op::Signal { notification: slot },
        70..77 => Op::ReceiveSlot { slot: Some(path(random)).filter(|_| random.percent(85)) },
        77..80 => Op::SaveCaller { slot: path(random) },
        80..83 => Op::Copy { dest: path(random), src: path(random), rights: Rights::ALL },
        83..85 => Op::Move { dest: path(random), src: path(random) },
        85..88 => Op::Delete { slot: path(random) },
        88..95 => Op::Load { vaddr: OPEN + (random.below(2) << 12) + random.one(&[0, 8, 0xff8]) },
        95..99 => Op::Store { vaddr: OPEN + random.one(&[0, 8, 0xff8]), value: random.below(1 << 50) },
        _ => Op::Yield,
    }
}

fn root_call(script: &mut Script, picture: &mut Picture, random: &Random) {
    let helper = 1 + random.below(3) as u8;
    let caps = [Slot(random.of(ENDPOINTS)), KEPT_SIGNALS[0], KEPT_ENDPOINTS[1], Slot(FRAME), Slot::EMPTY];
    let place = |random: &Random| match random.below(3) {
        0 => of_helper(helper, random.of(HELPER_SLOTS)),
        _ => own(random.of(ENDPOINTS)),
    };
    match random.below(100) {
        0..18 => script.then(Op::Settle).then(Op::NbReceive { from: random.one(&KEPT_ENDPOINTS) }),
        18..23 => script.then(Op::Receive { from: random.one(&KEPT_ENDPOINTS) }),
        23..26 => script.then(Op::NbReceive { from: KEPT_NOTIFICATION }),
        26..40 => script.then(Op::Reply { letter: letter(random, &caps) }),
        40..46 => script.then(Op::NbSend { dest: badged(random), letter: letter(random, &caps) }),
        46..50 => script.then(Op::Signal { notification: random.one(&KEPT_SIGNALS) }),
        50..54 => script.then(Op::ReceiveSlot { slot: Some(place(random)).filter(|_| random.percent(90)) }),
        54..58 => script.then(Op::SaveCaller { slot: own(random.of(ANSWERS)) }),
        58..62 => script.then(Op::Send { dest: Slot(random.of(ANSWERS)), letter: letter(random, &caps) }),
        62..65 => script.then(Op::Delete { slot: own(random.of(ANSWERS)) }),
        65..71 => {
            let slot = random.of(HELPER_SLOTS);
            script.then(give(random, helper, slot))
        }
        71..74 => script.then(Op::Copy { dest: place(random), src: place(random), rights: Rights::ALL }),
        74..76 => script.then(Op::Move { dest: place(random), src: place(random) }),
        76..79 => script.then(Op::Delete { slot: place(random) }),
        79..82 => {
            let target =
                random.one(&[Path::Own(KEPT_ENDPOINTS[0]), Path::Own(KEPT_ENDPOINTS[1]), place(random), place(random)]);
            script.then(Op::Revoke { slot: target })
        }
        82..88 => thread_call(script, random, helper),
        88..93 => memory_call(script, random),
        93..95 => script.then(Op::Copy {
            dest: own(random.of(ENDPOINTS)),
            src: Path::In(
                cnode_of(helper),
                random.below(40),
                random.one(&[HELPER_CNODE_BITS, HELPER_CNODE_BITS, 4, 64]),
            ),
            rights: Rights::ALL,
        }),
        _ => script.then(without_memory(picture, random)),
    };
}

/// A kept endpoint's capability of the root thread's own making, in a slot that nothing but itself goes into.
fn badged(random: &Random) -> Slot {
    Slot(random.of(ENDPOINTS))
}

/// Stops and starts a helper, whether it waits or was just woken.
fn thread_call<'a>(script: &'a mut Script, random: &Random, helper: u8) -> &'a mut Script {
    if random.percent(50) {
        script.then(Op::Settle);
    }
    let tcb = tcb_of(helper);
    match random.below(4) {
        0 => script.then(Op::Suspend { tcb }),
        1 => script.then(Op::Suspend { tcb }).then(Op::Resume { tcb }),
        2 => script.then(Op::Resume { tcb }),
        _ => script.then(start(helper, random.below(u64::from(HELPER_CALLS)) as u16)),
    }
}

/// Maps and unmaps the memory that helpers access.
fn memory_call<'a>(script: &'a mut Script, random: &Random) -> &'a mut Script {
    if random.percent(40) {
        return script.then(Op::UnmapFrame { frame: Slot(FRAME) });
    }
    let rights = random.one(&[Rights::READ_WRITE, Rights::READ_WRITE, Rights::READ]);
    let vaddr = OPEN + (random.below(2) << 12);
    script.then(Op::MapFrame {
        frame: Slot(FRAME),
        vspace: Slot::VSPACE,
        vaddr,
        rights,
        cache: CacheAttributes::WriteBack,
    })
}

/// Any invocation that does not touch what the sequence depends on: the memory of kept objects, and the helpers' pages.
fn without_memory(picture: &mut Picture, random: &Random) -> Op {
    loop {
        let op = invocations::call(picture, random);
        let is_kept = match op {
            Op::Revoke { slot: Path::Own(slot) } => MEMORY.contains(&slot),
            Op::Retype { untyped, .. } | Op::MakePool { untyped, .. } => untyped == MEMORY[3],
            Op::MapFrame { frame, .. } => frame.0 < NOTIFICATIONS.start && random.percent(50),
            _ => false,
        };
        if !is_kept {
            return op;
        }
    }
}
