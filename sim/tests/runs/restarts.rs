//! Components that die at any moment and are started again.

use super::{Run, passed, run_with, scenario};
use capdl::Scenario;
use report::Report;
use sim_fault::{ComponentEffect, ComponentFault, Fault};

/// A turn of boot's server in the middle of its tenant's load. It is through after some 3,100: most of those before are
/// looks whether the controller is ready.
pub(super) const UNDER_LOAD: u64 = 2_600;

/// The component dies at this turn of its executor.
pub(super) fn crash(component: &str, at_await: u64) -> Fault {
    let effect = ComponentEffect::Crash { at_await };
    Fault::Component(ComponentFault { component: component.to_owned(), effect })
}

fn restarts(run: &Run) -> Vec<u64> {
    let took = |report: &Report| match report {
        Report::Restart(restart) => Some(restart.took_ns),
        _ => None,
    };
    run.reports.iter().filter_map(took).collect()
}

fn reconnected(run: &Run) -> usize {
    run.reports.iter().filter(|report| matches!(report, Report::Reconnected { .. })).count()
}

/// Boot's system, whose one tenant verifies all it reads, with a server that dies at this turn.
fn dies_at(at_await: u64) -> Scenario {
    let mut scenario = scenario("boot");
    scenario.faults.push(crash("nvme-server", at_await));
    scenario
}

#[test]
fn a_server_that_dies_at_any_await_costs_its_clients_nothing_but_time() {
    // Every turn of the start, some of those in which it looks whether the controller is ready, many of the load.
    let mut reconnections = 0;
    for at_await in (1..120).chain((120..2_000).step_by(97)).chain((2_000..2_700).step_by(13)) {
        let run = run_with(&dies_at(at_await), at_await, &[]);
        assert!(passed(&run), "at {at_await}: {}", run.account.findings);
        assert_eq!(run.account.findings, "", "at {at_await}");
        let took = restarts(&run);
        assert_eq!(took.len(), 1, "at {at_await}");
        reconnections += reconnected(&run);
    }
    assert!(reconnections > 50, "{reconnections}");
}

#[test]
fn a_policy_component_that_dies_at_any_await_costs_its_clients_nothing_but_time() {
    // Each call of a client is a turn: those of the openings, and some of the misses under load.
    for at_await in (1..12).chain((12..900).step_by(37)) {
        let mut scenario = scenario("extents");
        scenario.faults.push(crash("policy", at_await));
        let run = run_with(&scenario, at_await, &[]);
        assert!(passed(&run), "at {at_await}: {}", run.account.findings);
        assert_eq!(run.account.findings, "", "at {at_await}");
        assert_eq!(restarts(&run).len(), 1, "at {at_await}");
    }
}

#[test]
fn service_is_back_within_fifty_milliseconds() {
    for seed in 0..4 {
        let mut scenario = scenario("server-killed");
        // A quarter of a second is enough for one death.
        scenario.kills.truncate(1);
        let run = run_with(&scenario, seed, &[]);
        let ended = run.reports.iter().find_map(|report| match report {
            Report::Restart(restart) => Some(restart.ended_at_ns),
            _ => None,
        });
        let again = run.reports.iter().filter_map(|report| match report {
            Report::Reconnected { at_ns, .. } => Some(*at_ns),
            _ => None,
        });
        let (ended, again) = (ended.expect("a death"), again.max().expect("sessions again"));
        assert!(again - ended < 50_000_000, "seed {seed}: {} ns", again - ended);
    }
}

#[test]
fn a_server_that_keeps_dying_is_stopped_and_its_clients_are_told() {
    let mut scenario = scenario("server-killed");
    scenario.server.restart.times = 1;
    let run = run_with(&scenario, 3, &[]);
    assert_eq!(restarts(&run).len(), 1);
    let failure = |report: &Report| match report {
        Report::Failure { component, reason } if component == "root-task" => Some(reason.to_string()),
        _ => None,
    };
    let failures: Vec<_> = run.reports.iter().filter_map(failure).collect();
    assert_eq!(failures, ["nvme-server stays dead: it died too often"]);
    assert!(!passed(&run));
}
