//! Memory becomes objects and is freed again.

use crate::machine::Machine;
use platform::*;
use sim_kernel::Capability;

fn retype(machine: &mut Machine, from: Cap<Untyped>, kind: ObjectType, bits: u8, slots: (u64, u64)) -> Result<()> {
    let cnode = machine.root.cnode;
    let result = machine.kernel.untyped_retype(machine.me, from, kind, bits, cnode, slots.0..slots.1);
    machine.check();
    result
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
