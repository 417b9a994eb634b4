//! Invocations of the root thread, of every kind.

use super::picture::{DEVICES, Kind, MIXED, NOTIFICATIONS, PDPTS, Picture, Random, THREADS};
use crate::op::{Context, Op, Path, Shown, Slot};
use crate::script::{Script, copy, delete, own};
use crate::stage::{DEVICE, MAPPING_AREA, MEMORY, OPEN};
use platform::{Badge, CacheAttributes, CapData, ObjectType, Resume, Rights, TableLevel, Trigger};

/// Calls of a sequence before the survey at its end.
const CALLS: u32 = 70;
/// Slots that the survey examines.
const SEEN: u32 = 8;

/// Fills `script`.
pub(super) fn fill(script: &mut Script, random: &Random) {
    let mut picture = Picture::default();
    for _ in 0..CALLS {
        script.then(call(&mut picture, random));
    }
    survey(script, random);
}

/// Surveys the result: whether slots hold a capability, and which frames they hold.
fn survey(script: &mut Script, random: &Random) {
    for _ in 0..SEEN {
        let slot = random.of(MIXED);
        script.then(Op::FrameAddress { frame: Slot(slot) }).then(copy(100, slot)).then(delete(100));
    }
}

/// Any invocation.
pub(super) fn call(picture: &mut Picture, random: &Random) -> Op {
    match random.below(100) {
        0..25 => retype(picture, random),
        25..48 => slots(picture, random),
        48..72 => mapping(picture, random),
        72..84 => io_space(picture, random),
        84..92 => interrupt(picture, random),
        92..95 => ports(picture, random),
        _ => thread(picture, random),
    }
}

fn retype(picture: &mut Picture, random: &Random) -> Op {
    let (object, kind) = random.one(&[
        (ObjectType::Untyped, Some(Kind::Untyped)),
        (ObjectType::CNode, Some(Kind::CNode)),
        (ObjectType::VSpace, Some(Kind::VSpace)),
        (ObjectType::TranslationTable(TableLevel::Two), Some(Kind::PageDirectory)),
        (ObjectType::TranslationTable(TableLevel::Three), Some(Kind::PageTable)),
        (ObjectType::TranslationTable(TableLevel::Three), Some(Kind::PageTable)),
        (ObjectType::SmallPage, Some(Kind::SmallPage)),
        (ObjectType::SmallPage, Some(Kind::SmallPage)),
        (ObjectType::LargePage, Some(Kind::LargePage)),
        (ObjectType::IoPageTable, Some(Kind::IoPageTable)),
        (ObjectType::IoPageTable, Some(Kind::IoPageTable)),
        (ObjectType::Notification, None),
        (ObjectType::TranslationTable(TableLevel::One), None),
        (ObjectType::Tcb, None),
    ]);
    let size_bits = match object {
        ObjectType::Untyped => random.one(&[4, 8, 10, 12, 12, 13, 14, 20, 3, 48, 64]),
        ObjectType::CNode => random.one(&[1, 2, 3, 4, 5, 6, 0, 12, 60, 255]),
        _ => random.one(&[0, 0, 0, 12, 255]),
    };
    let untyped = match random.below(10) {
        0..5 => MEMORY[0],
        5..7 => MEMORY[1],
        7 => random.one(&MEMORY),
        8 => random.one(&[DEVICE, Slot::EMPTY, Slot::TCB]),
        _ => picture.pick(random, Kind::Untyped),
    };
    if untyped == DEVICE {
        let object =
            random.one(&[ObjectType::SmallPage, ObjectType::Untyped, ObjectType::TranslationTable(TableLevel::Three)]);
        let (first, count) = (random.of(DEVICES), random.one(&[1, 1, 2]));
        return Op::Retype { untyped, object, size_bits: 12, cnode: Slot::CNODE, first, count };
    }
    let first = match object {
        ObjectType::Notification => random.of(NOTIFICATIONS),
        ObjectType::TranslationTable(TableLevel::One) => random.of(PDPTS),
        ObjectType::Tcb => random.of(THREADS),
        _ if random.percent(8) => return into_cnode(picture, random, untyped, object, size_bits),
        _ => picture.pick_empty(random),
    };
    // Objects of a kind with its own range of slots stay inside of it.
    let count = match kind {
        None => 1,
        Some(_) => random.one(&[1, 1, 1, 2, 3]).min(MIXED.end.saturating_sub(first)),
    };
    for slot in first..first + count {
        if let Some(kind) = kind {
            picture.put(slot, kind);
        }
    }
    Op::Retype { untyped, object, size_bits, cnode: Slot::CNODE, first, count }
}

