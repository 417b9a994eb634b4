//! Signals.

use crate::machine::{Component, Machine};
use platform::*;
use sim_kernel::{Delivery, ThreadState};

const WAIT: CPtr = CPtr::new(2);

fn badged(machine: &mut Machine, notification: Cap<Notification>, bits: u64) -> Cap<Notification> {
    machine.mint(notification, Rights::WRITE, CapData::Badge(Badge(Badge::SIGNAL | bits))).unwrap()
}

/// A component that waits for a notification, which signallers of badges 1 and 2 reach from the root task.
fn waiter() -> (Machine, Component, Cap<Notification>, [Cap<Notification>; 2]) {
    let mut machine = Machine::new();
    let notification = machine.make::<Notification>(ObjectType::Notification, 0);
    let signallers = [badged(&mut machine, notification, 1), badged(&mut machine, notification, 2)];
    let component = machine.component(10, CPtr::new(0));
    machine.give(component.cnode, WAIT.bits(), notification, Rights::READ);
    (machine, component, notification, signallers)
}

#[test]
fn binding_is_one_to_one_and_needs_the_right_to_wait() {
    let (mut machine, component, notification, [one, _]) = waiter();
    let second = machine.component(10, CPtr::new(0));
    let (me, refused) = (machine.me, Err(Error::IllegalOperation));
    assert_eq!(machine.kernel.tcb_bind_notification(me, component.tcb, one), refused);
    machine.kernel.receive(component.thread, WAIT);
    // A thread waits for it already.
    assert_eq!(machine.kernel.tcb_bind_notification(me, second.tcb, notification), refused);
    machine.kernel.signal(me, one);
    machine.kernel.tcb_bind_notification(me, component.tcb, notification).unwrap();
    assert_eq!(machine.kernel.tcb_bind_notification(me, second.tcb, notification), refused);
    let another = machine.make::<Notification>(ObjectType::Notification, 0);
    assert_eq!(machine.kernel.tcb_bind_notification(me, component.tcb, another), refused);
    // Only the bound thread may wait for a bound notification.
    machine.give(second.cnode, WAIT.bits(), notification, Rights::READ);
    machine.kernel.receive(second.thread, WAIT);
    assert_eq!(machine.kernel.thread_state(second.thread), Some(ThreadState::Inactive));
    machine.check();
}

#[test]
fn who_waits_for_a_notification_that_ends_tries_again() {
    let (mut machine, component, notification, _) = waiter();
    machine.kernel.receive(component.thread, WAIT);
    machine.revoke(notification.cptr()).unwrap();
    machine.delete(notification.cptr()).unwrap();
    assert_eq!(machine.take(component.thread), Some(Delivery::Restart));
    machine.kernel.receive(component.thread, WAIT);
    // Now there is nothing to wait for, and no fault endpoint.
    assert_eq!(machine.kernel.thread_state(component.thread), Some(ThreadState::Inactive));
}
