//! Paging structures, frames, ASIDs, and the memory that can be reached afterwards.

use crate::op::{Op, Path, Slot};
use crate::script::{Script, Topic, copy, delete, make, mint, of_helper, own, revoke};
use crate::stage::{DEVICE, FAULT_ENDPOINT, MEMORY, OPEN};
use platform::{CacheAttributes, ObjectType, Rights, TableLevel};

pub(super) fn all() -> Vec<Script> {
    vec![
        levels(),
        frames(),
        contents(),
        copies(),
        large(),
        pools(),
        foreign(),
        tables_go(),
        rights_of_frames(),
        device(),
    ]
}

const PAGE: u64 = 1 << 12;
const TABLE: u64 = 1 << 21;
const DIRECTORY: u64 = 1 << 30;
const PDPT: u64 = 1 << 39;
/// End of user level's addresses, and start of the kernel's own.
const USER_TOP: u64 = 0x7fff_ffff_f000;
const KERNEL: u64 = 0xffff_ff80_0000_0000;

fn map(frame: u16, vspace: Slot, vaddr: u64) -> Op {
    Op::MapFrame { frame: Slot(frame), vspace, vaddr, rights: Rights::READ_WRITE, cache: CacheAttributes::WriteBack }
}

/// A page table under the first open address of the mapping area, in slot 20, and a fault endpoint for helper 1 in slot 21.
fn ready(script: &mut Script) {
    script.then(make(ObjectType::TranslationTable(TableLevel::Three), 20, 1)).then(Op::Retype {
        untyped: MEMORY[2],
        object: ObjectType::Endpoint,
        size_bits: 0,
        cnode: Slot::CNODE,
        first: 21,
        count: 1,
    });
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(20), vspace: Slot::VSPACE, vaddr: OPEN });
    script.then(mint(of_helper(1, FAULT_ENDPOINT), 21, 0x55));
}

/// Makes helper 1 do `op`, and polls for its fault.
fn probe(script: &mut Script, op: Op) {
    script.start(1).helper(1, op).then(Op::Settle).then(Op::NbReceive { from: Slot(21) });
}

fn levels() -> Script {
    let mut script = Script::new(Topic::VSpace, "every level of paging, missing, present, twice, at any address");
    script
        .then(make(ObjectType::VSpace, 20, 1))
        .then(make(ObjectType::TranslationTable(TableLevel::One), 21, 2))
        .then(make(ObjectType::TranslationTable(TableLevel::Two), 23, 2));
    script.then(make(ObjectType::TranslationTable(TableLevel::Three), 25, 2)).then(make(ObjectType::SmallPage, 27, 2));
    let vspace = Slot(20);
    let at = 5 * PDPT + 3 * DIRECTORY + 7 * TABLE + 9 * PAGE;
    let all = |script: &mut Script, vaddr: u64| {
        script.then(map(27, vspace, vaddr)).then(Op::MapTable {
            level: TableLevel::Three,
            table: Slot(25),
            vspace,
            vaddr,
        });
        script.then(Op::MapTable { level: TableLevel::Two, table: Slot(23), vspace, vaddr });
        script.then(Op::MapTable { level: TableLevel::One, table: Slot(21), vspace, vaddr });
    };
    all(&mut script, at);
    script
        .then(Op::AssignPool { pool: Slot::ASID_POOL, vspace })
        .then(Op::AssignPool { pool: Slot::ASID_POOL, vspace });
    for _ in 0..4 {
        all(&mut script, at);
    }
    script.then(Op::MapTable { level: TableLevel::One, table: Slot(22), vspace, vaddr: at });
    script.then(Op::MapTable { level: TableLevel::Two, table: Slot(24), vspace, vaddr: at });
    script
        .then(Op::MapTable { level: TableLevel::Three, table: Slot(26), vspace, vaddr: at })
        .then(map(28, vspace, at));
    // Elsewhere, beyond the user's half, and not canonical.
    for vaddr in
        [u64::MAX - PAGE + 1, KERNEL, KERNEL - PAGE, USER_TOP, USER_TOP - PAGE, 1 << 47, 1 << 48, 0, 1, PAGE, at + 1]
    {
        script
            .then(Op::MapTable { level: TableLevel::One, table: Slot(22), vspace, vaddr })
            .then(map(28, vspace, vaddr));
        script.then(Op::MapTable { level: TableLevel::Two, table: Slot(24), vspace, vaddr });
        script.then(Op::MapTable { level: TableLevel::Three, table: Slot(26), vspace, vaddr });
    }
    script
}

