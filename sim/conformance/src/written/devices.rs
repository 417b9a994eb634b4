//! IOSpaces, interrupt handlers, I/O ports.

use crate::op::{Op, Path, Slot};
use crate::script::{Script, Topic, copy, delete, make, own, revoke};
use platform::{Badge, CacheAttributes, CapData, ObjectType, Rights, Trigger};

pub(super) fn all() -> Vec<Script> {
    vec![spaces(), io_tables(), io_frames(), io_families(), handlers(), pins(), handler_use(), ports()]
}

fn space(dest: u16, src: Slot, domain: u16, requester_id: u16) -> Op {
    let data = CapData::IoSpace { domain, requester_id };
    Op::Mint { dest: own(dest), src: Path::Own(src), rights: Rights::ALL, data }
}

fn table(table: u16, space: u16, iova: u64) -> Op {
    Op::MapIoTable { table: Slot(table), space: Slot(space), iova }
}

fn frame(frame: u16, space: u16, iova: u64) -> Op {
    Op::MapIo { frame: Slot(frame), space: Slot(space), rights: Rights::READ_WRITE, iova }
}

fn spaces() -> Script {
    let mut script = Script::new(Topic::IoSpace, "IOSpaces are minted from the master, and from no other");
    script.then(space(20, Slot::IO_SPACES, 1, 0x20)).then(space(21, Slot(20), 2, 0x28)).then(space(
        22,
        Slot::IO_SPACES,
        0,
        0x28,
    ));
    script.then(space(23, Slot::IO_SPACES, 1, 0)).then(space(24, Slot(23), 3, 0x30)).then(space(
        25,
        Slot::IO_SPACES,
        0,
        0,
    ));
    script.then(space(26, Slot::IO_SPACES, 0xffff, 0xffff)).then(copy(27, 20)).then(space(28, Slot(27), 1, 0x20));
    script.then(Op::Copy { dest: own(29), src: Path::Own(Slot::IO_SPACES), rights: Rights::ALL });
    script.then(space(30, Slot(29), 4, 0x40)).then(make(ObjectType::IoPageTable, 40, 2));
    for slot in 20..31 {
        script.then(table(40, slot, 0)).then(delete(slot));
    }
    script
}

fn io_tables() -> Script {
    let mut script = Script::new(Topic::IoSpace, "IO page tables: one level after the other, and away again");
    script.then(space(20, Slot::IO_SPACES, 1, 0x20)).then(make(ObjectType::IoPageTable, 30, 6));
    script.then(make(ObjectType::SmallPage, 40, 2));
    let at = (3 << 30) + (5 << 21) + (7 << 12);
    for slot in 30..36 {
        script.then(frame(40, 20, at)).then(table(slot, 20, at)).then(table(slot, 20, at));
    }
    script.then(frame(41, 20, at)).then(frame(41, 20, at + 4096)).then(frame(41, 20, at + 1));
    // Another address shares the tables that are there.
    for slot in 30..36 {
        script.then(table(slot, 20, at + (1 << 21)));
    }
    for iova in [1 << 38, 1 << 39, 1 << 48, u64::MAX - 4095] {
        script.then(table(35, 20, iova)).then(frame(41, 20, iova));
    }
    script.then(Op::UnmapIoTable { table: Slot(40) }).then(Op::UnmapIoTable { table: Slot(35) });
    script.then(copy(50, 32)).then(Op::UnmapIoTable { table: Slot(32) }).then(delete(50));
    for slot in [32, 31, 30] {
        script.then(Op::UnmapIoTable { table: Slot(slot) }).then(Op::UnmapIoTable { table: Slot(slot) });
        script.then(frame(40, 20, at)).then(Op::UnmapFrame { frame: Slot(40) });
    }
    script.then(table(30, 40, at)).then(table(40, 20, at)).then(table(0, 20, at)).then(table(30, 0, at));
    script.then(table(30, Slot::IO_SPACES.0, at));
    script
}

