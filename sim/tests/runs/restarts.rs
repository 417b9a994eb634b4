//! Components that die at any moment and are started again.

use super::{Run, loads_last, passed, run_with, scenario};
use capdl::Scenario;
use capdl::scenario::{Kill, Workload};
use report::Report;
use sim_fault::{ComponentEffect, ComponentFault, Fault};
use std::collections::BTreeSet;
use workload::LastAttack;

/// A turn of boot's server in the middle of its tenant's load. The server finishes after some 3,100 turns; most of those before
/// are polls whether the controller is ready.
pub(super) const UNDER_LOAD: u64 = 2_600;

/// A turn of boot's server in which it opens its tenant's session.
const OPENING: u64 = 592;

/// A turn of hostile-close's server at which its clients open their sessions.
const UNDER_ATTACK: u64 = 1_900;

/// The fault that kills the component at this turn of its executor.
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
    run.reports.iter().filter(|report| matches!(report, Report::Reconnected(_))).count()
}

/// Boot's system, whose one tenant verifies all its reads, with a server that dies at this turn.
fn dies_at(at_await: u64) -> Scenario {
    let mut scenario = scenario("boot");
    scenario.faults.push(crash("nvme-server", at_await));
    scenario
}

pub(super) fn everybody_passed(run: &Run, scenario: &Scenario) -> bool {
    let done = run.reports.iter().filter(|report| matches!(report, Report::Done { passed: true, .. }));
    done.count() == scenario.tenants.len()
}

/// Returns the names of the components that were started again, in that order.
pub(super) fn started_again(run: &Run) -> Vec<String> {
    let name = |report: &Report| match report {
        Report::Restart(restart) => Some(restart.name.to_string()),
        _ => None,
    };
    run.reports.iter().filter_map(name).collect()
}

/// Kills the PCI server at every turn of its executor in the scenario: at every request of its drivers, and at
/// ticks, of which only the first matter. Returns the number of turns.
fn pci_server_dies_at_every_turn(scenario: &Scenario, until: u64) -> u64 {
    for at_await in 1..until {
        let mut scenario = scenario.clone();
        scenario.faults.push(crash("pci-server", at_await));
        let run = run_with(&scenario, at_await, &[]);
        assert_eq!(run.account.findings, "", "at {at_await}");
        assert!(everybody_passed(&run, &scenario), "at {at_await}: {:?}", run.reports);
        let again = started_again(&run);
        let deaths = again.iter().filter(|name| *name == "pci-server").count();
        if deaths == 0 {
            return at_await - 1;
        }
        assert_eq!(deaths, 1, "at {at_await}");
        let before = again.iter().position(|name| name == "pci-server");
        assert!(again.len() > scenario.controllers.len(), "with its drivers at {at_await}: {again:?}");
        assert!(again.iter().rposition(|name| name.starts_with("nvme-server")) > before, "at {at_await}: {again:?}");
    }
    until
}

#[test]
fn server_death_at_any_await_costs_only_time() {
    // Every turn, except most of those that poll whether the controller is ready: they are all alike.
    let (mut last, mut reconnections) = (0, 0);
    for at_await in (1..120).chain((120..1_850).step_by(97)).chain(1_850..) {
        let mut scenario = dies_at(at_await);
        let Workload::Bench(bench) = &mut scenario.tenants[0].workload else { panic!("a load") };
        bench.operations = 100;
        let run = run_with(&scenario, at_await, &[]);
        assert!(passed(&run), "at {at_await}: {}", run.account.findings);
        assert_eq!(run.account.findings, "", "at {at_await}");
        if restarts(&run).is_empty() {
            break;
        }
        last = at_await;
        reconnections += reconnected(&run);
    }
    println!("it had {last} turns");
    assert!(last > 2_000 && reconnections > 50, "{last}, {reconnections}");
}

#[test]
fn server_death_while_it_closes_an_earlier_opening_costs_only_time() {
    // The first incarnation dies while it opens the session. The call is repeated, and the second one answers it. The client saw the
    // first one alive, so it opens the session again, for which the earlier opening is closed.
    let mut reconnections = BTreeSet::new();
    for at_await in 1_170..1_230 {
        let mut scenario = dies_at(OPENING);
        scenario.faults.push(crash("nvme-server", at_await));
        let run = run_with(&scenario, at_await, &[]);
        assert_eq!(run.account.findings, "", "at {at_await}");
        assert!(everybody_passed(&run, &scenario), "at {at_await}: {:?}", run.reports);
        assert_eq!(restarts(&run).len(), 2, "at {at_await}");
        reconnections.insert(reconnected(&run));
    }
    assert_eq!(Vec::from_iter(reconnections), [1, 2], "the deaths come before and after the session is open again");
}

