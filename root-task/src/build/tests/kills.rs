//! Components that kill orders stop.

use super::restarts::{DRIVER, dies, driven, ended, reported, restartable, restarts, silent, started};
use super::*;
use crate::testing::Q35_HZ;
use capdl_spec::{Kill, RestartPolicy};
use report::FaultKind;

/// An order to stop the component once, `after_us` microseconds after the start.
fn kill(component: u16, after_us: u64) -> Kill {
    Kill { component, after_us, times: 1, every_us: 0, spread_us: 0 }
}

#[test]
fn component_down_at_its_kill_time_is_stopped_after_restart() {
    let mut specification = restartable();
    specification.components[0].driver = Some(3);
    specification.kills = vec![kill(1, 0)];
    let waiting = boot_system(&specification, &[23]).supervise([dies(1), TICK]);
    // The next tick, and no alarm, which would go off again and again until it runs.
    assert_eq!(waiting.hpet.armed(), 2 * Q35_HZ / 20);
    let platform = boot_system(&specification, &[23]).supervise([dies(1), TICK, silent(), TICK, silent()]);
    assert_eq!(restarts(&platform), [1, 2]);
}

#[test]
fn kill_stops_its_component_at_its_time() {
    let mut specification = restartable();
    specification.kills = vec![kill(1, 0), kill(2, 1_000_000_000)];
    let platform = boot_system(&specification, &[23]).supervise([TICK, TICK]);
    let killed = reported(&platform, |report| match report {
        Report::Fault(fault) => Some((fault.component, fault.kind)),
        _ => None,
    });
    assert_eq!((killed, restarts(&platform)), (vec![(1, FaultKind::Killed)], vec![1]));
}

#[test]
fn signal_is_handled_before_a_kill_due_at_that_moment() {
    // The driver's device is silent, and in the same moment, at the first tick, the PCI server that reported it is stopped.
    let mut specification = driven();
    specification.kills = vec![kill(2, 50_000)];
    let both = Happens::Tick { also: Badge::silenced(3) };
    let platform = boot_system(&specification, &[23]).supervise([dies(DRIVER), both, silent()]);
    assert_eq!(ended(&platform), [(1, false), (2, false), (1, true)]);
    let names: Vec<_> = started(&platform).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["component-1", "component-2", "component-1"]);
}

#[test]
fn an_order_for_several_times_stops_each_incarnation() {
    let mut specification = restartable();
    specification.components[0].restart = Some(RestartPolicy { times: 9, within_ms: 1000 });
    specification.kills = vec![Kill { times: 3, ..kill(1, 0) }];
    let platform = boot_system(&specification, &[23]).supervise([TICK, TICK, TICK, TICK, TICK]);
    assert_eq!(restarts(&platform), [1, 2, 3]);
    specification.kills[0].every_us = 1_000_000;
    let platform = boot_system(&specification, &[23]).supervise([TICK, TICK, TICK]);
    assert_eq!(restarts(&platform), [1], "the next incarnation has its time");
}

#[test]
fn an_order_for_a_component_that_stays_dead_is_dropped() {
    let mut specification = restartable();
    specification.components[0].restart = None;
    specification.kills = vec![Kill { times: 3, every_us: 1, ..kill(1, 0) }];
    let platform = boot_system(&specification, &[23]).supervise([TICK, TICK, TICK]);
    assert_eq!((ended(&platform).len(), restarts(&platform).len()), (1, 0));
}

#[test]
fn two_orders_of_one_moment_stop_two_incarnations() {
    let mut specification = restartable();
    specification.components[0].driver = Some(3);
    specification.kills = vec![kill(1, 50_000); 2];
    let happens = [TICK, silent(), TICK, silent(), TICK];
    assert_eq!(restarts(&boot_system(&specification, &[23]).supervise(happens)), [1, 2]);
}