fn io_frames() -> Script {
    let mut script = Script::new(Topic::IoSpace, "frames in an IOSpace: rights, twice, both kinds of mapping");
    script.then(space(20, Slot::IO_SPACES, 1, 0x20)).then(make(ObjectType::IoPageTable, 30, 4));
    script.then(make(ObjectType::SmallPage, 40, 2)).then(Op::Retype {
        untyped: Slot(1),
        object: ObjectType::LargePage,
        size_bits: 0,
        cnode: Slot::CNODE,
        first: 44,
        count: 1,
    });
    for slot in 30..34 {
        script.then(table(slot, 20, 0));
    }
    for rights in [Rights::ALL, Rights::READ, Rights::WRITE, Rights::default()] {
        script.then(Op::Copy { dest: own(50), src: own(40), rights });
        for call in [Rights::READ_WRITE, Rights::READ, Rights::WRITE, Rights::default()] {
            script.then(Op::MapIo { frame: Slot(50), space: Slot(20), rights: call, iova: 0x3000 });
            script.then(Op::UnmapFrame { frame: Slot(50) });
        }
        script.then(delete(50));
    }
    script
        .then(frame(40, 20, 0))
        .then(frame(40, 20, 0x1000))
        .then(frame(41, 20, 0))
        .then(copy(42, 40))
        .then(frame(42, 20, 0x2000));
    script.then(Op::UnmapFrame { frame: Slot(40) }).then(frame(41, 20, 0)).then(frame(44, 20, 0)).then(frame(
        44,
        20,
        1 << 21,
    ));
    script
        .then(copy(43, 40))
        .then(make(ObjectType::VSpace, 60, 1))
        .then(Op::AssignPool { pool: Slot::ASID_POOL, vspace: Slot(60) });
    script.then(Op::MapFrame {
        frame: Slot(42),
        vspace: Slot(60),
        vaddr: 0,
        rights: Rights::READ,
        cache: CacheAttributes::WriteBack,
    });
    script.then(delete(20)).then(Op::UnmapFrame { frame: Slot(42) }).then(frame(43, 20, 0x5000));
    script.then(space(20, Slot::IO_SPACES, 1, 0x20)).then(frame(43, 20, 0x5000)).then(table(30, 20, 0));
    script
}

fn io_families() -> Script {
    let mut script = Script::new(Topic::IoSpace, "revoking an IOSpace takes its copies, revoking the master takes all");
    for target in [Slot(20), Slot(21), Slot(22), Slot::IO_SPACES] {
        script.then(space(20, Slot::IO_SPACES, 1, 0x20)).then(copy(21, 20)).then(copy(22, 21));
        script.then(space(23, Slot::IO_SPACES, 1, 0x20)).then(space(24, Slot::IO_SPACES, 2, 0x28)).then(copy(25, 24));
        script.then(make(ObjectType::IoPageTable, 30, 2)).then(table(30, 20, 0)).then(table(31, 24, 0));
        script.then(Op::Revoke { slot: Path::Own(target) });
        for slot in 20..26 {
            script.then(copy(99, slot)).then(delete(99)).then(delete(slot));
        }
        script.then(Op::UnmapIoTable { table: Slot(30) }).then(revoke(2)).then(delete(30)).then(delete(31));
    }
    script
}

fn handlers() -> Script {
    let mut script = Script::new(Topic::Interrupts, "handlers of messages: every number once, within the range");
    let msi = |dest, requester_id, irq| Op::GetMsi { control: Slot::IRQ_CONTROL, dest: own(dest), requester_id, irq };
    // Number 27 is the AArch64 kernel's own timer.
    for (slot, irq) in (20..).zip([0, 1, 50, 107, 108, 109, 124, 125, 126, 254, 255, 50, 27, 80, 143]) {
        script.then(msi(slot, 0x20, irq));
    }
    script.then(msi(20, 0x20, 3)).then(msi(40, 0xffff, 3)).then(copy(41, 40)).then(delete(40)).then(msi(40, 0, 3));
    script.then(delete(41)).then(msi(40, 0, 3)).then(msi(42, 0x1ff8, 4)).then(msi(43, 0x07, 5));
    script.then(Op::GetMsi { control: Slot(40), dest: own(44), requester_id: 0, irq: 9 });
    script.then(Op::GetMsi { control: Slot::TCB, dest: own(44), requester_id: 0, irq: 9 });
    script.then(Op::GetMsi { control: Slot::IRQ_CONTROL, dest: Path::OwnAt(Slot(44), 20), requester_id: 0, irq: 9 });
    script.then(Op::GetMsi { control: Slot::IRQ_CONTROL, dest: Path::In(Slot(40), 0, 5), requester_id: 0, irq: 9 });
    script.then(Op::Revoke { slot: Path::Own(Slot::IRQ_CONTROL) }).then(copy(45, 20)).then(msi(45, 0, 0));
    script
}

