//! Memory becomes objects and is freed again.

use crate::machine::Machine;
use platform::*;
use sim_kernel::{Access, Capability};

fn retype(machine: &mut Machine, from: Cap<Untyped>, kind: ObjectType, bits: u8, slots: (u64, u64)) -> Result<()> {
    let cnode = machine.root.cnode;
    let result = machine.kernel.untyped_retype(machine.me, from, kind, bits, cnode, slots.0..slots.1);
    machine.check();
    result
}

#[test]
fn sizes_and_counts_are_checked_in_the_kernels_order() {
    let mut machine = Machine::new();
    let (from, free) = (machine.untyped, machine.slot());
    let slots = (free, free + 1);
    let mut refused = |kind, bits, slots| retype(&mut machine, from, kind, bits, slots).unwrap_err();
    assert_eq!(refused(ObjectType::Untyped, 48, slots), Error::RangeError { min: 0, max: 61 });
    assert_eq!(refused(ObjectType::Endpoint, 48, (0, 0)), Error::RangeError { min: 0, max: 61 });
    assert_eq!(refused(ObjectType::CNode, 0, slots), Error::InvalidArgument(1));
    assert_eq!(refused(ObjectType::Untyped, 3, slots), Error::InvalidArgument(1));
    assert_eq!(refused(ObjectType::Endpoint, 0, (512, 513)), Error::RangeError { min: 0, max: 511 });
    assert_eq!(refused(ObjectType::Endpoint, 0, (free, free)), Error::RangeError { min: 1, max: 256 });
    assert_eq!(refused(ObjectType::Endpoint, 0, (free, free + 257)), Error::RangeError { min: 1, max: 256 });
    assert_eq!(refused(ObjectType::Endpoint, 0, (510, 513)), Error::RangeError { min: 1, max: 2 });
    assert_eq!(refused(ObjectType::Endpoint, 0, (1, 2)), Error::DeleteFirst);
}

#[test]
fn what_does_not_fit_is_reported_how_much_is_left() {
    let mut machine = Machine::new();
    let small = machine.make::<Untyped>(ObjectType::Untyped, 13);
    let free = machine.slot();
    machine.slot();
    assert_eq!(
        retype(&mut machine, small, ObjectType::SmallPage, 0, (free, free + 3)),
        Err(Error::NotEnoughMemory(8192))
    );
    retype(&mut machine, small, ObjectType::Endpoint, 0, (free, free + 1)).unwrap();
    let next = free + 1;
    // It would fit by the sum of bytes, but not behind the endpoint; one page does, aligned up.
    assert_eq!(
        retype(&mut machine, small, ObjectType::Untyped, 13, (next, next + 1)),
        Err(Error::NotEnoughMemory(8192 - 16))
    );
    retype(&mut machine, small, ObjectType::SmallPage, 0, (next, next + 1)).unwrap();
    let page = machine.kernel.frame_get_address(machine.me, Cap::from_bits(next)).unwrap();
    assert_eq!(page.bits() % 8192, 4096);
    let last = machine.slot();
    assert_eq!(retype(&mut machine, small, ObjectType::Endpoint, 0, (last, last + 1)), Err(Error::NotEnoughMemory(0)));
}

#[test]
fn memory_that_comes_back_is_clear() {
    let mut machine = Machine::new();
    let untyped = machine.make::<Untyped>(ObjectType::Untyped, 12);
    let slot = machine.slot();
    retype(&mut machine, untyped, ObjectType::SmallPage, 0, (slot, slot + 1)).unwrap();
    let paddr = machine.kernel.frame_get_address(machine.me, Cap::from_bits(slot)).unwrap();
    machine.kernel.memory_mut().write(paddr, b"secret").unwrap();
    machine.revoke(untyped.cptr()).unwrap();
    // The capability is deleted, the bytes are not cleared yet.
    assert_eq!(machine.kernel.cap_at(machine.me, CPtr::new(slot)), Some(Capability::Null));
    assert_eq!(&machine.kernel.memory().page(paddr).unwrap()[..6], b"secret");
    retype(&mut machine, untyped, ObjectType::SmallPage, 0, (slot, slot + 1)).unwrap();
    assert_eq!(machine.kernel.frame_get_address(machine.me, Cap::from_bits(slot)), Ok(paddr));
    assert_eq!(machine.kernel.memory().page(paddr).unwrap()[..6], [0; 6]);
}

