//! Components that kill orders stop.

use super::restarts::{DRIVER, dies, driven, ended, reported, restartable, restarts, silent, started};
use super::*;
use crate::testing::Q35_HZ;
use capdl_spec::{Counted, Kill, Moment, Need, RestartPolicy};
use report::FaultKind;

/// Orders to stop each component once, so many microseconds after the start.
fn kills<const N: usize>(specification: &mut Specification, all: [(u16, u64); N]) {
    let at = |(component, after_us)| order(component, Moment { needs: vec![], after_us });
    (specification.kills, specification.moments) =
        (0..).zip(all.map(at)).map(|(moment, (kill, at))| (Kill { moment, ..kill }, at)).unzip();
}

/// An order to stop the component once, at the moment.
fn order(component: u16, moment: Moment) -> (Kill, Moment) {
    (Kill { component, moment: 0, times: 1, every_us: 0, spread_us: 0 }, moment)
}

/// The moment after which the component has been counted so often.
fn counted(component: u16, counted: Counted, at_least: u32) -> Moment {
    Moment { needs: vec![Need { component, counted, at_least }], after_us: 0 }
}

#[test]
fn component_down_at_its_kill_time_is_stopped_after_restart() {
    let mut specification = restartable();
    specification.components[0].driver = Some(3);
    kills(&mut specification, [(1, 50_000)]);
    let waiting = boot_system(&specification, &[23]).supervise([dies(1), TICK]);
    // The next tick, and no alarm, which would go off again and again until it runs.
    assert_eq!(waiting.hpet.armed(), 2 * Q35_HZ / 20);
    let platform = boot_system(&specification, &[23]).supervise([dies(1), TICK, silent(), TICK, silent()]);
    assert_eq!(restarts(&platform), [1, 2]);
}

#[test]
fn kill_stops_its_component_at_its_time() {
    let mut specification = restartable();
    kills(&mut specification, [(1, 0), (2, 1_000_000_000)]);
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
    kills(&mut specification, [(2, 50_000)]);
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
    kills(&mut specification, [(1, 0)]);
    specification.kills[0].times = 3;
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
    kills(&mut specification, [(1, 0)]);
    (specification.kills[0].times, specification.kills[0].every_us) = (3, 1);
    let platform = boot_system(&specification, &[23]).supervise([TICK, TICK, TICK]);
    assert_eq!((ended(&platform).len(), restarts(&platform).len()), (1, 0));
}

#[test]
fn two_orders_of_one_moment_stop_two_incarnations() {
    let mut specification = restartable();
    specification.components[0].driver = Some(3);
    kills(&mut specification, [(1, 50_000); 2]);
    let happens = [TICK, silent(), TICK, silent(), TICK];
    assert_eq!(restarts(&boot_system(&specification, &[23]).supervise(happens)), [1, 2]);
}

#[test]
fn kill_at_once_comes_before_the_first_event() {
    let mut specification = restartable();
    kills(&mut specification, [(1, 0)]);
    let platform = boot_system(&specification, &[23]).supervise([]);
    assert_eq!(ended(&platform), [(1, false)]);
}

#[test]
fn kill_before_the_first_tick_has_the_alarm() {
    let mut specification = restartable();
    kills(&mut specification, [(1, 5000)]);
    let waiting = boot_system(&specification, &[23]).supervise([]);
    assert_eq!(waiting.hpet.armed(), Q35_HZ / 200);
}

#[test]
fn kill_waits_for_a_death_or_a_restart() {
    for (what, at_least, killed) in [
        (Counted::Deaths, 1, true),
        (Counted::Deaths, 2, false),
        (Counted::Restarts, 1, true),
        (Counted::Restarts, 2, false),
        (Counted::Milestone(9), 1, false),
    ] {
        let mut specification = restartable();
        let (kill, moment) = order(2, counted(1, what, at_least));
        (specification.kills, specification.moments) = (vec![kill], vec![moment]);
        let platform = boot_system(&specification, &[23]).supervise([dies(1), TICK]);
        assert_eq!(ended(&platform).contains(&(2, false)), killed, "{what:?} {at_least} times");
    }
}

/// A system whose first component has a log ring, at [`LOG_VADDR`].
fn with_a_log() -> Specification {
    let mut specification = restartable();
    let ring = specification.objects.len() as u32;
    specification.objects.push(object("component-1.log", ObjectKind::SmallFrame, 1));
    specification.mappings.push(Mapping { writable: true, ..mapping(VSPACE, ring, LOG_VADDR) });
    specification
}

const LOG_VADDR: u64 = 0x6000;

#[test]
fn moment_after_milestones_is_announced_once_they_are_reached() {
    let mut specification = with_a_log();
    let milestone = Counted::Milestone(report::milestones::Milestone::Written.number());
    specification.moments = vec![Moment::default(), counted(1, milestone, 3)];
    let announced = |count: u32| {
        // The offsets of `report::milestones`: the third count, and the first word of moments.
        let writes = Happens::Writes { component: 1, vaddr: LOG_VADDR + 136, word: count };
        let platform = boot_system(&specification, &[23]).supervise([writes, TICK]);
        u32::from_le_bytes(*platform.page(1, LOG_VADDR)[2048..].first_chunk().unwrap())
    };
    assert_eq!((announced(2), announced(3)), (0b01, 0b11));
}

#[test]
fn milestones_beside_a_restart_are_those_of_the_next_incarnation() {
    let mut specification = with_a_log();
    let finished = Counted::Milestone(report::milestones::Milestone::Finished.number());
    let mut moment = counted(1, finished, 1);
    moment.needs.push(Need { component: 1, counted: Counted::Restarts, at_least: 1 });
    specification.moments = vec![moment];
    // The last count.
    let writes = || Happens::Writes { component: 1, vaddr: LOG_VADDR + 156, word: 1 };
    let announced = |happens: Vec<Happens>| {
        let platform = boot_system(&specification, &[23]).supervise(happens);
        platform.page(1, LOG_VADDR)[2048]
    };
    assert_eq!(announced(vec![writes(), TICK, dies(1), TICK]), 0);
    assert_eq!(announced(vec![writes(), TICK, dies(1), writes(), TICK]), 1);
}

#[test]
fn those_who_wait_are_ticked_when_their_moment_comes() {
    let mut specification = with_a_log();
    specification.components[0].role = capdl_spec::Role::NvmeServer;
    specification.components[1].role = capdl_spec::Role::Policy;
    specification.components[0].tick = Some(CONSOLE_EVENT);
    specification.moments = vec![Moment::default()];
    let platform = boot_system(&specification, &[23]).supervise([Happens::Signal(Badge::SIGNAL)]);
    assert_eq!(*platform.signalled.borrow(), [(2, Badge::SIGNAL | Badge::TICK)]);
}