fn frames() -> Script {
    let mut script =
        Script::new(Topic::VSpace, "a frame is mapped once a capability, moved within its VSpace, unmapped at will");
    ready(&mut script);
    script.then(make(ObjectType::SmallPage, 30, 2));
    script.then(Op::UnmapFrame { frame: Slot(30) }).then(map(30, Slot::VSPACE, OPEN));
    // Another address is refused, the same one again is a change of rights.
    script.then(map(30, Slot::VSPACE, OPEN + PAGE)).then(map(30, Slot::VSPACE, OPEN)).then(map(31, Slot::VSPACE, OPEN));
    script.then(map(31, Slot::VSPACE, OPEN + 1)).then(map(31, Slot::VSPACE, OPEN + TABLE)).then(map(
        31,
        Slot::VSPACE,
        OPEN + PAGE,
    ));
    script.then(Op::UnmapFrame { frame: Slot(30) }).then(Op::UnmapFrame { frame: Slot(30) });
    script.then(map(30, Slot::VSPACE, OPEN + 2 * PAGE)).then(Op::UnmapFrame { frame: Slot(20) });
    script.then(map(20, Slot::VSPACE, OPEN + 3 * PAGE)).then(map(30, Slot(20), OPEN)).then(map(30, Slot::EMPTY, OPEN));
    script.then(map(30, Slot::TCB, OPEN)).then(Op::FrameAddress { frame: Slot(20) }).then(map(0, Slot::VSPACE, OPEN));
    script
}

fn contents() -> Script {
    let mut script = Script::new(Topic::VSpace, "what is written is read elsewhere, and new memory is empty");
    ready(&mut script);
    script.then(make(ObjectType::SmallPage, 30, 1)).then(copy(31, 30)).then(map(30, Slot::VSPACE, OPEN));
    script.then(map(31, Slot::VSPACE, OPEN + PAGE));
    probe(&mut script, Op::Load { vaddr: OPEN });
    probe(&mut script, Op::Store { vaddr: OPEN + 8, value: 0x1234_5678_9abc_def0 });
    probe(&mut script, Op::Load { vaddr: OPEN + PAGE + 8 });
    script.then(delete(30));
    probe(&mut script, Op::Load { vaddr: OPEN + 8 });
    probe(&mut script, Op::Load { vaddr: OPEN + PAGE + 8 });
    script.then(Op::UnmapFrame { frame: Slot(31) });
    probe(&mut script, Op::Store { vaddr: OPEN + PAGE + 8, value: 1 });
    // The memory is empty again.
    script.then(delete(31)).then(revoke(2));
    ready(&mut script);
    script.then(make(ObjectType::SmallPage, 30, 1)).then(map(30, Slot::VSPACE, OPEN));
    probe(&mut script, Op::Load { vaddr: OPEN + 8 });
    script
}

fn copies() -> Script {
    let mut script = Script::new(Topic::VSpace, "a mapping goes with the capability that made it, and with no other");
    ready(&mut script);
    script.then(make(ObjectType::SmallPage, 30, 1));
    for slot in 31..35u16 {
        script.then(copy(slot, 30)).then(map(slot, Slot::VSPACE, OPEN + u64::from(slot - 31) * PAGE));
    }
    let see = |script: &mut Script| {
        for page in 0..4 {
            probe(script, Op::Load { vaddr: OPEN + page * PAGE });
        }
    };
    see(&mut script);
    script.then(delete(31)).then(Op::UnmapFrame { frame: Slot(32) });
    see(&mut script);
    // A move keeps the mapping; a copy of a mapped capability is not mapped.
    script.then(Op::Move { dest: own(40), src: own(33) }).then(copy(41, 40)).then(Op::UnmapFrame { frame: Slot(41) });
    see(&mut script);
    script.then(Op::UnmapFrame { frame: Slot(40) });
    see(&mut script);
    script.then(revoke(2));
    see(&mut script);
    script
}

