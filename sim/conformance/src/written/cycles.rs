//! Deletion of objects that hold themselves, each other, or their last capability.

use crate::op::{Op, Path, Slot};
use crate::script::{
    Script, Topic, copy, delete, letter, make, make_sized, mint, of_helper, own, revoke, start, tcb_of,
};
use crate::stage::{FAULT_ENDPOINT, HELPER_FREE, OWN_CNODE, OWN_TCB};
use platform::{ObjectType, Rights};

pub(super) fn all() -> Vec<Script> {
    vec![own_slot(), each_other(), chains(), threads(), from_inside()]
}

const A: u16 = 20;
const B: u16 = 21;
const SLOTS_BITS: u8 = 3;

const fn inside(cnode: u16, index: u64) -> Path {
    Path::In(Slot(cnode), index, SLOTS_BITS)
}

const fn copy_in(dest: Path, src: u16) -> Op {
    Op::Copy { dest, src: own(src), rights: Rights::ALL }
}

/// Shows that all memory is free again: a page is made at its start.
fn whole(script: &mut Script) {
    script.then(revoke(2)).then(make(ObjectType::SmallPage, 60, 1)).then(Op::FrameAddress { frame: Slot(60) });
    script.then(revoke(2));
}

fn own_slot() -> Script {
    let mut script = Script::new(Topic::CNode, "a CNode that holds its own capability, in every slot, first and last");
    for index in [0, 1, 6, 7] {
        script.then(make_sized(ObjectType::CNode, SLOTS_BITS, A, 1)).then(make(ObjectType::Endpoint, 30, 1));
        script.then(copy_in(inside(A, index), A)).then(copy_in(inside(A, 3), 30)).then(delete(A)).then(copy(31, A));
        whole(&mut script);
        // Move the capability into its own CNode, and out again only while another one leads there.
        script
            .then(make_sized(ObjectType::CNode, SLOTS_BITS, A, 1))
            .then(make(ObjectType::Endpoint, 30, 1))
            .then(copy(B, A));
        script.then(copy_in(inside(A, 5), 30)).then(Op::Move { dest: inside(A, index), src: own(A) });
        script
            .then(Op::Move { dest: own(A), src: inside(B, index) })
            .then(Op::Move { dest: inside(A, index), src: own(A) });
        script
            .then(delete(B))
            .then(copy(31, B))
            .then(Op::Delete { slot: inside(B, index) })
            .then(revoke(30))
            .then(delete(30));
        whole(&mut script);
        // Deleted through itself.
        script.then(make_sized(ObjectType::CNode, SLOTS_BITS, A, 1)).then(copy_in(inside(A, index), A));
        script.then(Op::Delete { slot: inside(A, index) }).then(copy_in(inside(A, index), A)).then(copy(31, A));
        script.then(Op::Revoke { slot: inside(A, index) }).then(copy(32, A)).then(delete(31)).then(delete(32));
        whole(&mut script);
    }
    script
}

fn each_other() -> Script {
    let mut script = Script::new(Topic::CNode, "two CNodes that hold each other end together or not at all");
    for (in_a, in_b) in [(0, 0), (7, 7), (0, 7), (3, 4)] {
        for first in [A, B] {
            script.then(make_sized(ObjectType::CNode, SLOTS_BITS, A, 2)).then(make(ObjectType::Endpoint, 30, 1));
            script.then(copy_in(inside(A, in_a), B)).then(copy_in(inside(B, in_b), A)).then(copy_in(inside(A, 5), 30));
            script.then(delete(first)).then(copy(31, 30)).then(copy(32, A)).then(copy(33, B));
            script.then(Op::Copy { dest: own(34), src: inside(A, 5), rights: Rights::ALL });
            script.then(Op::Copy { dest: own(35), src: inside(B, in_b), rights: Rights::ALL });
            script.then(delete(A)).then(delete(B)).then(delete(32)).then(delete(33)).then(delete(35)).then(delete(31));
            script.then(delete(34));
            whole(&mut script);
            // Moved, so that only one capability is left outside.
            script.then(make_sized(ObjectType::CNode, SLOTS_BITS, A, 2));
            let (kept, given) = if first == A { (A, B) } else { (B, A) };
            script
                .then(copy_in(inside(given, in_b), kept))
                .then(Op::Move { dest: inside(kept, in_a), src: own(given) });
            script.then(delete(kept)).then(copy(31, kept));
            whole(&mut script);
        }
    }
    script
}

