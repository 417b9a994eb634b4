//! The choice of the next thread to run.

use crate::machine::{Component, Machine};
use platform::*;
use sim_kernel::{TIME_SLICE_TICKS, ThreadId};

const SEND: CPtr = CPtr::new(1);
const RECEIVE: CPtr = CPtr::new(2);

/// Three components of priority 10, with the root task out of the way. The first runs.
fn three() -> (Machine, [Component; 3], Cap<Notification>) {
    let mut machine = Machine::new();
    let notification = machine.make::<Notification>(ObjectType::Notification, 0);
    let components = [0; 3].map(|_| machine.component(10, CPtr::new(0)));
    for component in components {
        machine.give(component.cnode, SEND.bits(), notification, Rights::ALL);
    }
    machine.kernel.tcb_suspend(machine.me, machine.root.tcb).unwrap();
    (machine, components, notification)
}

fn order(machine: &Machine) -> Vec<ThreadId> {
    machine.check();
    machine.kernel.runnable_at(10).collect()
}

#[test]
fn who_is_resumed_last_is_before_the_others() {
    let (machine, components, _) = three();
    let [first, second, third] = components.map(|component| component.thread);
    assert_eq!(order(&machine), [third, second, first]);
    assert_eq!(machine.kernel.current(), Some(third));
    assert_eq!(machine.kernel.highest_runnable(), Some(10));
}

#[test]
fn a_yield_goes_to_the_end() {
    let (mut machine, components, _) = three();
    let [first, second, third] = components.map(|component| component.thread);
    let before = machine.kernel.generation();
    machine.kernel.rotate(third);
    assert_eq!(order(&machine), [second, first, third]);
    assert_ne!(machine.kernel.generation(), before);
}

#[test]
fn a_slice_ends_after_its_ticks() {
    let (mut machine, components, _) = three();
    let [first, second, third] = components.map(|component| component.thread);
    for _ in 1..TIME_SLICE_TICKS {
        machine.kernel.timer_tick();
        assert_eq!(machine.kernel.current(), Some(third));
    }
    machine.kernel.timer_tick();
    assert_eq!(order(&machine), [second, first, third]);
}

#[test]
fn a_signal_wakes_behind_the_signaller_of_the_same_priority() {
    let (mut machine, components, _) = three();
    let [first, second, third] = components.map(|component| component.thread);
    machine.kernel.receive(third, SEND);
    assert_eq!(order(&machine), [second, first]);
    machine.kernel.signal(second, SEND.cast());
    assert_eq!(order(&machine), [second, third, first]);
}

#[test]
fn reply_switches_to_an_equal_and_not_to_a_lower_priority() {
    for (client_priority, expected_client_runs) in [(10, true), (9, false)] {
        let mut machine = Machine::new();
        let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
        let server = machine.component(10, CPtr::new(0));
        let client = machine.component(client_priority, CPtr::new(0));
        machine.give(server.cnode, RECEIVE.bits(), endpoint, Rights::ALL);
        machine.give(client.cnode, SEND.bits(), endpoint, Rights::ALL);
        machine.kernel.receive(server.thread, RECEIVE);
        machine.kernel.call(client.thread, SEND, &Message::new(1));
        machine.kernel.tcb_suspend(machine.me, machine.root.tcb).unwrap();
        assert_eq!(machine.kernel.current(), Some(server.thread));
        machine.kernel.reply(server.thread, &Message::new(2));
        machine.check();
        let runs = if expected_client_runs { client.thread } else { server.thread };
        assert_eq!(machine.kernel.current(), Some(runs));
    }
}

#[test]
fn a_high_waiter_runs_when_a_low_one_signals() {
    let mut machine = Machine::new();
    let notification = machine.make::<Notification>(ObjectType::Notification, 0);
    let (low, high) = (machine.component(10, CPtr::new(0)), machine.component(20, CPtr::new(0)));
    machine.give(low.cnode, SEND.bits(), notification, Rights::WRITE);
    machine.give(high.cnode, RECEIVE.bits(), notification, Rights::READ);
    machine.kernel.receive(high.thread, RECEIVE);
    machine.kernel.tcb_suspend(machine.me, machine.root.tcb).unwrap();
    assert_eq!(machine.kernel.current(), Some(low.thread));
    machine.kernel.signal(low.thread, SEND.cast());
    assert_eq!(machine.kernel.current(), Some(high.thread));
    assert_eq!(machine.kernel.runnable_at(10).collect::<Vec<_>>(), [low.thread]);
    machine.check();
}

#[test]
fn when_all_wait_nobody_runs() {
    let (mut machine, components, _) = three();
    for component in components {
        machine.kernel.receive(component.thread, SEND);
    }
    assert_eq!(machine.kernel.current(), None);
    assert_eq!(machine.kernel.highest_runnable(), None);
    machine.kernel.timer_tick();
    machine.check();
}

#[test]
fn two_woken_at_once_leave_the_processor_where_it_is() {
    let mut machine = Machine::new();
    let endpoint = machine.make::<Endpoint>(ObjectType::Endpoint, 0);
    let [server, caller, sender] = [0; 3].map(|_| machine.component(10, CPtr::new(0)));
    machine.give(server.cnode, RECEIVE.bits(), endpoint, Rights::ALL);
    machine.give(caller.cnode, SEND.bits(), endpoint, Rights::ALL);
    machine.give(sender.cnode, SEND.bits(), endpoint, Rights::ALL);
    machine.kernel.receive(server.thread, RECEIVE);
    machine.kernel.call(caller.thread, SEND, &Message::new(1));
    machine.kernel.send(sender.thread, SEND, &Message::new(2));
    machine.kernel.tcb_suspend(machine.me, machine.root.tcb).unwrap();
    assert_eq!(order(&machine), [server.thread]);
    // The reply alone would switch to the caller; the next message is there as well, and its sender is woken.
    machine.kernel.reply_receive(server.thread, &Message::new(3), RECEIVE);
    assert_eq!(order(&machine), [server.thread, caller.thread, sender.thread]);
}
