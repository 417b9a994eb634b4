//! Frames and paging structures.

use crate::machine::Machine;
use platform::*;
use sim_kernel::{Access, Capability};

const VADDR: Vaddr = Vaddr::new(0x5000);

fn map(machine: &mut Machine, frame: Cap<Frame>, vspace: Cap<VSpace>, vaddr: Vaddr, rights: Rights) -> Result<()> {
    let attributes = CacheAttributes::WriteBack;
    let mapped = machine.kernel.frame_map(machine.me, frame, vspace, vaddr, rights, attributes);
    machine.check();
    mapped
}

#[test]
fn what_is_missing_on_the_way_is_a_failed_lookup() {
    let mut machine = Machine::new();
    let vspace = machine.make::<VSpace>(ObjectType::VSpace, 0);
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    assert_eq!(map(&mut machine, frame, vspace, VADDR, Rights::ALL), Err(Error::InvalidCapability(1)));
    machine.kernel.asid_pool_assign(machine.me, machine.root.asid_pool, vspace).unwrap();
    let again = machine.kernel.asid_pool_assign(machine.me, machine.root.asid_pool, vspace);
    assert_eq!(again, Err(Error::InvalidCapability(1)));
    assert_eq!(map(&mut machine, frame, vspace, VADDR, Rights::ALL), Err(Error::FailedLookup));
    let (pdpt, directory) = (
        machine.make(ObjectType::TranslationTable(TableLevel::One), 0),
        machine.make(ObjectType::TranslationTable(TableLevel::Two), 0),
    );
    let table = machine.make(ObjectType::TranslationTable(TableLevel::Three), 0);
    let (me, kernel) = (machine.me, &mut machine.kernel);
    assert_eq!(kernel.translation_table_map(me, table, TableLevel::Three, vspace, VADDR), Err(Error::FailedLookup));
    assert_eq!(kernel.translation_table_map(me, directory, TableLevel::Two, vspace, VADDR), Err(Error::FailedLookup));
    kernel.translation_table_map(me, pdpt, TableLevel::One, vspace, VADDR).unwrap();
    kernel.translation_table_map(me, directory, TableLevel::Two, vspace, VADDR).unwrap();
    kernel.translation_table_map(me, table, TableLevel::Three, vspace, VADDR).unwrap();
    assert_eq!(
        kernel.translation_table_map(me, table, TableLevel::Three, vspace, VADDR),
        Err(Error::InvalidCapability(0))
    );
    let other = machine.make(ObjectType::TranslationTable(TableLevel::Three), 0);
    assert_eq!(
        machine.kernel.translation_table_map(me, other, TableLevel::Three, vspace, VADDR),
        Err(Error::DeleteFirst)
    );
    map(&mut machine, frame, vspace, VADDR, Rights::ALL).unwrap();
}

#[test]
fn one_capability_maps_once_and_an_address_is_taken_once() {
    let mut machine = Machine::new();
    let vspace = machine.vspace();
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    map(&mut machine, frame, vspace, VADDR, Rights::ALL).unwrap();
    let there = Vaddr::new(0x6000);
    assert_eq!(map(&mut machine, frame, vspace, there, Rights::ALL), Err(Error::InvalidCapability(0)));
    let copy = machine.copy(frame, Rights::ALL).unwrap();
    assert_eq!(map(&mut machine, copy, vspace, VADDR, Rights::ALL), Err(Error::DeleteFirst));
    map(&mut machine, copy, vspace, there, Rights::ALL).unwrap();
}

#[test]
fn addresses_are_checked_before_the_way_to_them() {
    let mut machine = Machine::new();
    let vspace = machine.vspace();
    let large = machine.make::<Frame>(ObjectType::LargePage, 0);
    let small = machine.make::<Frame>(ObjectType::SmallPage, 0);
    let at = Vaddr::new;
    assert_eq!(map(&mut machine, small, vspace, at(0x5001), Rights::ALL), Err(Error::AlignmentError));
    assert_eq!(map(&mut machine, large, vspace, at(0x1000), Rights::ALL), Err(Error::AlignmentError));
    let pdpt = machine.make(ObjectType::TranslationTable(TableLevel::One), 0);
    // From the last page of the lower half on, canonical or not.
    for high in [0x7fff_ffff_f000, 0x8000_0000_0000, 0xff80_4000_0000, 0xffff_ff80_0000_0000].map(at) {
        assert_eq!(map(&mut machine, small, vspace, high, Rights::ALL), Err(Error::InvalidArgument(0)));
    }
    let hole = machine.kernel.translation_table_map(machine.me, pdpt, TableLevel::One, vspace, at(0x8000_0000_0000));
    assert_eq!(hole, Err(Error::InvalidArgument(0)));
    assert_eq!(map(&mut machine, small, vspace, at(0x7fff_ffff_e000), Rights::ALL), Err(Error::FailedLookup));
    // A large frame cannot be mapped in the place of a page table.
    assert_eq!(map(&mut machine, large, vspace, at(0), Rights::ALL), Err(Error::DeleteFirst));
    map(&mut machine, large, vspace, at(0x20_0000), Rights::ALL).unwrap();
    let table = machine.make(ObjectType::TranslationTable(TableLevel::Three), 0);
    let taken = machine.kernel.translation_table_map(machine.me, table, TableLevel::Three, vspace, at(0x20_0000));
    assert_eq!(taken, Err(Error::DeleteFirst));
    assert_eq!(map(&mut machine, small, vspace, at(0x20_0000), Rights::ALL), Err(Error::FailedLookup));
}

