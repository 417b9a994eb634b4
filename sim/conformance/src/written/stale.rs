//! Capabilities with an old mapping whose place now belongs to another: the mappings that they can still remove.

use crate::op::{Op, Path, Slot};
use crate::script::{Script, Topic, copy, delete, make, own};
use crate::stage::MEMORY;
use platform::{CacheAttributes, CapData, ObjectType, Rights, TableLevel};

pub(super) fn all() -> Vec<Script> {
    vec![identifiers(), same_frame(), below_a_table(), pools(), io_spaces()]
}

const AT: u64 = 0x4567_8000;

fn map(frame: u16, vspace: u16, vaddr: u64) -> Op {
    let (rights, cache) = (Rights::READ_WRITE, CacheAttributes::WriteBack);
    Op::MapFrame { frame: Slot(frame), vspace: Slot(vspace), vaddr, rights, cache }
}

/// A VSpace in slot `first`, tables for [`AT`] in the three behind it, the page of slot `first + 4` mapped there.
fn vspace(script: &mut Script, first: u16, pool: Slot) {
    script.then(make(ObjectType::VSpace, first, 1)).then(Op::AssignPool { pool, vspace: Slot(first) });
    script.then(make(ObjectType::TranslationTable(TableLevel::One), first + 1, 1)).then(make(
        ObjectType::TranslationTable(TableLevel::Two),
        first + 2,
        1,
    ));
    script.then(make(ObjectType::TranslationTable(TableLevel::Three), first + 3, 1)).then(make(
        ObjectType::SmallPage,
        first + 4,
        1,
    ));
    script.then(Op::MapTable { level: TableLevel::One, table: Slot(first + 1), vspace: Slot(first), vaddr: AT });
    script.then(Op::MapTable { level: TableLevel::Two, table: Slot(first + 2), vspace: Slot(first), vaddr: AT });
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(first + 3), vspace: Slot(first), vaddr: AT });
    script.then(map(first + 4, first, AT));
}

/// Shows which levels of the VSpace in slot `vspace` exist, by mapping spare structures.
fn see(script: &mut Script, vspace: u16) {
    let (vaddr, vspace_slot) = (AT, Slot(vspace));
    script.then(map(84, vspace, AT)).then(Op::UnmapFrame { frame: Slot(84) });
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(83), vspace: vspace_slot, vaddr });
    script.then(Op::MapTable { level: TableLevel::Two, table: Slot(82), vspace: vspace_slot, vaddr });
    script.then(Op::MapTable { level: TableLevel::One, table: Slot(81), vspace: vspace_slot, vaddr });
}

fn spares(script: &mut Script) {
    script.then(make(ObjectType::TranslationTable(TableLevel::One), 81, 1)).then(make(
        ObjectType::TranslationTable(TableLevel::Two),
        82,
        1,
    ));
    script.then(make(ObjectType::TranslationTable(TableLevel::Three), 83, 1)).then(make(ObjectType::SmallPage, 84, 1));
}

fn identifiers() -> Script {
    let mut script = Script::new(
        Topic::VSpace,
        "an identifier that was resubmitted protects the new VSpace from the old one's tables",
    );
    for gone in [24, 23, 22, 21] {
        vspace(&mut script, 20, Slot::ASID_POOL);
        script.then(delete(20));
        vspace(&mut script, 30, Slot::ASID_POOL);
        spares(&mut script);
        script.then(Op::UnmapFrame { frame: Slot(24) }).then(delete(gone));
        see(&mut script, 30);
        for slot in 20..25 {
            script.then(delete(slot));
        }
        see(&mut script, 30);
        script.then(Op::Revoke { slot: Path::Own(MEMORY[1]) });
    }
    script
}

fn same_frame() -> Script {
    let mut script =
        Script::new(Topic::VSpace, "an old capability to the same frame at the same place takes the new mapping");
    for remap in [0, 1] {
        vspace(&mut script, 20, Slot::ASID_POOL);
        script.then(copy(25, 24)).then(delete(20));
        vspace(&mut script, 30, Slot::ASID_POOL);
        spares(&mut script);
        script.then(Op::UnmapFrame { frame: Slot(34) }).then(map(25, 30, AT)).then(map(24, 30, AT));
        script.then(if remap == 0 { Op::UnmapFrame { frame: Slot(24) } } else { delete(24) });
        see(&mut script, 30);
        script.then(map(25, 30, AT)).then(Op::UnmapFrame { frame: Slot(25) });
        script.then(Op::Revoke { slot: Path::Own(MEMORY[1]) });
    }
    script
}