fn into_cnode(picture: &Picture, random: &Random, untyped: Slot, object: ObjectType, size_bits: u8) -> Op {
    let (first, count) = (random.of(0..18), random.one(&[1, 1, 2, 8, 0]));
    Op::Retype { untyped, object, size_bits, cnode: picture.pick(random, Kind::CNode), first, count }
}

fn rights(random: &Random) -> Rights {
    let all = [Rights::ALL, Rights::ALL, Rights::READ_WRITE, Rights::READ_WRITE, Rights::READ, Rights::WRITE];
    if random.percent(3) { Rights::default() } else { random.one(&all) }
}

/// A place in [`MIXED`], or in a CNode that lies there; rarely at a depth that does not find it.
fn place(picture: &Picture, random: &Random, slot: u16) -> Path {
    match random.below(100) {
        0..12 => {
            let index = random.below(1 << random.one(&[2, 3, 4, 5]));
            Path::In(picture.pick(random, Kind::CNode), index, random.one(&[2, 3, 3, 4, 4, 5, 6, 64, 0]))
        }
        12..15 => Path::OwnAt(Slot(slot), random.one(&[0, 1, 16, 48, 63, 65, 255])),
        _ => own(slot),
    }
}

fn slots(picture: &mut Picture, random: &Random) -> Op {
    let src = random.of(MIXED);
    match random.below(10) {
        // Ranges of their own: only inside of them.
        0 => own_range(random),
        1..4 => {
            let slot = picture.pick_empty(random);
            let (dest, src_place) = (place(picture, random, slot), place(picture, random, src));
            if let (Path::Own(_), Path::Own(_), Some(kind)) = (dest, src_place, picture.kind(src)) {
                picture.put(slot, kind);
            }
            Op::Copy { dest, src: src_place, rights: rights(random) }
        }
        4 => mint(picture, random),
        5 => {
            let slot = picture.pick_empty(random);
            let (dest, src_place) = (place(picture, random, slot), place(picture, random, src));
            if let (Path::Own(_), Path::Own(_), Some(kind)) = (dest, src_place, picture.kind(src)) {
                picture.clear(src);
                picture.put(slot, kind);
            }
            Op::Move { dest, src: src_place }
        }
        6..8 => {
            picture.clear(src);
            Op::Delete { slot: place(picture, random, src) }
        }
        _ => {
            let memory = random.one(&MEMORY[..3]);
            let others = [Slot::IRQ_CONTROL, Slot::IO_SPACES, Slot::IO_PORTS, DEVICE, memory];
            let target = if random.percent(85) { Slot(src) } else { random.one(&others) };
            if target == memory {
                for slot in MIXED {
                    picture.clear(slot);
                }
            }
            Op::Revoke { slot: Path::Own(target) }
        }
    }
}

fn own_range(random: &Random) -> Op {
    let range =
        random.one(&[(NOTIFICATIONS.start, NOTIFICATIONS.end), (THREADS.start, THREADS.end), (PDPTS.start, PDPTS.end)]);
    let range = range.0..range.1;
    let (dest, src) = (own(random.of(range.clone())), own(random.of(range.clone())));
    match random.below(6) {
        0 => Op::Delete { slot: src },
        1 => Op::Revoke { slot: src },
        2 => Op::Move { dest, src },
        // This kernel does not survive the copy of a second-level table.
        _ if range == PDPTS => Op::Move { dest, src },
        3 if range == NOTIFICATIONS => {
            let data = CapData::Badge(Badge(Badge::SIGNAL | random.below(1 << 20)));
            Op::Mint { dest, src, rights: rights(random), data }
        }
        _ => Op::Copy { dest, src, rights: rights(random) },
    }
}

