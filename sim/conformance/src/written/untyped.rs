//! Retype, and the memory that revoking frees.

use crate::op::{Op, Slot};
use crate::script::{Script, Topic, copy, delete, make, make_sized, revoke};
use crate::stage::{DEVICE, MEMORY};
use platform::{ObjectType, TableLevel};

pub(super) fn all() -> Vec<Script> {
    vec![every_kind(), sizes(), too_much(), device(), children(), destinations()]
}

fn retype(untyped: Slot, object: ObjectType, size_bits: u8, first: u16, count: u16) -> Op {
    Op::Retype { untyped, object, size_bits, cnode: Slot::CNODE, first, count }
}

fn every_kind() -> Script {
    let mut script =
        Script::new(Topic::Untyped, "every kind of object is made, with what is left reported by the next");
    let kinds = [
        ObjectType::Endpoint,
        ObjectType::Notification,
        ObjectType::Tcb,
        ObjectType::VSpace,
        ObjectType::TranslationTable(TableLevel::One),
        ObjectType::TranslationTable(TableLevel::Two),
        ObjectType::TranslationTable(TableLevel::Three),
        ObjectType::SmallPage,
        ObjectType::IoPageTable,
    ];
    for (slot, kind) in (20..).zip(kinds) {
        script.then(make(kind, slot, 1));
        // Far too large: the error reports how much is left.
        script.then(make_sized(ObjectType::Untyped, 30, 60, 1));
    }
    script.then(make_sized(ObjectType::CNode, 4, 40, 1)).then(make_sized(ObjectType::Untyped, 5, 41, 3));
    script.then(retype(MEMORY[0], ObjectType::LargePage, 0, 42, 1));
    script.then(Op::FrameAddress { frame: Slot(27) }).then(Op::FrameAddress { frame: Slot(42) });
    script.then(make(ObjectType::SmallPage, 50, 2)).then(Op::FrameAddress { frame: Slot(51) });
    script
}

fn sizes() -> Script {
    let mut script = Script::new(Topic::Untyped, "sizes at their limits");
    for size_bits in [0, 1, 3, 4, 5, 11, 12, 13, 15, 16, 17, 47, 48, 61, 62, 63, 64, 127, 255] {
        script.then(make_sized(ObjectType::Untyped, size_bits, 20, 1)).then(delete(20)).then(revoke(2));
        script.then(make_sized(ObjectType::CNode, size_bits, 20, 1)).then(delete(20));
        script.then(make_sized(ObjectType::Endpoint, size_bits, 20, 1)).then(delete(20));
    }
    script
}

fn too_much() -> Script {
    let mut script = Script::new(Topic::Untyped, "more than there is, and the very last of it");
    script.then(retype(MEMORY[3], ObjectType::SmallPage, 0, 20, 2));
    script.then(retype(MEMORY[3], ObjectType::SmallPage, 0, 20, 1));
    script.then(retype(MEMORY[3], ObjectType::Endpoint, 0, 21, 1));
    script.then(delete(20)).then(retype(MEMORY[3], ObjectType::Endpoint, 0, 21, 1));
    script.then(retype(MEMORY[3], ObjectType::SmallPage, 0, 20, 1));
    script.then(retype(MEMORY[3], ObjectType::Endpoint, 0, 22, 60));
    for count in [0, 1, 255, 256, 257, 1000] {
        script.then(retype(MEMORY[0], ObjectType::Endpoint, 0, 90, count));
    }
    script.then(retype(MEMORY[1], ObjectType::LargePage, 0, 95, 1));
    script.then(retype(MEMORY[0], ObjectType::LargePage, 0, 95, 2));
    script.then(retype(MEMORY[0], ObjectType::LargePage, 0, 96, 1));
    script
}

