//! Threads are set up, stopped and ended.

use crate::machine::Machine;
use platform::*;
use sim_kernel::{Delivery, ThreadState};

const WAIT: CPtr = CPtr::new(2);
const BUFFER: Vaddr = Vaddr::new(0x10_0000);

#[test]
fn what_a_thread_is_configured_with_is_checked_in_order() {
    let mut machine = Machine::new();
    let component = machine.component(10, CPtr::new(0));
    let unassigned = machine.make::<VSpace>(ObjectType::VSpace, 0);
    let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    let frame = machine.make::<Frame>(ObjectType::SmallPage, 0);
    let me = machine.me;
    let mut configure = |cnode: CPtr, vspace: CPtr, buffer, frame: CPtr| {
        let (none, tcb) = (CPtr::new(0), component.tcb);
        machine.kernel.tcb_configure(me, tcb, none, 10, cnode.cast(), 60, vspace.cast(), buffer, frame.cast())
    };
    let (cnode, vspace) = (component.cnode.cptr(), component.vspace.cptr());
    let illegal = Err(Error::IllegalOperation);
    assert_eq!(configure(cnode, vspace, BUFFER, endpoint.cptr()), illegal);
    assert_eq!(configure(cnode, vspace, Vaddr::new(0x10_0100), frame.cptr()), Err(Error::AlignmentError));
    assert_eq!(configure(endpoint.cptr(), vspace, BUFFER, frame.cptr()), illegal);
    assert_eq!(configure(cnode, unassigned.cptr(), BUFFER, frame.cptr()), illegal);
    assert_eq!(configure(cnode, vspace, BUFFER, frame.cptr()), Ok(()));
    machine.check();
}

#[test]
fn a_thread_that_was_only_preempted_goes_on_where_it_was() {
    let mut machine = Machine::new();
    let component = machine.component(10, CPtr::new(0));
    machine.kernel.rotate(component.thread);
    assert_eq!(machine.take(component.thread), Some(Delivery::Nothing));
    machine.kernel.tcb_suspend(machine.me, component.tcb).unwrap();
    machine.kernel.tcb_resume(machine.me, component.tcb).unwrap();
    assert_eq!(machine.take(component.thread), None);
    assert!(machine.kernel.is_runnable(component.thread));
}

#[test]
fn a_thread_ends_with_its_last_capability() {
    let mut machine = Machine::new();
    let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    let component = machine.component(10, CPtr::new(0));
    machine.give(component.cnode, WAIT.bits(), endpoint, Rights::ALL);
    machine.kernel.call(component.thread, WAIT, &Message::new(1));
    machine.kernel.nb_receive(machine.me, endpoint.cptr());
    let copy = machine.copy(component.tcb, Rights::ALL).unwrap();
    machine.delete(component.tcb.cptr()).unwrap();
    assert_eq!(machine.kernel.thread_state(component.thread), Some(ThreadState::BlockedOnReply));
    machine.delete(copy.cptr()).unwrap();
    assert_eq!(machine.kernel.thread_state(component.thread), None);
    assert!(!machine.kernel.is_runnable(component.thread));
    // The right to reply to it was deleted with it.
    machine.kernel.reply(machine.me, &Message::new(2));
    machine.check();
    // Its number is not reused.
    assert_ne!(machine.component(10, CPtr::new(0)).thread, component.thread);
}

#[test]
fn a_dead_thread_does_nothing() {
    let mut machine = Machine::new();
    let component = machine.component(10, CPtr::new(0));
    machine.delete(component.tcb.cptr()).unwrap();
    machine.kernel.receive(component.thread, WAIT);
    machine.kernel.signal(component.thread, WAIT.cast());
    machine.kernel.rotate(component.thread);
    machine.kernel.set_receive_cptr(component.thread, None);
    assert_eq!(machine.kernel.tcb_suspend(component.thread, component.tcb), Err(Error::IllegalOperation));
    assert_eq!(machine.take(component.thread), None);
    assert_eq!(machine.kernel.cspace(component.thread), []);
}