fn mint(picture: &mut Picture, random: &Random) -> Op {
    let kind = random.one(&[Kind::CNode, Kind::CNode, Kind::SmallPage, Kind::Untyped, Kind::PageTable]);
    let data = match kind {
        Kind::CNode => CapData::Guard { size: random.one(&[0, 1, 4, 32, 58, 59, 60, 62, 64]), value: random.below(16) },
        _ => CapData::Badge(Badge(random.below(1 << 28))),
    };
    let (dest, src) = (picture.pick_empty(random), picture.pick(random, kind));
    if picture.kind(src.0) == Some(kind) {
        picture.put(dest, kind);
    }
    Op::Mint { dest: own(dest), src: Path::Own(src), rights: rights(random), data }
}

/// Few addresses, so that calls meet: in the root thread's mapping area and beyond, some that nothing can be mapped at.
pub(super) fn vaddr(random: &Random) -> u64 {
    let page = random.below(4) << 12;
    match random.below(20) {
        0..12 => OPEN + page,
        12..15 => OPEN + (random.below(3) << 21) + page,
        15 => 0x1_0000_0000 + (random.below(2) << 30) + page,
        16 => (1 << 39) * random.below(3) + 0x8_0000_0000 + page,
        17 => random.one(&[MAPPING_AREA, 0x1000, 0x10_0000]) + page,
        18 => OPEN + page + random.one(&[1, 8, 0x800]),
        _ => random.one(&[1 << 47, (1 << 47) - 4096, 1 << 63, u64::MAX - 4095]),
    }
}

fn vspace(picture: &Picture, random: &Random) -> Slot {
    if random.percent(65) { Slot::VSPACE } else { picture.pick(random, Kind::VSpace) }
}

fn mapping(picture: &mut Picture, random: &Random) -> Op {
    let vspace = vspace(picture, random);
    let vaddr = vaddr(random);
    let frame = if random.percent(85) { Kind::SmallPage } else { Kind::LargePage };
    match random.below(100) {
        0..8 => Op::AssignPool {
            pool: if random.percent(75) { Slot::ASID_POOL } else { picture.pick(random, Kind::Pool) },
            vspace: picture.pick(random, Kind::VSpace),
        },
        8..14 => Op::MapTable { level: TableLevel::One, table: Slot(random.of(PDPTS)), vspace, vaddr },
        14..20 => {
            Op::MapTable { level: TableLevel::Two, table: picture.pick(random, Kind::PageDirectory), vspace, vaddr }
        }
        20..38 => {
            Op::MapTable { level: TableLevel::Three, table: picture.pick(random, Kind::PageTable), vspace, vaddr }
        }
        38..68 => {
            let cache =
                random.one(&[CacheAttributes::WriteBack, CacheAttributes::WriteBack, CacheAttributes::Uncached]);
            Op::MapFrame { frame: picture.pick(random, frame), vspace, vaddr, rights: rights(random), cache }
        }
        68..80 => Op::UnmapFrame { frame: picture.pick(random, frame) },
        80..94 => Op::FrameAddress { frame: picture.pick(random, frame) },
        _ => {
            let dest = picture.pick_empty(random);
            picture.put(dest, Kind::Pool);
            let untyped = random.one(&[MEMORY[3], MEMORY[3], MEMORY[2], picture.pick(random, Kind::Untyped)]);
            Op::MakePool { control: Slot::ASID_CONTROL, untyped, dest: place(picture, random, dest) }
        }
    }
}