fn below_a_table() -> Script {
    let mut script =
        Script::new(Topic::VSpace, "a frame whose table went is mapped nowhere, and free for another place");
    vspace(&mut script, 20, Slot::ASID_POOL);
    spares(&mut script);
    script
        .then(delete(23))
        .then(Op::MapTable { level: TableLevel::Three, table: Slot(83), vspace: Slot(20), vaddr: AT })
        .then(map(84, 20, AT));
    // The capability keeps the old place until it is unmapped; the other's page stays.
    script.then(map(24, 20, AT)).then(map(24, 20, AT + 0x1000)).then(Op::UnmapFrame { frame: Slot(24) });
    script.then(map(24, 20, AT + 0x1000)).then(map(84, 20, AT)).then(Op::UnmapFrame { frame: Slot(84) });
    // A table that was moved to another directory's place.
    script
        .then(delete(22))
        .then(Op::MapTable { level: TableLevel::Two, table: Slot(82), vspace: Slot(20), vaddr: AT })
        .then(map(84, 20, AT));
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(83), vspace: Slot(20), vaddr: AT }).then(make(
        ObjectType::TranslationTable(TableLevel::Three),
        85,
        1,
    ));
    script
        .then(Op::MapTable { level: TableLevel::Three, table: Slot(85), vspace: Slot(20), vaddr: AT })
        .then(map(84, 20, AT))
        .then(delete(83));
    script.then(Op::UnmapFrame { frame: Slot(84) }).then(map(84, 20, AT)).then(map(24, 20, AT + 0x1000));
    script.then(Op::UnmapFrame { frame: Slot(24) }).then(map(24, 20, AT + 0x1000));
    script
}

fn pools() -> Script {
    let mut script =
        Script::new(Topic::VSpace, "a pool that was made again at an old one's place knows nothing of the old VSpaces");
    let pool = Op::MakePool { control: Slot::ASID_CONTROL, untyped: MEMORY[3], dest: own(15) };
    script.then(pool);
    vspace(&mut script, 20, Slot(15));
    spares(&mut script);
    script
        .then(delete(15))
        .then(map(24, 20, AT))
        .then(Op::UnmapFrame { frame: Slot(24) })
        .then(map(84, 20, AT))
        .then(pool);
    see(&mut script, 20);
    vspace(&mut script, 30, Slot(15));
    script.then(map(24, 20, AT)).then(map(24, 30, AT + 0x1000)).then(delete(24)).then(delete(23)).then(delete(20));
    see(&mut script, 30);
    script
        .then(Op::AssignPool { pool: Slot(15), vspace: Slot(20) })
        .then(Op::AssignPool { pool: Slot(15), vspace: Slot(30) });
    script
}

fn io_spaces() -> Script {
    let mut script =
        Script::new(Topic::IoSpace, "tables and frames of an IOSpace that ended do nothing to its successor");
    let space = |dest| Op::Mint {
        dest: own(dest),
        src: Path::Own(Slot::IO_SPACES),
        rights: Rights::ALL,
        data: CapData::IoSpace { domain: 1, requester_id: 0x20 },
    };
    let table = |table, space| Op::MapIoTable { table: Slot(table), space: Slot(space), iova: 0 };
    let frame =
        |frame, space, iova| Op::MapIo { frame: Slot(frame), space: Slot(space), rights: Rights::READ_WRITE, iova };
    for gone in [40, 30, 31, 32] {
        script.then(space(20)).then(make(ObjectType::IoPageTable, 30, 3)).then(make(ObjectType::SmallPage, 40, 2));
        script.then(table(30, 20)).then(table(31, 20)).then(table(32, 20)).then(frame(40, 20, 0)).then(delete(20));
        script.then(space(21)).then(make(ObjectType::IoPageTable, 50, 4)).then(make(ObjectType::SmallPage, 60, 2));
        script
            .then(table(50, 21))
            .then(table(51, 21))
            .then(table(52, 21))
            .then(frame(60, 21, 0))
            .then(frame(41, 21, 0x1000));
        script.then(if gone == 40 {
            Op::UnmapFrame { frame: Slot(40) }
        } else {
            Op::UnmapIoTable { table: Slot(gone) }
        });
        script.then(delete(gone)).then(frame(61, 21, 0)).then(table(53, 21));
        for slot in [40, 30, 31, 32] {
            script.then(delete(slot));
        }
        script.then(frame(61, 21, 0)).then(frame(61, 21, 0x2000)).then(table(53, 21));
        // The top table is unmapped: all below it is out of reach, and can be removed without harm.
        script
            .then(Op::UnmapIoTable { table: Slot(50) })
            .then(frame(61, 21, 0x3000))
            .then(table(53, 21))
            .then(table(50, 21));
        script.then(Op::UnmapIoTable { table: Slot(51) }).then(Op::UnmapFrame { frame: Slot(60) }).then(table(51, 21));
        script.then(delete(21)).then(Op::Revoke { slot: Path::Own(MEMORY[1]) });
    }
    script
}