fn large() -> Script {
    let mut script = Script::new(Topic::VSpace, "large frames stand where tables would, aligned");
    ready(&mut script);
    script.then(Op::Retype {
        untyped: MEMORY[0],
        object: ObjectType::LargePage,
        size_bits: 0,
        cnode: Slot::CNODE,
        first: 30,
        count: 1,
    });
    script.then(copy(31, 30)).then(make(ObjectType::TranslationTable(TableLevel::Three), 32, 1)).then(make(
        ObjectType::SmallPage,
        33,
        1,
    ));
    script.then(map(30, Slot::VSPACE, OPEN)).then(map(30, Slot::VSPACE, OPEN + PAGE));
    script.then(map(30, Slot::VSPACE, OPEN + TABLE)).then(map(33, Slot::VSPACE, OPEN + TABLE));
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(32), vspace: Slot::VSPACE, vaddr: OPEN + TABLE });
    probe(&mut script, Op::Store { vaddr: OPEN + TABLE + 0x1f_fff8, value: 77 });
    script.then(map(31, Slot::VSPACE, OPEN + 4 * TABLE));
    probe(&mut script, Op::Load { vaddr: OPEN + 4 * TABLE + 0x1f_fff8 });
    script.then(Op::UnmapFrame { frame: Slot(30) });
    probe(&mut script, Op::Load { vaddr: OPEN + TABLE + 0x1f_fff8 });
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(32), vspace: Slot::VSPACE, vaddr: OPEN + TABLE });
    script.then(map(33, Slot::VSPACE, OPEN + TABLE + PAGE)).then(map(30, Slot::VSPACE, OPEN + TABLE));
    // An empty table is still installed.
    script.then(Op::UnmapFrame { frame: Slot(33) }).then(map(30, Slot::VSPACE, OPEN + TABLE)).then(delete(32));
    script.then(map(30, Slot::VSPACE, OPEN + TABLE)).then(Op::FrameAddress { frame: Slot(30) });
    script
}

fn pools() -> Script {
    let mut script = Script::new(Topic::VSpace, "ASID pools: made of a page, given once, gone with their page");
    let pool = |untyped, dest| Op::MakePool { control: Slot::ASID_CONTROL, untyped: Slot(untyped), dest: own(dest) };
    script.then(pool(3, 20)).then(pool(2, 20)).then(pool(4, 20)).then(pool(4, 21)).then(pool(0, 21));
    script.then(make(ObjectType::VSpace, 30, 2)).then(Op::AssignPool { pool: Slot(20), vspace: Slot(30) });
    script.then(Op::AssignPool { pool: Slot::ASID_POOL, vspace: Slot(30) }).then(make(
        ObjectType::TranslationTable(TableLevel::One),
        32,
        2,
    ));
    script.then(Op::MapTable { level: TableLevel::One, table: Slot(32), vspace: Slot(30), vaddr: 0 }).then(delete(20));
    script.then(Op::MapTable { level: TableLevel::One, table: Slot(33), vspace: Slot(30), vaddr: PDPT });
    script.then(Op::AssignPool { pool: Slot::ASID_POOL, vspace: Slot(30) }).then(pool(4, 20)).then(pool(4, 20));
    script
        .then(Op::AssignPool { pool: Slot(30), vspace: Slot(31) })
        .then(Op::AssignPool { pool: Slot(20), vspace: Slot(32) });
    script
        .then(Op::AssignPool { pool: Slot(20), vspace: Slot(31) })
        .then(Op::AssignPool { pool: Slot(20), vspace: Slot::VSPACE });
    // As many as there are, of pages of the first untyped.
    let untyped = |first, count| Op::Retype {
        untyped: MEMORY[0],
        object: ObjectType::Untyped,
        size_bits: 12,
        cnode: Slot::CNODE,
        first,
        count,
    };
    script.then(untyped(40, 9));
    for number in 0..9 {
        script.then(pool(40 + number, 60 + number));
    }
    script.then(copy(80, 60)).then(delete(60)).then(pool(48, 81)).then(delete(80)).then(pool(48, 82));
    script.then(Op::MakePool { control: Slot(20), untyped: Slot(48), dest: own(83) });
    script.then(Op::MakePool { control: Slot::ASID_CONTROL, untyped: Slot(47), dest: Path::OwnAt(Slot(83), 12) });
    script
}