fn io_space(picture: &mut Picture, random: &Random) -> Op {
    let iova = match random.below(12) {
        0..8 => random.below(4) << 12,
        8..10 => random.below(3) << 21,
        10 => random.one(&[1 << 30, 1 << 38, 0x1234, 1]),
        _ => random.one(&[1 << 39, 1 << 48, u64::MAX - 4095]),
    };
    let space = picture.pick(random, Kind::IoSpace);
    match random.below(12) {
        0..3 => {
            let dest = picture.pick_empty(random);
            picture.put(dest, Kind::IoSpace);
            let src = if random.percent(85) { Slot::IO_SPACES } else { space };
            let data = CapData::IoSpace {
                domain: random.one(&[1, 2, 3, 0]),
                requester_id: random.one(&[0x20, 0x28, 0x100, 0]),
            };
            Op::Mint { dest: own(dest), src: Path::Own(src), rights: Rights::ALL, data }
        }
        3..7 => Op::MapIoTable { table: picture.pick(random, Kind::IoPageTable), space, iova },
        7 => Op::UnmapIoTable { table: picture.pick(random, Kind::IoPageTable) },
        8..11 => Op::MapIo { frame: picture.pick(random, Kind::SmallPage), space, rights: rights(random), iova },
        _ => Op::UnmapFrame { frame: picture.pick(random, Kind::SmallPage) },
    }
}

fn interrupt(picture: &mut Picture, random: &Random) -> Op {
    let handler = picture.pick(random, Kind::Handler);
    let irq = random.one(&[0, 7, 30, 31, 107, 108, 130, 255]);
    match random.below(10) {
        0..4 => {
            let slot = picture.pick_empty(random);
            picture.put(slot, Kind::Handler);
            let dest = place(picture, random, slot);
            let control = if random.percent(92) { Slot::IRQ_CONTROL } else { handler };
            if random.percent(60) {
                Op::GetMsi { control, dest, requester_id: random.below(1 << 16) as u16, irq }
            } else {
                let line = random.one(&[Trigger::Edge, Trigger::LevelLow]);
                Op::GetIoapic { control, dest, pin: random.one(&[16, 17, 22, 23, 24, 250]), line, irq }
            }
        }
        4..6 => Op::Ack { handler },
        6..9 => Op::SetNotification { handler, notification: Slot(random.of(NOTIFICATIONS)) },
        _ => Op::ClearHandler { handler },
    }
}

fn ports(picture: &mut Picture, random: &Random) -> Op {
    let port = 0x80 + random.below(16) as u16;
    let ports = picture.pick(random, Kind::Ports);
    if random.percent(50) {
        let dest = picture.pick_empty(random);
        picture.put(dest, Kind::Ports);
        let src = if random.percent(70) { Slot::IO_PORTS } else { ports };
        let data = CapData::IoPorts(port, 0x80 + random.below(16) as u16);
        return Op::Mint { dest: own(dest), src: Path::Own(src), rights: Rights::ALL, data };
    }
    // Inside of the registers nobody uses, with all four bytes.
    if random.percent(50) { Op::PortIn8 { ports, port } } else { Op::PortIn32 { ports, port: port & 0x8c } }
}

fn thread(picture: &Picture, random: &Random) -> Op {
    let tcb = if random.percent(90) { Slot(random.of(THREADS)) } else { Slot(random.of(MIXED)) };
    match random.below(8) {
        0..2 => {
            let pointer = random.one(&[0, 0x1000, (1 << 47) - 1, 1 << 47, u64::MAX]);
            let context = Context::Plain([pointer, random.below(1 << 20), 1, 2, pointer]);
            Op::WriteRegisters { tcb, start: Resume::Later, context }
        }
        2..4 => Op::ReadRegisters { tcb, shown: Shown::Values },
        4 => Op::Suspend { tcb },
        5 => Op::Bind { tcb, notification: Slot(random.of(NOTIFICATIONS)) },
        _ => Op::Configure {
            tcb,
            fault_endpoint: random.of(0..8),
            priority: random.of(0..256) as u8,
            cspace: picture.pick(random, Kind::CNode),
            guard_bits: random.one(&[0, 58, 59, 60, 61, 62]),
            vspace: vspace(picture, random),
            buffer: random.one(&[0, MAPPING_AREA, MAPPING_AREA + 0x400, MAPPING_AREA + 0x10]),
            frame: picture.pick(random, Kind::SmallPage),
        },
    }
}
