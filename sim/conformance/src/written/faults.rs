//! Faults: their messages, and the effects of replies and of resuming.

use crate::op::{Op, Path, Slot};
use crate::script::{Script, Topic, letter, make, mint, of_helper, own, start, tcb_of};
use crate::stage::{FAULT_ENDPOINT, HELPER_FREE, OPEN};
use platform::{Badge, CacheAttributes, CapData, ObjectType, Rights, TableLevel};

pub(super) fn all() -> Vec<Script> {
    vec![page_faults(), capability_faults(), no_handler()]
}

const AT: Slot = Slot(HELPER_FREE);

fn page_faults() -> Script {
    let mut script = Script::new(Topic::Faults, "a page fault is reported, and its answer lets the thread try again");
    script.then(make(ObjectType::Endpoint, 20, 1)).then(mint(of_helper(1, FAULT_ENDPOINT), 20, 0x1f));
    script.then(mint(of_helper(2, FAULT_ENDPOINT), 20, 0x2f)).then(make(
        ObjectType::TranslationTable(TableLevel::Three),
        21,
        1,
    ));
    script.then(make(ObjectType::SmallPage, 22, 1));
    script.then(Op::MapTable { level: TableLevel::Three, table: Slot(21), vspace: Slot::VSPACE, vaddr: OPEN });
    script.helper(1, Op::Store { vaddr: OPEN + 0x10, value: 5 }).helper(1, Op::Load { vaddr: OPEN + 0x10 });
    script.helper(2, Op::Load { vaddr: OPEN + 0x10 }).helper(2, Op::Load { vaddr: OPEN + 0x1000 });
    script.then(start(1, 0)).then(start(2, 0)).then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    let map = |rights| Op::MapFrame {
        frame: Slot(22),
        vspace: Slot::VSPACE,
        vaddr: OPEN,
        rights,
        cache: CacheAttributes::WriteBack,
    };
    // Without a mapping it faults again, with a read-only one likewise; then it continues.
    script
        .then(Op::Reply { letter: letter(0, 0) })
        .then(Op::Settle)
        .then(map(Rights::READ))
        .then(Op::NbReceive { from: Slot(20) });
    script.then(Op::Reply { letter: letter(0, 0) }).then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    script.then(map(Rights::READ_WRITE)).then(Op::Reply { letter: letter(0, 0) }).then(Op::Settle);
    script.then(Op::NbReceive { from: Slot(20) }).then(Op::SaveCaller { slot: own(30) });
    script
        .then(Op::Send { dest: Slot(30), letter: letter(7, 0) })
        .then(Op::Settle)
        .then(Op::NbReceive { from: Slot(20) });
    // Resumed instead of answered, it retries as well.
    script.then(Op::Resume { tcb: tcb_of(2) }).then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    script.then(Op::Suspend { tcb: tcb_of(2) }).then(Op::Reply { letter: letter(0, 0) }).then(Op::Settle);
    script.then(Op::NbReceive { from: Slot(20) });
    script
}

fn capability_faults() -> Script {
    let mut script =
        Script::new(Topic::Faults, "a capability pointer that leads nowhere is a fault of who waits for it");
    script.then(make(ObjectType::Endpoint, 20, 1)).then(mint(of_helper(1, FAULT_ENDPOINT), 20, 0x1f));
    script.then(mint(of_helper(1, HELPER_FREE), 20, 0x100));
    // Beyond the CNode the lookup finds no slot; inside it an empty slot has nothing to wait at.
    let (beyond, empty) = (Slot(40), Slot(20));
    let ops = [
        Op::Send { dest: beyond, letter: letter(1, 1) },
        Op::NbSend { dest: beyond, letter: letter(1, 1) },
        Op::Call { endpoint: beyond, letter: letter(1, 1) },
        Op::Signal { notification: beyond },
        Op::Receive { from: beyond },
        Op::NbReceive { from: beyond },
        Op::Send { dest: empty, letter: letter(1, 1) },
        Op::NbSend { dest: empty, letter: letter(1, 1) },
        Op::Signal { notification: empty },
        Op::Receive { from: empty },
        Op::NbReceive { from: empty },
        Op::Receive { from: Slot(1) },
        Op::Delete { slot: Path::In(beyond, 0, 5) },
        Op::Delete { slot: Path::In(empty, 0, 5) },
        Op::Copy { dest: Path::In(empty, 0, 5), src: Path::In(beyond, 0, 5), rights: Rights::ALL },
        Op::Send { dest: AT, letter: letter(1, 1).and_cap(beyond) },
        Op::NbSend { dest: AT, letter: letter(1, 1).and_cap(beyond) },
    ];
    for op in ops {
        script.start(1).helper(1, op).then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    }
    // The reply makes it retry; by then the slot is filled.
    script.start(1).helper(1, Op::Receive { from: empty }).then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
    script.then(make(ObjectType::Notification, 21, 1)).then(mint(of_helper(1, 20), 21, Badge::SIGNAL | 2));
    script.then(Op::Reply { letter: letter(0, 0) }).then(Op::Settle).then(mint(own(22), 21, Badge::SIGNAL | 4));
    script.then(Op::Signal { notification: Slot(22) }).then(Op::Settle);
    script
}

fn no_handler() -> Script {
    let mut script = Script::new(Topic::Faults, "a fault nobody handles ends the thread until it is started again");
    script.then(make(ObjectType::Endpoint, 20, 1)).then(make(ObjectType::Notification, 21, 1));
    let nobody = |script: &mut Script| {
        script.start(1).helper(1, Op::Load { vaddr: OPEN }).then(Op::Settle).then(Op::NbReceive { from: Slot(20) });
        script.then(Op::Resume { tcb: tcb_of(1) }).then(Op::Settle);
    };
    nobody(&mut script);
    // Capabilities that cannot carry a fault: a notification, an endpoint without grant, without write.
    for rights in [Rights::READ_WRITE, Rights { grant: true, ..Rights::READ }, Rights::CALL] {
        let data = CapData::Badge(Badge(9));
        script.then(Op::Mint { dest: of_helper(1, FAULT_ENDPOINT), src: own(20), rights, data });
        nobody(&mut script);
        script.then(Op::NbReceive { from: Slot(20) }).then(Op::Delete { slot: of_helper(1, FAULT_ENDPOINT) });
    }
    script.then(mint(of_helper(1, FAULT_ENDPOINT), 21, Badge::SIGNAL | 1));
    nobody(&mut script);
    script.start(1).helper(1, Op::ReceiveSlot { slot: None }).then(Op::Settle);
    script
}