fn pins() -> Script {
    let mut script = Script::new(Topic::Interrupts, "handlers of pins: those there are, shared numbers refused");
    let pin = |dest, pin, line, irq| Op::GetIoapic { control: Slot::IRQ_CONTROL, dest: own(dest), pin, line, irq };
    for (slot, number) in (20..).zip([16, 23, 24, 25, 255]) {
        script.then(pin(slot, number, Trigger::LevelLow, slot as u8));
    }
    script.then(pin(30, 17, Trigger::Edge, 107)).then(pin(31, 18, Trigger::Edge, 108)).then(pin(
        32,
        16,
        Trigger::LevelLow,
        60,
    ));
    script.then(pin(33, 19, Trigger::LevelLow, 20)).then(Op::GetMsi {
        control: Slot::IRQ_CONTROL,
        dest: own(34),
        requester_id: 8,
        irq: 20,
    });
    script.then(delete(20)).then(pin(35, 19, Trigger::LevelLow, 20));
    script
}

fn handler_use() -> Script {
    let mut script = Script::new(Topic::Interrupts, "a handler's notification is set, set again, cleared, and may go");
    let set = |handler, notification| Op::SetNotification { handler: Slot(handler), notification: Slot(notification) };
    script.then(Op::GetMsi { control: Slot::IRQ_CONTROL, dest: own(20), requester_id: 8, irq: 30 });
    script.then(make(ObjectType::Notification, 21, 2)).then(make(ObjectType::Endpoint, 23, 1));
    script.then(Op::Ack { handler: Slot(20) }).then(set(20, 21)).then(set(20, 22)).then(set(20, 23)).then(set(20, 0));
    script
        .then(set(21, 22))
        .then(set(0, 21))
        .then(Op::Ack { handler: Slot(20) })
        .then(Op::ClearHandler { handler: Slot(20) });
    script.then(Op::ClearHandler { handler: Slot(20) }).then(copy(24, 20)).then(set(24, 21)).then(delete(20));
    script.then(Op::Ack { handler: Slot(24) }).then(delete(21)).then(Op::Ack { handler: Slot(24) });
    script.then(Op::Mint {
        dest: own(25),
        src: own(22),
        rights: Rights::READ,
        data: CapData::Badge(Badge(Badge::SIGNAL | 1)),
    });
    script.then(set(24, 25)).then(Op::Ack { handler: Slot(22) }).then(Op::ClearHandler { handler: Slot::TCB });
    script.then(Op::Ack { handler: Slot::IRQ_CONTROL });
    script
}

/// Page registers of the DMA controller, which nobody uses, and the word after them.
const PORTS: (u16, u16) = (0x80, 0x8f);

fn ports() -> Script {
    let mut script = Script::new(Topic::Ports, "a range of ports is narrowed, never widened, and reads stay inside");
    let (first, last) = PORTS;
    let narrow = |dest, src, first, last| Op::Mint {
        dest: own(dest),
        src: Path::Own(src),
        rights: Rights::ALL,
        data: CapData::IoPorts(first, last),
    };
    script.then(narrow(20, Slot::IO_PORTS, first, last)).then(narrow(21, Slot(20), first + 4, last - 4));
    script.then(narrow(22, Slot(21), first, last)).then(narrow(23, Slot(20), last, first)).then(narrow(
        24,
        Slot(20),
        first,
        first,
    ));
    script.then(copy(25, 20)).then(narrow(26, Slot(20), first, last)).then(narrow(27, Slot(20), last, last + 1));
    for slot in 20..28 {
        for port in [first - 1, first, first + 3, first + 4, last - 4, last - 3, last, last + 1] {
            script.then(Op::PortIn8 { ports: Slot(slot), port });
        }
        for port in [first - 4, first - 1, first, last - 3, last - 2, last] {
            script.then(Op::PortIn32 { ports: Slot(slot), port });
        }
    }
    script.then(revoke(20)).then(copy(28, 21)).then(copy(29, 20));
    script.then(Op::PortIn8 { ports: Slot::TCB, port: first }).then(Op::PortIn8 { ports: Slot::EMPTY, port: first });
    script
}
