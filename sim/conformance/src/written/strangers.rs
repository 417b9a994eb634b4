//! Threads that run in a VSpace of their own: their fault at the start shows what is mapped there.
//!
//! Their page holds an undefined instruction, put there through another mapping. An exception shows that they reached it, a
//! page fault that they did not.

use crate::op::{Context, Op, Path, Slot};
use crate::script::{Script, Topic, copy, delete, make, make_sized, mint, own, revoke};
use crate::stage::{MEMORY, OPEN};
use platform::{Badge, CacheAttributes, CapData, ObjectType, Resume, Rights, TableLevel};

pub(super) fn all() -> Vec<Script> {
    vec![reach(), ends(), handlers()]
}

/// Below 4 GiB, because the x86_64 kernel reports no more of an address; and above, where nothing is mapped.
const AT: u64 = 0x4567_8000;
const FAR: u64 = 0x12_3456_7000;
const VSPACE: Slot = Slot(40);
const CNODE: Slot = Slot(44);
const TCB: Slot = Slot(45);
const ENDPOINT: Slot = Slot(21);

fn map(frame: u16, vspace: Slot, vaddr: u64, rights: Rights) -> Op {
    Op::MapFrame { frame: Slot(frame), vspace, vaddr, rights, cache: CacheAttributes::WriteBack }
}

/// The page in slots 30 and 31, a VSpace with tables for [`AT`], a thread with a fault endpoint.
fn stranger(script: &mut Script) {
    script.then(Op::Retype {
        untyped: MEMORY[2],
        object: ObjectType::Endpoint,
        size_bits: 0,
        cnode: Slot::CNODE,
        first: ENDPOINT.0,
        count: 1,
    });
    script
        .then(make(ObjectType::TranslationTable(TableLevel::Three), 20, 1))
        .then(make(ObjectType::SmallPage, 30, 1))
        .then(copy(31, 30));
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(20), vspace: Slot::VSPACE, vaddr: OPEN });
    script.then(map(30, Slot::VSPACE, OPEN, Rights::READ_WRITE));
    script.start(1).helper(1, Op::Store { vaddr: OPEN, value: 0x0b0f }).then(Op::Settle);
    script.then(make(ObjectType::VSpace, VSPACE.0, 1)).then(Op::AssignPool { pool: Slot::ASID_POOL, vspace: VSPACE });
    script
        .then(make(ObjectType::TranslationTable(TableLevel::One), 41, 1))
        .then(make(ObjectType::TranslationTable(TableLevel::Two), 42, 1))
        .then(make(ObjectType::TranslationTable(TableLevel::Three), 43, 1));
    script.then(Op::MapTable { level: TableLevel::One, table: Slot(41), vspace: VSPACE, vaddr: AT });
    script.then(Op::MapTable { level: TableLevel::Two, table: Slot(42), vspace: VSPACE, vaddr: AT });
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(43), vspace: VSPACE, vaddr: AT });
    script.then(make_sized(ObjectType::CNode, 3, CNODE.0, 1)).then(mint(Path::In(CNODE, 2, 3), ENDPOINT.0, 0x77));
    script.then(make(ObjectType::Tcb, TCB.0, 1)).then(configure(2, CNODE, 61, VSPACE));
}

fn configure(fault_endpoint: u16, cspace: Slot, guard_bits: u8, vspace: Slot) -> Op {
    Op::Configure { tcb: TCB, fault_endpoint, priority: 50, cspace, guard_bits, vspace, buffer: 0, frame: Slot::EMPTY }
}

/// Makes the thread run at `vaddr`, and polls for its fault.
fn run(script: &mut Script, vaddr: u64) {
    let context = Context::Plain([vaddr, 0x1000, 1, 2, 3]);
    script.then(Op::WriteRegisters { tcb: TCB, start: Resume::Now, context }).then(Op::Settle);
    script.then(Op::NbReceive { from: ENDPOINT });
}

fn reach() -> Script {
    let mut script = Script::new(Topic::VSpace, "a thread reaches what is mapped in its own VSpace and nothing else");
    stranger(&mut script);
    run(&mut script, AT);
    script.then(map(31, VSPACE, AT, Rights::READ));
    run(&mut script, AT);
    run(&mut script, AT + 0x1000);
    run(&mut script, OPEN);
    script.then(Op::UnmapFrame { frame: Slot(31) });
    run(&mut script, AT);
    // The x86_64 kernel has no execute permission: all accessible memory can be executed. On AArch64 writable memory cannot.
    for rights in [Rights::WRITE, Rights::default(), Rights::READ_WRITE] {
        script.then(map(31, VSPACE, AT + 0x2000, rights));
        run(&mut script, AT + 0x2000);
        script.then(Op::UnmapFrame { frame: Slot(31) });
    }
    script.then(map(31, VSPACE, AT, Rights::READ)).then(Op::Move { dest: own(32), src: own(31) });
    run(&mut script, AT);
    script.then(delete(32));
    run(&mut script, AT);
    // After the reply it retries and faults again.
    script
        .then(Op::Reply { letter: crate::Letter::new(0, 0).long(0) })
        .then(Op::Settle)
        .then(Op::NbReceive { from: ENDPOINT });
    script.then(configure(2, CNODE, 61, Slot::VSPACE));
    run(&mut script, OPEN);
    run(&mut script, AT);
    run(&mut script, FAR);
    script
}

fn ends() -> Script {
    let mut script = Script::new(Topic::VSpace, "a thread loses what it reached with each thing that goes");
    for gone in [31, 43, 42, 41, VSPACE.0, 30] {
        stranger(&mut script);
        script.then(map(31, VSPACE, AT, Rights::READ));
        run(&mut script, AT);
        script.then(delete(gone));
        run(&mut script, AT);
        // Stopped first: it must not run while its capabilities are removed.
        script.then(Op::Suspend { tcb: TCB }).then(revoke(2)).then(revoke(3));
    }
    script
}

fn handlers() -> Script {
    let mut script =
        Script::new(Topic::Faults, "a fault endpoint is looked for in the thread's CSpace, when it faults");
    stranger(&mut script);
    for (fault_endpoint, guard_bits) in [(2, 61), (3, 61), (0, 61), (2, 60), (2, 0), (10, 61), (1 << 3 | 2, 60)] {
        script.then(configure(fault_endpoint, CNODE, guard_bits, VSPACE));
        run(&mut script, AT);
    }
    script.then(configure(2, CNODE, 61, VSPACE)).then(Op::Delete { slot: Path::In(CNODE, 2, 3) });
    run(&mut script, AT);
    let data = CapData::Badge(Badge(0x78));
    script.then(Op::Mint { dest: Path::In(CNODE, 2, 3), src: Path::Own(ENDPOINT), rights: Rights::ALL, data });
    script.then(Op::Resume { tcb: TCB }).then(Op::Settle).then(Op::NbReceive { from: ENDPOINT });
    // A thread without anything, not even a VSpace.
    script.then(make(ObjectType::Tcb, 46, 1)).then(Op::Resume { tcb: Slot(46) }).then(Op::Settle);
    script.then(Op::NbReceive { from: ENDPOINT }).then(Op::Resume { tcb: Slot(46) }).then(Op::Settle);
    script
}
