//! Capabilities are copied, minted, moved, deleted and revoked.

use crate::machine::{Machine, SMALL_CNODE_BITS};
use platform::*;
use sim_kernel::{Access, Capability, Delivery, Halt};

fn endpoint_of(machine: &Machine, cptr: CPtr) -> (u64, Rights) {
    match machine.kernel.cap_at(machine.me, cptr) {
        Some(Capability::Endpoint { badge, rights, .. }) => (badge, rights),
        other => panic!("{other:?} is no endpoint"),
    }
}

#[test]
fn a_badge_is_minted_once_and_fits_28_bits() {
    let mut machine = Machine::new();
    let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    let badged = machine.mint(endpoint, Rights::ALL, CapData::Badge(Badge((1 << 28) - 1))).unwrap();
    assert_eq!(endpoint_of(&machine, badged.cptr()).0, (1 << 28) - 1);
    assert_eq!(machine.mint(badged, Rights::ALL, CapData::Badge(Badge(1))), Err(Error::IllegalOperation));
    let range = Error::RangeError { min: 0, max: (1 << 28) - 1 };
    assert_eq!(machine.mint(endpoint, Rights::ALL, CapData::Badge(Badge(1 << 28))), Err(range));
    // The kernel refuses a badge with the mark of notifications.
    let marked = CapData::Badge(Badge(Badge::SIGNAL | 1));
    assert_eq!(machine.mint(endpoint, Rights::ALL, marked), Err(Error::IllegalOperation));
}

#[test]
fn a_path_that_leads_nowhere_stops_the_thread() {
    let mut machine = Machine::new();
    let beyond = Cap::<CNode>::from_bits(1 << 20);
    let result = machine.kernel.cnode_delete(machine.me, AbsoluteCPtr { root: beyond, index: 1, depth: 64 });
    assert!(result.is_err());
    // The root task has no fault endpoint.
    assert!(!machine.kernel.is_runnable(machine.me));
    assert_eq!(machine.take(machine.me), None);
    assert_eq!(machine.kernel.current(), None);
}

#[test]
fn revoking_takes_a_badges_copies_and_leaves_its_twin() {
    let mut machine = Machine::new();
    let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    let one = machine.mint(endpoint, Rights::ALL, CapData::Badge(Badge(7))).unwrap();
    let twin = machine.mint(endpoint, Rights::ALL, CapData::Badge(Badge(7))).unwrap();
    let copy = machine.copy(one, Rights::ALL).unwrap();
    machine.revoke(one.cptr()).unwrap();
    assert_eq!(machine.kernel.cap_at(machine.me, copy.cptr()), Some(Capability::Null));
    assert_eq!(endpoint_of(&machine, twin.cptr()).0, 7);
    assert_eq!(endpoint_of(&machine, one.cptr()).0, 7);
}

#[test]
fn a_family_outlives_its_founder() {
    let mut machine = Machine::new();
    let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    let founder = machine.mint(endpoint, Rights::ALL, CapData::Badge(Badge(7))).unwrap();
    let heir = machine.copy(founder, Rights::ALL).unwrap();
    let twin = machine.mint(endpoint, Rights::ALL, CapData::Badge(Badge(7))).unwrap();
    machine.delete(founder.cptr()).unwrap();
    machine.revoke(twin.cptr()).unwrap();
    // It is no child of the other with the same badge, now that its parent is gone.
    assert_eq!(endpoint_of(&machine, heir.cptr()).0, 7);
}