#[test]
fn a_mapping_allows_what_capability_and_mapping_do() {
    let mut machine = Machine::new();
    let component = machine.component(10, CPtr::new(0));
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    let paddr = machine.kernel.frame_get_address(machine.me, frame).unwrap();
    let read_only = machine.copy(frame, Rights::READ).unwrap();
    let neither = machine.copy(frame, Rights::WRITE).unwrap();
    map(&mut machine, frame, component.vspace, VADDR, Rights::READ_WRITE).unwrap();
    map(&mut machine, read_only, component.vspace, Vaddr::new(0x6000), Rights::READ_WRITE).unwrap();
    map(&mut machine, neither, component.vspace, Vaddr::new(0x7000), Rights::READ_WRITE).unwrap();
    let seen = |vaddr: u64, access| machine.kernel.translate(component.thread, Vaddr::new(vaddr), access).ok();
    assert_eq!(seen(0x5123, Access::Write), Some(Paddr::new(paddr.bits() + 0x123)));
    assert_eq!(seen(0x5123, Access::Execute), Some(Paddr::new(paddr.bits() + 0x123)));
    assert_eq!(seen(0x6fff, Access::Read), Some(Paddr::new(paddr.bits() + 0xfff)));
    assert_eq!(seen(0x6fff, Access::Write), None);
    assert_eq!(seen(0x7000, Access::Read), None);
    assert_eq!(seen(0x8000, Access::Read), None);
    assert_eq!(seen(0x8000_0000_5123, Access::Read), None);
}

#[test]
fn a_frame_unmapped_or_deleted_is_out_of_reach() {
    let mut machine = Machine::new();
    let component = machine.component(10, CPtr::new(0));
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    map(&mut machine, frame, component.vspace, VADDR, Rights::ALL).unwrap();
    let before = machine.kernel.translation_generation();
    machine.kernel.frame_unmap(machine.me, frame).unwrap();
    assert_ne!(machine.kernel.translation_generation(), before);
    assert!(machine.kernel.translate(component.thread, VADDR, Access::Read).is_err());
    assert_eq!(machine.kernel.frame_unmap(machine.me, frame), Ok(()));
    // A copy's mapping is removed with the copy, though the frame has another capability.
    let copy = machine.copy(frame, Rights::ALL).unwrap();
    map(&mut machine, copy, component.vspace, VADDR, Rights::ALL).unwrap();
    assert!(machine.kernel.translate(component.thread, VADDR, Access::Read).is_ok());
    machine.delete(copy.cptr()).unwrap();
    assert!(machine.kernel.translate(component.thread, VADDR, Access::Read).is_err());
}

#[test]
fn what_lies_under_a_deleted_structure_is_gone() {
    let mut machine = Machine::new();
    let component = machine.component(10, CPtr::new(0));
    let table = machine.make::<TranslationTable>(ObjectType::TranslationTable(TableLevel::Three), 0);
    let (me, there) = (machine.me, Vaddr::new(0x20_0000));
    machine.kernel.translation_table_map(me, table, TableLevel::Three, component.vspace, there).unwrap();
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    map(&mut machine, frame, component.vspace, there, Rights::ALL).unwrap();
    machine.delete(table.cptr()).unwrap();
    assert!(machine.kernel.translate(component.thread, there, Access::Read).is_err());
    // The frame's capability still has the mapping: it must be unmapped before it is mapped again.
    assert_eq!(map(&mut machine, frame, component.vspace, VADDR, Rights::ALL), Err(Error::InvalidCapability(0)));
    machine.kernel.frame_unmap(me, frame).unwrap();
    map(&mut machine, frame, component.vspace, VADDR, Rights::ALL).unwrap();
}

#[test]
fn pools_of_identifiers_are_made_of_a_page() {
    let mut machine = Machine::new();
    let small = machine.make::<Untyped>(ObjectType::Untyped, 11);
    let page = machine.make::<Untyped>(ObjectType::Untyped, 12);
    let dest = CPtr::new(machine.slot());
    let (me, control, slot) = (machine.me, machine.root.asid_control, machine.at(dest));
    let kernel = &mut machine.kernel;
    assert_eq!(kernel.asid_control_make_pool(me, control, small, slot), Err(Error::InvalidCapability(1)));
    kernel.asid_control_make_pool(me, control, page, slot).unwrap();
    assert_eq!(kernel.asid_control_make_pool(me, control, page, slot), Err(Error::RevokeFirst));
    let vspace = machine.make::<VSpace>(ObjectType::VSpace, 0);
    machine.kernel.asid_pool_assign(me, dest.cast(), vspace).unwrap();
    match machine.kernel.cap_at(me, vspace.cptr()) {
        Some(Capability::VSpace { asid, .. }) => assert_eq!(asid, 512),
        other => panic!("{other:?}"),
    }
    machine.revoke(page.cptr()).unwrap();
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    // Its pool was deleted: it is no VSpace any more.
    assert_eq!(map(&mut machine, frame, vspace, VADDR, Rights::ALL), Err(Error::FailedLookup));
}

#[test]
fn a_thread_whose_vspace_goes_sees_nothing() {
    let mut machine = Machine::new();
    let component = machine.component(10, CPtr::new(0));
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    map(&mut machine, frame, component.vspace, VADDR, Rights::ALL).unwrap();
    machine.revoke(component.vspace.cptr()).unwrap();
    machine.delete(component.vspace.cptr()).unwrap();
    assert!(machine.kernel.translate(component.thread, VADDR, Access::Read).is_err());
    assert_eq!(machine.kernel.vspace(component.thread), []);
}