fn chains() -> Script {
    let mut script = Script::new(Topic::CNode, "a chain of CNodes ends from its head, at any length");
    for length in [2u16, 3, 8] {
        script.then(make_sized(ObjectType::CNode, SLOTS_BITS, A, length)).then(make(ObjectType::Notification, 40, 1));
        script.then(copy_in(inside(A + length - 1, 2), 40));
        for link in (1..length).rev() {
            script.then(Op::Move { dest: inside(A + link - 1, u64::from(link) % 8), src: own(A + link) });
        }
        script.then(copy(41, A)).then(delete(41)).then(delete(A)).then(copy(42, 40)).then(delete(42));
        whole(&mut script);
    }
    script
}

fn threads() -> Script {
    let mut script = Script::new(Topic::Threads, "a thread and the CNode it lives in, each the other's last holder");
    for keep_cnode in [0, 1] {
        script.then(make_sized(ObjectType::CNode, SLOTS_BITS, A, 1)).then(make(ObjectType::Tcb, 50, 1));
        script.then(make(ObjectType::VSpace, 51, 1)).then(Op::AssignPool { pool: Slot::ASID_POOL, vspace: Slot(51) });
        let configure = |tcb| Op::Configure {
            tcb: Slot(tcb),
            fault_endpoint: 0,
            priority: 10,
            cspace: Slot(A),
            guard_bits: 61,
            vspace: Slot(51),
            buffer: 0,
            frame: Slot::EMPTY,
        };
        script.then(configure(50)).then(Op::Move { dest: inside(A, 7), src: own(50) }).then(configure(50));
        script.then(if keep_cnode == 1 { copy(52, A) } else { Op::Nothing }).then(delete(A)).then(delete(51));
        script
            .then(Op::Copy { dest: own(53), src: inside(52, 7), rights: Rights::ALL })
            .then(delete(53))
            .then(delete(52));
        whole(&mut script);
    }
    script
}

fn from_inside() -> Script {
    let mut script = Script::new(Topic::Threads, "a thread that takes itself and its CSpace away");
    script.then(make(ObjectType::Endpoint, 20, 1));
    for helper in 1..=3 {
        script.then(mint(of_helper(helper, HELPER_FREE), 20, u64::from(helper)));
        script.then(mint(of_helper(helper, FAULT_ENDPOINT), 20, 0x10 + u64::from(helper)));
    }
    let own_path = |slot| Path::Own(Slot(slot));
    // Without the capability to its own CNode it cannot change slots any more, but still sends.
    script.helper(1, Op::Delete { slot: own_path(OWN_CNODE) }).helper(1, Op::Delete { slot: own_path(HELPER_FREE) });
    script.helper(1, Op::Send { dest: Slot(HELPER_FREE), letter: letter(1, 1) });
    // Without its TCB's it cannot stop itself, and is stopped.
    script.helper(2, Op::Send { dest: Slot(HELPER_FREE), letter: letter(2, 2) });
    script.helper(2, Op::Receive { from: Slot(HELPER_FREE) });
    script
        .helper(3, Op::Suspend { tcb: Slot(OWN_TCB) })
        .helper(3, Op::Send { dest: Slot(HELPER_FREE), letter: letter(3, 3) });
    for helper in 1..=3 {
        script.then(start(helper, 0));
    }
    script
        .then(Op::Settle)
        .then(Op::NbReceive { from: Slot(20) })
        .then(Op::Settle)
        .then(Op::NbReceive { from: Slot(20) });
    script.then(Op::Delete { slot: of_helper(2, OWN_TCB) }).then(delete(tcb_of(2).0)).then(Op::Settle);
    script.then(Op::NbReceive { from: Slot(20) }).then(Op::Settle).then(Op::Resume { tcb: tcb_of(3) }).then(Op::Settle);
    script.then(Op::NbReceive { from: Slot(20) });
    script
}
