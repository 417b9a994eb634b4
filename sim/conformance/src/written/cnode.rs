//! Copy, mint, move, delete, revoke, and the lookup of slots.

use crate::op::{Op, Path, Slot};
use crate::script::{Script, Topic, copy, delete, make, make_sized, mint, own, revoke};
use crate::stage::{HELPER_CNODE, HELPER_CNODE_BITS};
use platform::{Badge, CapData, ObjectType, Rights, TableLevel};

pub(super) fn all() -> Vec<Script> {
    vec![places(), depths(), rights(), badges(), guards(), moves(), family(), unfamiliar(), tree(), nested()]
}

fn places() -> Script {
    let mut script = Script::new(Topic::CNode, "sources that are empty, destinations that are full");
    script.then(make(ObjectType::Endpoint, 20, 1)).then(copy(21, 20)).then(copy(21, 20)).then(copy(22, 23));
    script.then(mint(own(22), 23, 1)).then(mint(own(21), 20, 1)).then(Op::Move { dest: own(21), src: own(20) });
    script.then(Op::Move { dest: own(24), src: own(23) }).then(Op::Move { dest: own(20), src: own(20) });
    script.then(copy(20, 20)).then(delete(23)).then(revoke(23)).then(delete(20)).then(delete(20)).then(copy(20, 21));
    // A capability that is no CNode, and one that is not there. (An endpoint in its place would be sent the call.)
    script.then(Op::Delete { slot: Path::In(Slot(2), 0, 5) }).then(Op::Delete { slot: Path::In(Slot::TCB, 0, 64) });
    script.then(Op::Delete { slot: Path::In(Slot::EMPTY, 0, 64) });
    script.then(Op::Copy { dest: own(25), src: Path::In(Slot::TCB, 0, 64), rights: Rights::ALL });
    script.then(Op::Copy { dest: own(25), src: Path::In(Slot::EMPTY, 0, 64), rights: Rights::ALL });
    script
}

fn depths() -> Script {
    let mut script = Script::new(Topic::CNode, "every depth, of the root's CNode and of one of few slots");
    script.then(make(ObjectType::Endpoint, 20, 1));
    for depth in [0, 1, 15, 16, 17, 47, 48, 49, 63, 64, 65, 127, 128, 255] {
        script.then(Op::Copy { dest: own(21), src: Path::OwnAt(Slot(20), depth), rights: Rights::ALL });
        script.then(Op::Copy { dest: Path::OwnAt(Slot(22), depth), src: own(20), rights: Rights::ALL });
        script.then(delete(21)).then(delete(22));
    }
    let cnode = HELPER_CNODE[0];
    for depth in [0, 4, 5, 6, 32, 64] {
        for index in [9, 31, 32, 41, 1 << 5 | 9] {
            script.then(Op::Copy { dest: Path::In(cnode, index, depth), src: own(20), rights: Rights::ALL });
            script.then(Op::Delete { slot: Path::In(cnode, index, depth) });
        }
    }
    script
}

fn rights() -> Script {
    let mut script = Script::new(Topic::CNode, "rights only shrink, and retyping into a read-only CNode is refused");
    script.then(make_sized(ObjectType::CNode, 3, 20, 1)).then(make(ObjectType::SmallPage, 21, 1));
    for (slot, rights) in (30..).zip([Rights::ALL, Rights::READ_WRITE, Rights::READ, Rights::WRITE, Rights::default()])
    {
        script.then(Op::Copy { dest: own(slot), src: own(20), rights });
        script.then(Op::Retype {
            untyped: Slot(2),
            object: ObjectType::Endpoint,
            size_bits: 0,
            cnode: Slot(slot),
            first: slot - 30,
            count: 1,
        });
        script.then(Op::Copy { dest: own(slot + 10), src: own(21), rights });
        script.then(Op::FrameAddress { frame: Slot(slot + 10) });
    }
    script
}