#[test]
fn an_untyped_grows_upwards_until_all_its_children_are_gone() {
    let mut machine = Machine::new();
    let untyped = machine.make::<Untyped>(ObjectType::Untyped, 13);
    let (one, other) = (machine.slot(), machine.slot());
    retype(&mut machine, untyped, ObjectType::SmallPage, 0, (one, one + 1)).unwrap();
    retype(&mut machine, untyped, ObjectType::SmallPage, 0, (other, other + 1)).unwrap();
    machine.delete(CPtr::new(one)).unwrap();
    let full = retype(&mut machine, untyped, ObjectType::SmallPage, 0, (one, one + 1));
    assert_eq!(full, Err(Error::NotEnoughMemory(0)));
    machine.delete(CPtr::new(other)).unwrap();
    retype(&mut machine, untyped, ObjectType::SmallPage, 0, (one, one + 1)).unwrap();
}

#[test]
fn of_device_memory_come_frames_and_untypeds_alone() {
    let mut machine = Machine::new();
    let is_window = |u: &&sim_kernel::BootUntyped| u.is_device && u.paddr.bits() == 0x100_0000;
    let device = machine.root.untypeds.iter().find(is_window).unwrap().cptr;
    let slot = machine.slot();
    let slots = (slot, slot + 1);
    assert_eq!(retype(&mut machine, device, ObjectType::Endpoint, 0, slots), Err(Error::InvalidArgument(1)));
    assert_eq!(retype(&mut machine, device, ObjectType::IoPageTable, 0, slots), Err(Error::InvalidArgument(1)));
    retype(&mut machine, device, ObjectType::LargePage, 0, slots).unwrap();
    let frame = machine.kernel.frame_get_address(machine.me, Cap::from_bits(slot));
    assert_eq!(frame, Ok(Paddr::new(0x100_0000)));
}

#[test]
fn a_copy_of_an_untyped_takes_its_memory() {
    let mut machine = Machine::new();
    let untyped = machine.make::<Untyped>(ObjectType::Untyped, 12);
    let copy = machine.copy(untyped, Rights::ALL).unwrap();
    let slot = machine.slot();
    // The original has a child now and nothing left; the copy starts from the beginning.
    let full = retype(&mut machine, untyped, ObjectType::Endpoint, 0, (slot, slot + 1));
    assert_eq!(full, Err(Error::NotEnoughMemory(0)));
    retype(&mut machine, copy, ObjectType::SmallPage, 0, (slot, slot + 1)).unwrap();
    assert_eq!(machine.copy(copy, Rights::ALL), Err(Error::RevokeFirst));
    machine.revoke(untyped.cptr()).unwrap();
    assert_eq!(machine.kernel.cap_at(machine.me, copy.cptr()), Some(Capability::Null));
}

#[test]
fn retype_names_a_cnode_and_an_untyped_or_is_refused() {
    let mut machine = Machine::new();
    let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    let slot = machine.slot();
    let (me, from) = (machine.me, machine.untyped);
    let into = endpoint.cptr().cast::<CNode>();
    let kernel = &mut machine.kernel;
    assert_eq!(
        kernel.untyped_retype(me, from, ObjectType::Endpoint, 0, into, slot..slot + 1),
        Err(Error::FailedLookup)
    );
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    let from = frame.cptr().cast();
    assert_eq!(retype(&mut machine, from, ObjectType::Endpoint, 0, (slot, slot + 1)), Err(Error::IllegalOperation));
    let empty = Cap::from_bits(machine.slot());
    assert_eq!(
        retype(&mut machine, empty, ObjectType::Endpoint, 0, (slot, slot + 1)),
        Err(Error::InvalidCapability(0))
    );
}

#[test]
fn a_page_in_use_is_not_made_again() {
    let mut machine = Machine::new();
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    let vspace = machine.vspace();
    let (me, vaddr) = (machine.me, Vaddr::new(0x1000));
    let kernel = &mut machine.kernel;
    kernel.frame_map(me, frame, vspace, vaddr, Rights::READ, CacheAttributes::WriteBack).unwrap();
    machine.revoke(machine.untyped.cptr()).unwrap();
    assert_eq!(machine.kernel.cap_at(machine.me, frame.cptr()), Some(Capability::Null));
    // The root task's own memory is not of this untyped.
    assert!(machine.kernel.translate(machine.me, machine.root.payload.vaddr, Access::Read).is_ok());
}