#[test]
fn policy_component_death_at_any_await_costs_only_time() {
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
fn second_death_that_is_due_early_is_in_the_next_incarnation() {
    let mut scenario = scenario("boot");
    scenario.kills = vec![Kill::new("nvme-server", 20), Kill::new("nvme-server", 20)];
    let Workload::Bench(bench) = &mut scenario.tenants[0].workload else { panic!("a load") };
    (bench.operations, bench.milliseconds) = (0, 300);
    let run = run_with(&scenario, 1, &[]);
    assert!(passed(&run), "{}", run.account.findings);
    assert_eq!(run.account.findings, "");
    assert_eq!(started_again(&run), ["nvme-server", "nvme-server"]);
}

#[test]
fn service_is_back_within_fifty_milliseconds() {
    for seed in 0..4 {
        let mut scenario = scenario("server-killed");
        // A quarter of a second is enough for one death.
        scenario.kills.truncate(1);
        loads_last(&mut scenario, 250);
        let run = run_with(&scenario, seed, &[]);
        let ended = run.reports.iter().find_map(|report| match report {
            Report::Restart(restart) => Some(restart.ended_at_ns),
            _ => None,
        });
        let again = run.reports.iter().filter_map(|report| match report {
            Report::Reconnected(one) => Some(one.at_ns),
            _ => None,
        });
        let (ended, again) = (ended.expect("a death"), again.max().expect("sessions again"));
        assert!(again - ended < 50_000_000, "seed {seed}: {} ns", again - ended);
    }
}

#[test]
fn server_that_keeps_dying_is_stopped() {
    let mut scenario = scenario("server-killed");
    scenario.server.restart.times = 1;
    let run = run_with(&scenario, 3, &[]);
    assert_eq!(restarts(&run).len(), 1);
    let failure = |report: &Report| match report {
        Report::Failure { component, reason } => Some(format!("{component} {reason}")),
        _ => None,
    };
    let failures: Vec<_> = run.reports.iter().filter_map(failure).collect();
    assert!(failures.iter().any(|failure| failure == "nvme-server stays dead: it died too often"), "{failures:?}");
    for tenant in &scenario.tenants {
        let reported =
            |failure: &&String| failure.starts_with(&tenant.name) && failure.ends_with("the session is closed");
        assert!(failures.iter().any(|failure| reported(&failure)), "{failures:?}");
    }
    assert!(!passed(&run));
}

#[test]
fn nobody_waits_for_a_server_that_stays_dead() {
    // The turns of its start, for whose end the client waits to open its session, of the opening, the load, and the closing.
    for at_await in (1..60).chain((60..3_100).step_by(31)) {
        let mut scenario = dies_at(at_await);
        scenario.server.restart.times = 0;
        let run = run_with(&scenario, at_await, &[]);
        let reported = |report: &Report| matches!(report, Report::Done { .. });
        assert!(run.reports.iter().any(reported), "at {at_await}");
    }
}

#[test]
fn dead_policy_component_costs_only_those_without_records() {
    for seed in 0..3 {
        let run = run_with(&scenario("policy-stays-dead"), seed, &[]);
        assert_eq!(run.account.findings, "", "seed {seed}");
        let reported = |report: &Report| match report {
            Report::Done { tenant, passed } => Some((tenant.to_string(), *passed)),
            _ => None,
        };
        let mut reported: Vec<_> = run.reports.iter().filter_map(reported).collect();
        reported.sort();
        assert_eq!(reported, [("alice".into(), true), ("bob".into(), false), ("carol".into(), true)], "seed {seed}");
    }
}

#[test]
fn pci_server_death_at_any_await_costs_only_time() {
    let turns = pci_server_dies_at_every_turn(&scenario("boot"), 40);
    assert!(turns > 5, "a claim has more requests than {turns}");
}

#[test]
fn shared_pin_is_bound_again_after_a_pci_server_death() {
    // A request, an interrupt, and a driver that has finished are a turn each. The deaths come early in the loads.
    let mut scenario = scenario("intx-shared");
    loads_last(&mut scenario, 100);
    let turns = pci_server_dies_at_every_turn(&scenario, 24);
    assert!(turns > 20, "{turns}");
}

#[test]
fn pci_server_may_die_while_a_device_changes_hands() {
    let whole = run_with(&dies_at(UNDER_LOAD), 1, &[]);
    assert_eq!(restarts(&whole).len(), 1);
    let mut both = 0;
    for at_await in 1..40 {
        let mut scenario = dies_at(UNDER_LOAD);
        scenario.faults.push(crash("pci-server", at_await));
        let run = run_with(&scenario, at_await, &[]);
        assert_eq!(run.account.findings, "", "at {at_await}");
        assert!(everybody_passed(&run, &scenario), "at {at_await}: {:?}", run.reports);
        let again = started_again(&run);
        let deaths = again.iter().filter(|name| *name == "pci-server").count();
        if deaths == 0 {
            break;
        }
        both += u32::from(again.iter().filter(|name| *name == "nvme-server").count() > 1);
    }
    assert!(both > 5, "{both}");
}

#[test]
fn service_returns_within_50_ms_of_a_pci_server_death() {
    for seed in 0..2 {
        let mut scenario = scenario("pci-server-killed");
        scenario.kills.truncate(1);
        (scenario.kills[0].when.after_ms, scenario.kills[0].within_ms) = (120, 60);
        loads_last(&mut scenario, 250);
        let run = run_with(&scenario, seed, &[]);
        assert_eq!(run.account.findings, "", "seed {seed}");
        assert!(everybody_passed(&run, &scenario), "seed {seed}: {:?}", run.reports);
        let ended = run.reports.iter().find_map(|report| match report {
            Report::Restart(restart) if restart.name == "pci-server" => Some(restart.ended_at_ns),
            _ => None,
        });
        let again = run.reports.iter().filter_map(|report| match report {
            Report::Reconnected(one) => Some(one.at_ns),
            _ => None,
        });
        let again: Vec<u64> = again.collect();
        let (ended, last) = (ended.expect("a death"), again.iter().max().expect("sessions again"));
        assert_eq!(again.len(), scenario.tenants.len());
        assert!(last - ended < 50_000_000, "seed {seed}: {} ns", last - ended);
    }
}

#[test]
fn pci_server_that_keeps_dying_is_stopped_with_its_drivers() {
    let mut scenario = scenario("pci-server-killed");
    scenario.pci_server.restart.times = 1;
    for (kill, after_ms) in scenario.kills.iter_mut().zip([100, 200]) {
        (kill.when.after_ms, kill.within_ms) = (after_ms, 0);
    }
    let run = run_with(&scenario, 3, &[]);
    assert_eq!(started_again(&run), ["pci-server", "nvme-server-first", "nvme-server-second"]);
    let failure = |report: &Report| match report {
        Report::Failure { component, reason } if reason.starts_with("stays dead") => {
            Some(format!("{component} {reason}"))
        }
        _ => None,
    };
    let mut failures: Vec<_> = run.reports.iter().filter_map(failure).collect();
    failures.sort();
    let drivers =
        ["first", "second"].map(|name| format!("nvme-server-{name} stays dead: a server that it needs stays dead"));
    assert_eq!(failures[..2], drivers);
    assert_eq!(failures[2..], ["pci-server stays dead: it died too often"]);
    // Further attempts of their devices had no effect: the only reports are of missing answers.
    assert!(run.account.findings.lines().all(|line| !line.contains("  authority  ")), "{}", run.account.findings);
}

/// The attacker's system, with a neighbour whose load is short, and a server that dies at this turn.
fn attacked(last: LastAttack, at_await: u64) -> Scenario {
    let mut scenario = scenario("hostile-close");
    for tenant in &mut scenario.tenants {
        match &mut tenant.workload {
            Workload::Bench(bench) => bench.milliseconds = 60,
            Workload::Hostile(hostile) => hostile.last = last,
            other => panic!("{other:?}"),
        }
    }
    scenario.faults.push(crash("nvme-server", at_await));
    scenario
}

#[test]
fn attacks_are_refused_after_a_server_death_at_any_await() {
    let attacks = |run: &Run| {
        let attack = |report: &Report| match report {
            Report::Attack(attack) => Some((attack.attack.to_string(), attack.refused)),
            _ => None,
        };
        run.reports.iter().filter_map(attack).collect::<BTreeSet<_>>()
    };
    let close = (LastAttack::Close, 139);
    for (last, step) in [close, (LastAttack::TailBackwards, 701), (LastAttack::HeadBeyondRing, 702)] {
        let calm = attacks(&run_with(&attacked(last, u64::MAX), 1, &[]));
        assert!(calm.len() > 60 && calm.iter().all(|(_, refused)| *refused));
        let mut again = 0;
        for at_await in (UNDER_ATTACK..7_000).step_by(step) {
            let run = run_with(&attacked(last, at_await), at_await, &[]);
            let done = run.reports.iter().filter(|report| matches!(report, Report::Done { passed: true, .. })).count();
            assert_eq!((done, run.account.findings.as_str()), (2, ""), "{last:?} at {at_await}: {:?}", run.reports);
            assert_eq!(attacks(&run), calm, "{last:?} at {at_await}");
            let is_its = |report: &&Report| matches!(report, Report::Reconnected(one) if one.tenant == "mallory");
            again += run.reports.iter().filter(is_its).count();
        }
        assert!(again >= 5, "{last:?}: {again}");
    }
}