#[test]
fn some_kinds_are_not_copied() {
    let mut machine = Machine::new();
    let control = machine.root.irq_control;
    assert_eq!(machine.copy(control, Rights::ALL), Err(Error::IllegalOperation));
    let table = machine.make::<TranslationTable>(ObjectType::TranslationTable(TableLevel::Three), 0);
    assert_eq!(machine.copy(table, Rights::ALL), Err(Error::IllegalOperation));
    let pml4 = machine.make::<VSpace>(ObjectType::VSpace, 0);
    assert_eq!(machine.copy(pml4, Rights::ALL), Err(Error::IllegalOperation));
    let pdpt = machine.make::<TranslationTable>(ObjectType::TranslationTable(TableLevel::One), 0);
    assert_eq!(machine.kernel.halted(), None);
    assert!(machine.copy(pdpt, Rights::ALL).is_err());
    assert_eq!(machine.kernel.halted(), Some(Halt::DerivedPdpt));
}

#[test]
fn deleting_the_last_cnode_capability_deletes_its_content() {
    let mut machine = Machine::new();
    let component = machine.component(10, CPtr::new(0));
    let node = machine.make::<CNode>(ObjectType::CNode, SMALL_CNODE_BITS);
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    let (me, vaddr) = (machine.me, Vaddr::new(0x3000));
    let kernel = &mut machine.kernel;
    kernel.frame_map(me, frame, component.vspace, vaddr, Rights::READ, CacheAttributes::WriteBack).unwrap();
    let (dest, src) = (machine.in_cnode(node, 5), machine.at(frame.cptr()));
    machine.kernel.cnode_move(me, dest, src).unwrap();
    let copy = machine.copy(node, Rights::ALL).unwrap();
    machine.delete(node.cptr()).unwrap();
    assert!(machine.kernel.translate(component.thread, vaddr, Access::Read).is_ok());
    assert_eq!(machine.kernel.cnode_contents(me, copy).len(), 1);
    machine.delete(copy.cptr()).unwrap();
    assert!(machine.kernel.translate(component.thread, vaddr, Access::Read).is_err());
}

#[test]
fn a_cnode_that_holds_itself_ends_with_its_untyped() {
    let mut machine = Machine::new();
    let untyped = machine.make::<Untyped>(ObjectType::Untyped, 12);
    let (me, cnode, slot) = (machine.me, machine.root.cnode, machine.slot());
    machine.kernel.untyped_retype(me, untyped, ObjectType::CNode, SMALL_CNODE_BITS, cnode, slot..slot + 1).unwrap();
    let node = Cap::<CNode>::from_bits(slot);
    machine.give(node, 0, node, Rights::ALL);
    machine.give(node, 9, node, Rights::ALL);
    machine.delete(node.cptr()).unwrap();
    machine.revoke(untyped.cptr()).unwrap();
    machine.kernel.untyped_retype(me, untyped, ObjectType::CNode, 7, cnode, slot..slot + 1).unwrap();
    machine.check();
}

#[test]
fn a_cnode_inside_of_one_that_goes_is_left_to_its_untyped() {
    let mut machine = Machine::new();
    let untyped = machine.make::<Untyped>(ObjectType::Untyped, 12);
    let (me, cnode) = (machine.me, machine.root.cnode);
    let first = machine.slot();
    machine.slot();
    machine.kernel.untyped_retype(me, untyped, ObjectType::CNode, SMALL_CNODE_BITS, cnode, first..first + 2).unwrap();
    let (outer, inner) = (Cap::<CNode>::from_bits(first), Cap::<CNode>::from_bits(first + 1));
    let notification = machine.make::<Notification>(ObjectType::Notification, 0);
    machine.give(inner, 6, notification, Rights::ALL);
    let (dest, src) = (machine.in_cnode(outer, 3), machine.at(inner.cptr()));
    machine.kernel.cnode_move(me, dest, src).unwrap();
    machine.delete(outer.cptr()).unwrap();
    machine.revoke(untyped.cptr()).unwrap();
    machine.kernel.untyped_retype(me, untyped, ObjectType::SmallPage, 0, cnode, first..first + 1).unwrap();
    machine.check();
}

#[test]
fn an_invocation_is_over_when_it_returns() {
    let mut machine = Machine::new();
    machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    assert_eq!(machine.take(machine.me), Some(Delivery::Nothing));
    assert_eq!(machine.take(machine.me), None);
}