fn foreign() -> Script {
    let mut script = Script::new(Topic::VSpace, "two VSpaces: what is mapped in one says nothing of the other");
    ready(&mut script);
    script.then(make(ObjectType::VSpace, 30, 2)).then(make(ObjectType::SmallPage, 40, 1)).then(copy(41, 40));
    for vspace in [Slot(30), Slot(31)] {
        script.then(Op::AssignPool { pool: Slot::ASID_POOL, vspace });
    }
    script
        .then(make(ObjectType::TranslationTable(TableLevel::One), 32, 1))
        .then(make(ObjectType::TranslationTable(TableLevel::Two), 33, 1))
        .then(make(ObjectType::TranslationTable(TableLevel::Three), 34, 1));
    script.then(Op::MapTable { level: TableLevel::One, table: Slot(32), vspace: Slot(30), vaddr: OPEN });
    script.then(Op::MapTable { level: TableLevel::Two, table: Slot(33), vspace: Slot(30), vaddr: OPEN });
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(34), vspace: Slot(30), vaddr: OPEN }).then(map(
        40,
        Slot(30),
        OPEN,
    ));
    script.then(map(40, Slot::VSPACE, OPEN)).then(map(40, Slot(31), OPEN)).then(map(41, Slot::VSPACE, OPEN));
    probe(&mut script, Op::Store { vaddr: OPEN, value: 3 });
    // With the VSpace its mappings are removed; its tables and frames are free for another.
    script.then(delete(30)).then(map(40, Slot::VSPACE, OPEN + PAGE));
    probe(&mut script, Op::Load { vaddr: OPEN + PAGE });
    script.then(Op::MapTable { level: TableLevel::One, table: Slot(32), vspace: Slot(31), vaddr: OPEN });
    script.then(Op::MapTable { level: TableLevel::Two, table: Slot(33), vspace: Slot(31), vaddr: OPEN });
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(34), vspace: Slot(31), vaddr: OPEN });
    script.then(Op::UnmapFrame { frame: Slot(40) }).then(map(40, Slot(31), OPEN));
    script
}

fn tables_go() -> Script {
    let mut script =
        Script::new(Topic::VSpace, "a table that is deleted takes its mappings, the last capability to it only");
    ready(&mut script);
    script.then(make(ObjectType::SmallPage, 30, 1)).then(map(30, Slot::VSPACE, OPEN));
    probe(&mut script, Op::Store { vaddr: OPEN, value: 9 });
    script.then(copy(31, 20)).then(delete(31));
    probe(&mut script, Op::Load { vaddr: OPEN });
    script.then(copy(31, 20)).then(delete(20));
    probe(&mut script, Op::Load { vaddr: OPEN });
    script.then(delete(31));
    probe(&mut script, Op::Load { vaddr: OPEN });
    script
        .then(map(30, Slot::VSPACE, OPEN))
        .then(map(30, Slot::VSPACE, OPEN + PAGE))
        .then(Op::UnmapFrame { frame: Slot(30) });
    script.then(make(ObjectType::TranslationTable(TableLevel::Three), 20, 1));
    script
        .then(Op::MapTable { level: TableLevel::Three, table: Slot(20), vspace: Slot::VSPACE, vaddr: OPEN })
        .then(map(30, Slot::VSPACE, OPEN + PAGE));
    probe(&mut script, Op::Load { vaddr: OPEN + PAGE });
    probe(&mut script, Op::Load { vaddr: OPEN });
    script
}

fn rights_of_frames() -> Script {
    let mut script = Script::new(Topic::VSpace, "a mapping has the rights of both the capability and the call");
    ready(&mut script);
    script.then(make(ObjectType::SmallPage, 30, 1));
    let all = [Rights::ALL, Rights::READ_WRITE, Rights::READ, Rights::WRITE, Rights::default()];
    for cap in all {
        script.then(Op::Copy { dest: own(31), src: own(30), rights: cap });
        for rights in all {
            let cache = CacheAttributes::WriteBack;
            script.then(Op::MapFrame { frame: Slot(31), vspace: Slot::VSPACE, vaddr: OPEN, rights, cache });
            probe(&mut script, Op::Load { vaddr: OPEN });
            probe(&mut script, Op::Store { vaddr: OPEN, value: 1 });
        }
        script.then(delete(31));
    }
    script
}

fn device() -> Script {
    let mut script = Script::new(Topic::VSpace, "device frames are mapped as others are");
    ready(&mut script);
    script.then(Op::Retype {
        untyped: DEVICE,
        object: ObjectType::SmallPage,
        size_bits: 0,
        cnode: Slot::CNODE,
        first: 30,
        count: 2,
    });
    for cache in [CacheAttributes::Uncached, CacheAttributes::WriteBack] {
        let rights = Rights::READ_WRITE;
        script.then(Op::MapFrame { frame: Slot(30), vspace: Slot::VSPACE, vaddr: OPEN, rights, cache });
    }
    script.then(copy(32, 30)).then(Op::FrameAddress { frame: Slot(32) }).then(map(32, Slot::VSPACE, OPEN));
    script.then(delete(30)).then(map(32, Slot::VSPACE, OPEN)).then(revoke(DEVICE.0)).then(map(32, Slot::VSPACE, OPEN));
    script
}