fn badges() -> Script {
    let mut script = Script::new(Topic::CNode, "a badge is given once, to originals alone, and within its bits");
    script.then(make(ObjectType::Endpoint, 20, 1)).then(make(ObjectType::Notification, 21, 1));
    for (slot, badge) in (30..).zip([0, 1, (1 << 28) - 1]) {
        script.then(mint(own(slot), 20, badge)).then(mint(own(slot + 10), slot, 5)).then(copy(slot + 20, slot));
        script.then(mint(own(slot + 30), slot, 0));
    }
    for (slot, badge) in (70..).zip([0, Badge::SIGNAL, Badge::SIGNAL | 1 << 40 | 3]) {
        script.then(mint(own(slot), 21, badge)).then(mint(own(slot + 10), slot, Badge::SIGNAL | 9));
        script.then(copy(slot + 20, slot)).then(Op::Signal { notification: Slot(slot + 20) });
        script.then(Op::NbReceive { from: Slot(21) });
    }
    // Badges have no effect on other kinds.
    script.then(make(ObjectType::Tcb, 22, 1)).then(make(ObjectType::SmallPage, 23, 1));
    script.then(mint(own(100), 22, 4)).then(mint(own(101), 23, 4)).then(mint(own(102), 2, 4));
    script
}

fn guards() -> Script {
    let mut script = Script::new(Topic::CNode, "guards are skipped, must match, and must leave room for the index");
    script.then(make_sized(ObjectType::CNode, 4, 20, 1)).then(make(ObjectType::Endpoint, 21, 1));
    let guards = [(0, 0), (4, 0b1010), (8, 0xff), (60, 0), (60, 5), (61, 0), (63, 1), (3, 0xff), (58, 1 << 57)];
    for (size, value) in guards {
        let data = CapData::Guard { size, value };
        script.then(Op::Mint { dest: own(30), src: own(20), rights: Rights::ALL, data });
        let masked = value & (1u64 << size).wrapping_sub(1);
        for (index, depth) in [(masked << 4 | 3, size + 4), (3, 4), (3, 64), (masked << 4 | 3, size + 3)] {
            script.then(Op::Copy { dest: Path::In(Slot(30), index, depth), src: own(21), rights: Rights::ALL });
            script.then(Op::Delete { slot: Path::In(Slot(30), index, depth) });
        }
        script.then(delete(30));
    }
    script
}

fn moves() -> Script {
    let mut script = Script::new(Topic::CNode, "a moved capability keeps its place in the family and its mapping");
    script.then(make(ObjectType::Endpoint, 20, 1)).then(mint(own(21), 20, 3)).then(copy(22, 21)).then(copy(23, 22));
    script.then(Op::Move { dest: own(24), src: own(21) }).then(copy(25, 21)).then(revoke(24)).then(copy(26, 22));
    script.then(copy(27, 23)).then(copy(28, 24)).then(Op::Move { dest: own(29), src: own(20) }).then(revoke(29));
    script.then(copy(30, 24)).then(copy(31, 29));
    // An untyped and its children.
    script.then(make_sized(ObjectType::Untyped, 12, 40, 1)).then(Op::Move { dest: own(41), src: own(40) });
    let retype = |untyped, first| Op::Retype {
        untyped: Slot(untyped),
        object: ObjectType::Endpoint,
        size_bits: 0,
        cnode: Slot::CNODE,
        first,
        count: 1,
    };
    script.then(retype(41, 42)).then(Op::Move { dest: own(40), src: own(41) }).then(retype(40, 43)).then(revoke(40));
    script.then(copy(44, 42)).then(copy(44, 43)).then(retype(40, 44));
    script
}

fn family() -> Script {
    let mut script =
        Script::new(Topic::CNode, "revoking takes what was minted and what was copied of it, not its like");
    let alive = |script: &mut Script| {
        for slot in 20..32 {
            script.then(copy(99, slot)).then(delete(99));
        }
    };
    for target in [20, 21, 22, 23, 24, 26] {
        script.then(make(ObjectType::Endpoint, 20, 1)).then(copy(21, 20)).then(mint(own(22), 20, 1)).then(copy(23, 22));
        script.then(mint(own(24), 21, 2)).then(copy(25, 24)).then(copy(26, 20)).then(mint(own(27), 26, 1));
        script.then(revoke(target));
        alive(&mut script);
        script.then(revoke(2));
        alive(&mut script);
    }
    script
}

