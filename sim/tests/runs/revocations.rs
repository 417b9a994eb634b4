//! Rights that are taken while their tenant uses them, and given back.

use super::{Run, restarts, run_for, run_with, scenario};
use capdl::Scenario;
use capdl::scenario::{Kill, Workload};
use report::{Change, Changed, Report};

fn changes(run: &Run) -> Vec<Change> {
    let change = |report: &Report| match report {
        Report::Change(change) => Some(change.clone()),
        _ => None,
    };
    run.reports.iter().filter_map(change).collect()
}

#[test]
fn revoked_rights_are_refused_until_they_are_granted_again() {
    let scenario = scenario("revoked");
    for seed in 0..2 {
        let run = run_with(&scenario, seed, &[]);
        assert!(restarts::everybody_passed(&run, &scenario), "seed {seed}: {:?}", run.reports);
        assert_eq!(run.account.findings, "", "seed {seed}");
        let whats: Vec<_> = changes(&run).iter().map(|change| (change.tenant.to_string(), change.what)).collect();
        let expected = [
            ("alice".to_owned(), Changed::Revoked { blocks: 2048 }),
            ("carol".to_owned(), Changed::Revoked { blocks: 2048 }),
            ("alice".to_owned(), Changed::Granted { blocks: 2048 }),
        ];
        assert_eq!(whats, expected);
        let forbidden = |name: &str| {
            let of = |report: &Report| match report {
                Report::Session(session) if session.tenant == name => Some(session.forbidden),
                _ => None,
            };
            run.reports.iter().find_map(of).expect("its session was closed")
        };
        assert!(forbidden("alice") > 0 && forbidden("carol") > 0);
        assert_eq!(forbidden("bob"), 0);
    }
}

#[test]
fn a_change_that_is_not_in_the_checkers_eyes_is_found() {
    // The components are configured with a change that the checkers' scenario does not have, and vice versa.
    let revoked = scenario("revoked");
    let mut calm = revoked.clone();
    calm.changes.clear();
    let findings = super::run_configured(&revoked, &calm, 1).account.findings;
    assert!(findings.contains("forbidden, although it has the right"), "{findings}");
    let findings = super::run_configured(&calm, &revoked, 1).account.findings;
    assert!(findings.contains("done, although its rights were taken before"), "{findings}");
}

/// The scenario in a quarter of the time, with fewer requests in flight. The first change is carried out after 75 ms.
fn hurried() -> Scenario {
    let mut scenario = scenario("revoked");
    for change in &mut scenario.changes {
        change.when.after_ms /= 4;
    }
    for tenant in &mut scenario.tenants {
        let Workload::Bench(bench) = &mut tenant.workload else { panic!("a load") };
        bench.milliseconds = 280;
        bench.depth = 2;
    }
    scenario
}

#[test]
fn policy_component_may_die_between_revoke_and_grant() {
    let mut scenario = scenario("revoked");
    scenario.kills.push(Kill::new("policy", 450));
    let run = run_with(&scenario, 1, &[]);
    assert!(restarts::everybody_passed(&run, &scenario), "{:?}", run.reports);
    assert_eq!(run.account.findings, "");
    // Rights that were taken before its death are taken once more, by its successor.
    let taken = changes(&run).iter().filter(|change| matches!(change.what, Changed::Revoked { .. })).count();
    assert_eq!(taken, 4);
}

#[test]
fn a_policy_component_that_is_started_again_gives_nothing_back() {
    for (policy_dies_ms, server_dies_ms) in [(90, None), (130, None), (130, Some(130)), (90, Some(90)), (190, None)] {
        let mut scenario = hurried();
        scenario.kills.push(Kill::new("policy", policy_dies_ms));
        scenario.kills.extend(server_dies_ms.map(|after_ms| Kill::new("nvme-server", after_ms)));
        let run = run_with(&scenario, 1, &[]);
        let at = format!("{policy_dies_ms} {server_dies_ms:?}");
        assert_eq!(run.account.findings, "", "{at}");
        assert!(restarts::everybody_passed(&run, &scenario), "{at}: {:?}", run.reports);
    }
}

/// Returns how often each tenant's revocation came into force.
fn revoked(run: &Run, tenant: &str) -> usize {
    let of = |change: &&Change| change.tenant == tenant && matches!(change.what, Changed::Revoked { .. });
    changes(run).iter().filter(of).count()
}

#[test]
fn waiting_revocation_survives_policy_component_and_server() {
    for (killed, carols) in [(None, 1), (Some("policy"), 2), (Some("nvme-server"), 1), (Some("pci-server"), 1)] {
        let mut scenario = scenario("revoked-beside-a-stuck-queue");
        for change in &mut scenario.changes {
            change.when.after_ms = 150;
        }
        for tenant in &mut scenario.tenants {
            let Workload::Bench(bench) = &mut tenant.workload else { panic!("a load") };
            bench.milliseconds = bench.milliseconds.min(300);
        }
        scenario.kills.extend(killed.map(|component| Kill::new(component, 400)));
        let run = run_for(&scenario, 1, 20_000);
        assert_eq!(run.account.findings, "", "{killed:?}");
        assert!(restarts::everybody_passed(&run, &scenario), "{killed:?}: {:?}", run.reports);
        assert_eq!((revoked(&run, "alice"), revoked(&run, "carol")), (1, carols), "{killed:?}");
    }
}

#[test]
fn change_survives_a_policy_death_at_any_await() {
    for at_await in (1..16).chain((16..60).step_by(11)) {
        let mut scenario = hurried();
        scenario.faults.push(restarts::crash("policy", at_await));
        let run = run_with(&scenario, at_await, &[]);
        assert_eq!(run.account.findings, "", "at {at_await}");
        assert!(restarts::everybody_passed(&run, &scenario), "at {at_await}: {:?}", run.reports);
        assert!(changes(&run).len() >= 3, "at {at_await}");
    }
}
