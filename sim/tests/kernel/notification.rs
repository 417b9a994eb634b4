//! Signals.

use crate::machine::{Component, Machine};
use platform::*;
use sim_kernel::{Delivery, ThreadState};

const SIGNAL: CPtr = CPtr::new(1);
const WAIT: CPtr = CPtr::new(2);
const RECEIVE: CPtr = CPtr::new(3);

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

fn signal(bits: u64) -> Option<Delivery> {
    Some(Delivery::Signal(Badge(Badge::SIGNAL | bits)))
}

#[test]
fn badges_add_up_until_they_are_taken() {
    let (mut machine, component, _, [one, other]) = waiter();
    machine.kernel.signal(machine.me, one);
    machine.kernel.signal(machine.me, other);
    machine.kernel.signal(machine.me, one);
    machine.kernel.receive(component.thread, WAIT);
    assert_eq!(machine.take(component.thread), signal(3));
    machine.kernel.nb_receive(component.thread, WAIT);
    assert_eq!(machine.take(component.thread), Some(Delivery::Nothing));
}

#[test]
fn who_waits_first_is_woken_first() {
    let (mut machine, component, notification, [one, other]) = waiter();
    let second = machine.component(10, CPtr::new(0));
    machine.give(second.cnode, WAIT.bits(), notification, Rights::READ);
    machine.kernel.receive(component.thread, WAIT);
    machine.kernel.receive(second.thread, WAIT);
    machine.kernel.signal(machine.me, one);
    assert_eq!(machine.take(component.thread), signal(1));
    assert_eq!(machine.take(second.thread), None);
    machine.kernel.signal(machine.me, other);
    assert_eq!(machine.take(second.thread), signal(2));
}

#[test]
fn a_bound_notification_ends_a_wait_at_an_endpoint() {
    let (mut machine, component, notification, [one, _]) = waiter();
    let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    machine.give(component.cnode, RECEIVE.bits(), endpoint, Rights::ALL);
    machine.kernel.tcb_bind_notification(machine.me, component.tcb, notification).unwrap();
    machine.kernel.receive(component.thread, RECEIVE);
    machine.kernel.signal(machine.me, one);
    assert_eq!(machine.take(component.thread), signal(1));
    // It left the endpoint's queue: a send finds no receiver.
    machine.kernel.nb_send(machine.me, endpoint.cptr(), &Message::new(1));
    assert_eq!(machine.take(component.thread), None);
    // A signal that came first is received first.
    machine.kernel.signal(machine.me, one);
    machine.kernel.receive(component.thread, RECEIVE);
    assert_eq!(machine.take(component.thread), signal(1));
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
fn signalling_without_the_right_does_nothing() {
    let (mut machine, component, _, _) = waiter();
    machine.kernel.receive(component.thread, WAIT);
    let second = machine.component(10, CPtr::new(0));
    let from = machine.in_cnode(component.cnode, WAIT.bits());
    let to = machine.in_cnode(second.cnode, SIGNAL.bits());
    machine.kernel.cnode_copy(machine.me, to, from, Rights::ALL).unwrap();
    machine.kernel.signal(second.thread, SIGNAL.cast());
    assert_eq!(machine.take(component.thread), None);
    assert!(machine.kernel.is_runnable(second.thread));
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