/// Kinds that are copied in other ways than endpoints: which copies count as derived.
fn unfamiliar() -> Script {
    let mut script = Script::new(Topic::CNode, "copies of TCBs, CNodes, frames and tables stand beside the original");
    let kinds = [
        ObjectType::Tcb,
        ObjectType::SmallPage,
        ObjectType::TranslationTable(TableLevel::Three),
        ObjectType::VSpace,
        ObjectType::IoPageTable,
        ObjectType::Notification,
    ];
    for kind in kinds {
        script.then(make(kind, 20, 1)).then(copy(21, 20)).then(copy(22, 21)).then(revoke(21)).then(copy(23, 22));
        script.then(revoke(20)).then(copy(24, 21)).then(copy(25, 20)).then(delete(20)).then(copy(26, 25));
        script.then(revoke(2)).then(delete(26));
    }
    for slot in [Slot::CNODE, Slot::TCB, Slot::VSPACE, Slot::ASID_POOL, Slot::ASID_CONTROL, Slot::IRQ_CONTROL] {
        script.then(Op::Copy { dest: own(30), src: Path::Own(slot), rights: Rights::ALL });
        script.then(copy(31, 30)).then(delete(30)).then(delete(31));
    }
    script
}

fn tree() -> Script {
    let mut script = Script::new(Topic::CNode, "deleting the middle of a family leaves the rest to the rest");
    for middle in [21, 22, 23] {
        script.then(make(ObjectType::Notification, 20, 1)).then(copy(21, 20)).then(mint(
            own(22),
            21,
            Badge::SIGNAL | 2,
        ));
        script.then(copy(23, 22)).then(copy(24, 23)).then(delete(middle));
        script.then(Op::Signal { notification: Slot(24) }).then(Op::NbReceive { from: Slot(20) }).then(revoke(21));
        script.then(Op::Signal { notification: Slot(24) }).then(revoke(20)).then(Op::NbReceive { from: Slot(20) });
        for slot in 20..25 {
            script.then(copy(99, slot)).then(delete(99)).then(delete(slot));
        }
    }
    script
}

fn nested() -> Script {
    let mut script = Script::new(Topic::CNode, "CNodes in CNodes, and the end of one with capabilities in it");
    script.then(make_sized(ObjectType::CNode, 3, 20, 1)).then(make_sized(ObjectType::CNode, 4, 21, 1));
    script.then(make(ObjectType::Endpoint, 22, 1));
    // The inner CNode is found through the outer: three bits, then four.
    script.then(Op::Copy { dest: Path::In(Slot(20), 5, 3), src: own(21), rights: Rights::ALL });
    for (index, depth) in [(5 << 4 | 9, 7), (4 << 4 | 9, 7), (5 << 4 | 9, 8), (5, 3), (5 << 4 | 9, 6)] {
        script.then(Op::Copy { dest: Path::In(Slot(20), index, depth), src: own(22), rights: Rights::ALL });
    }
    script.then(Op::Copy { dest: own(23), src: Path::In(Slot(21), 9, 4), rights: Rights::ALL });
    script.then(Op::Mint {
        dest: Path::In(Slot(21), 8, 4),
        src: own(22),
        rights: Rights::ALL,
        data: CapData::Badge(Badge(1)),
    });
    // A CNode that holds itself, and the way into it from inside.
    script.then(Op::Move { dest: Path::In(Slot(21), 2, 4), src: own(21) });
    script
        .then(Op::Delete { slot: Path::In(Slot(20), 5 << 4 | 8, 7) })
        .then(Op::Delete { slot: Path::In(Slot(20), 5, 3) });
    script.then(revoke(22)).then(copy(24, 23)).then(delete(20)).then(delete(20)).then(revoke(2));
    for helper in HELPER_CNODE {
        script.then(Op::Copy { dest: own(25), src: Path::In(helper, 1, HELPER_CNODE_BITS), rights: Rights::ALL });
        script.then(delete(25));
    }
    script
}
