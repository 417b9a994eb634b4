//! The choice of the next thread to run.

use crate::machine::{Component, Machine};
use platform::*;
use sim_kernel::{TIME_SLICE_TICKS, ThreadId};

const SEND: CPtr = CPtr::new(1);

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
