//! Frames and paging structures.

use crate::machine::Machine;
use platform::*;
use sim_kernel::Access;

const VADDR: Vaddr = Vaddr::new(0x5000);

fn map(machine: &mut Machine, frame: Cap<Frame>, vspace: Cap<VSpace>, vaddr: Vaddr, rights: Rights) -> Result<()> {
    let attributes = CacheAttributes::WriteBack;
    let mapped = machine.kernel.frame_map(machine.me, frame, vspace, vaddr, rights, attributes);
    machine.check();
    mapped
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