fn device() -> Script {
    let mut script = Script::new(Topic::Untyped, "device memory becomes frames and untypeds and nothing else");
    for kind in [
        ObjectType::Endpoint,
        ObjectType::Tcb,
        ObjectType::TranslationTable(TableLevel::Three),
        ObjectType::CNode,
        ObjectType::VSpace,
    ] {
        script.then(retype(DEVICE, kind, 4, 20, 1));
    }
    script.then(retype(DEVICE, ObjectType::SmallPage, 0, 20, 2));
    script.then(Op::FrameAddress { frame: Slot(20) }).then(Op::FrameAddress { frame: Slot(21) });
    script.then(retype(DEVICE, ObjectType::Untyped, 13, 22, 1));
    script.then(retype(Slot(22), ObjectType::SmallPage, 0, 23, 1)).then(retype(
        Slot(22),
        ObjectType::Endpoint,
        0,
        24,
        1,
    ));
    script.then(Op::FrameAddress { frame: Slot(23) }).then(retype(DEVICE, ObjectType::LargePage, 0, 25, 1));
    script.then(delete(20)).then(delete(21)).then(retype(DEVICE, ObjectType::SmallPage, 0, 20, 1));
    script.then(Op::FrameAddress { frame: Slot(20) });
    script.then(revoke(DEVICE.0)).then(retype(DEVICE, ObjectType::SmallPage, 0, 20, 1));
    script.then(Op::FrameAddress { frame: Slot(20) });
    script
}

fn children() -> Script {
    let mut script =
        Script::new(Topic::Untyped, "an untyped with children is not copied, and starts over without them");
    script.then(copy(20, 2)).then(make(ObjectType::Endpoint, 21, 1)).then(copy(22, 2)).then(copy(22, 20));
    script.then(retype(Slot(20), ObjectType::SmallPage, 0, 23, 1)).then(Op::FrameAddress { frame: Slot(23) });
    script.then(revoke(20)).then(delete(23)).then(revoke(2)).then(delete(20)).then(delete(21));
    script.then(make_sized(ObjectType::Untyped, 14, 20, 4)).then(make(ObjectType::Endpoint, 24, 1));
    script.then(retype(Slot(20), ObjectType::SmallPage, 0, 24, 4)).then(retype(
        Slot(20),
        ObjectType::Endpoint,
        0,
        30,
        1,
    ));
    script.then(delete(24)).then(retype(Slot(20), ObjectType::Endpoint, 0, 30, 1));
    script.then(revoke(20)).then(retype(Slot(20), ObjectType::Endpoint, 0, 30, 1));
    // The child goes and its own children with it; its memory is not the parent's again before all are gone.
    script.then(delete(20)).then(make(ObjectType::Endpoint, 31, 1)).then(revoke(2)).then(make(
        ObjectType::SmallPage,
        32,
        1,
    ));
    script.then(Op::FrameAddress { frame: Slot(32) });
    script
}

fn destinations() -> Script {
    let mut script = Script::new(Topic::Untyped, "destinations that are full, missing or no CNode");
    let into = |cnode, first, count| Op::Retype {
        untyped: MEMORY[1],
        object: ObjectType::Endpoint,
        size_bits: 0,
        cnode,
        first,
        count,
    };
    script.then(into(Slot::CNODE, 20, 1)).then(into(Slot::CNODE, 20, 1)).then(into(Slot::CNODE, 19, 2));
    script.then(into(Slot::CNODE, 19, 1)).then(into(Slot(20), 0, 1)).then(into(Slot::EMPTY, 0, 1));
    script.then(make_sized(ObjectType::CNode, 3, 30, 1));
    for (first, count) in [(0, 8), (0, 1), (7, 1), (7, 2), (8, 1), (9, 1), (100, 1), (0, 9)] {
        script.then(into(Slot(30), first, count));
    }
    script.then(retype(Slot::EMPTY, ObjectType::Endpoint, 0, 50, 1));
    // A thread has no retype. A notification is signalled by any invocation.
    script.then(retype(Slot::TCB, ObjectType::Endpoint, 0, 50, 1)).then(make(ObjectType::Notification, 51, 1));
    script.then(retype(Slot(51), ObjectType::Endpoint, 0, 52, 1)).then(Op::NbReceive { from: Slot(51) });
    script
}
