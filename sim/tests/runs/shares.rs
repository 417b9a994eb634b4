//! Shares that change while their tenants run.

use super::{Run, loads_last, run_with, scenario};
use capdl::Scenario;
use capdl::scenario::Kill;
use report::Report;
use std::collections::BTreeMap;

/// The scenario in half the time, on a controller that is only just slower than the processor.
fn slow_controller() -> Scenario {
    let mut scenario = scenario("shares-change");
    scenario.controllers[0].iops_limit = 0;
    scenario.controllers[0].model.fetch_ns = 2500;
    for change in &mut scenario.changes {
        change.when.after_ms = 300;
    }
    loads_last(&mut scenario, 900);
    scenario
}

fn reads<const N: usize>(run: &Run, tenants: [&str; N]) -> [u64; N] {
    tenants.map(|name| run.load(name).unwrap_or_else(|| panic!("{name} measured nothing")).reads)
}

#[test]
fn a_limit_and_a_class_that_are_changed_count_from_then_on() {
    let mut scenario = slow_controller();
    let run = run_with(&scenario, 1, &[]);
    assert_eq!(run.account.findings, "");
    let [alice, bob, carol] = reads(&run, ["alice", "bob", "carol"]);
    scenario.changes.clear();
    let [alice_before, bob_before, carol_before] = reads(&run_with(&scenario, 1, &[]), ["alice", "bob", "carol"]);
    println!("{alice} {bob} {carol}, without changes {alice_before} {bob_before} {carol_before}");
    assert!(bob_before.abs_diff(carol_before) < bob_before / 50);
    // A third of the time, and a thousand a second.
    assert!(alice > alice_before / 4 && alice < alice_before / 2, "{alice} of {alice_before}");
    // Equal for a third of the time, and then three to one.
    assert!(carol > bob * 9 / 5 && carol < bob * 3, "{carol} beside {bob}");
}

#[test]
fn restarted_server_receives_the_changed_shares() {
    let mut scenario = slow_controller();
    scenario.kills = vec![Kill::new("nvme-server", 400)];
    scenario.expect.restarts.insert("nvme-server".into(), 1);
    let [alice, _, carol] = reads(&run_with(&scenario, 1, &[]), ["alice", "bob", "carol"]);
    println!("{alice} beside {carol}");
    assert!(alice < carol / 3, "{alice} beside {carol}");
}

/// Milliseconds of a load that goes on after all changes.
const WHOLE_MS: u64 = 750;

/// The scenario with loads of this length; the last change comes after 600 ms.
fn queues_change(milliseconds: u64) -> Scenario {
    let mut scenario = scenario("queues-change");
    loads_last(&mut scenario, milliseconds);
    scenario
}

/// Returns by session the queue pairs that it had in the end, and their depth.
fn queues(run: &Run) -> BTreeMap<String, (u16, u16)> {
    let ended = |report: &Report| match report {
        Report::Session(session) => Some((session.tenant.to_string(), (session.queue_pairs, session.depth))),
        _ => None,
    };
    run.reports.iter().filter_map(ended).collect()
}

fn expected(scenario: &Scenario) -> BTreeMap<String, (u16, u16)> {
    let expected = &scenario.expect.queues;
    expected.iter().map(|(name, queues)| (name.clone(), (queues.queue_pairs, queues.depth))).collect()
}

fn all_passed(run: &Run) -> bool {
    let done = |report: &&Report| matches!(report, Report::Done { passed: true, .. });
    run.reports.iter().filter(done).count() == 3
}

#[test]
fn queue_pairs_that_change_under_load_lose_and_mix_up_nothing() {
    let scenario = queues_change(WHOLE_MS);
    for seed in 1..=8 {
        let run = run_with(&scenario, seed, &[]);
        assert_eq!(run.account.findings, "");
        assert!(all_passed(&run), "{:?}", run.reports);
        assert_eq!(queues(&run), expected(&scenario));
    }
    // Otherwise the scenario would show nothing.
    let mut scenario = queues_change(10);
    scenario.changes.clear();
    let without = run_with(&scenario, 1, &[]);
    let begun = [("alice", (1, 4)), ("bob", (3, 16)), ("carol", (1, 8))];
    assert_eq!(queues(&without), begun.map(|(name, queues)| (name.to_owned(), queues)).into());
}

/// Checks that a component which dies at these times of the scenario keeps none of its changes from being in force at the end.
fn changes_survive(component: &str, deaths_ms: [u32; 3]) {
    let mut scenario = queues_change(WHOLE_MS);
    scenario.expect.restarts.insert(component.into(), 1);
    for (seed, after_ms) in (1..=3).flat_map(|seed| deaths_ms.map(|after_ms| (seed, after_ms))) {
        scenario.kills = vec![Kill::new(component, after_ms)];
        let run = run_with(&scenario, seed, &[]);
        assert_eq!(run.account.findings, "", "killed after {after_ms} ms");
        assert!(all_passed(&run), "killed after {after_ms} ms: {:?}", run.reports);
        assert_eq!(queues(&run), expected(&scenario), "killed after {after_ms} ms");
    }
}

#[test]
fn queue_pairs_are_reconfigured_after_a_server_death() {
    changes_survive("nvme-server", [251, 302, 352]);
}

#[test]
fn interrupts_change_although_the_policy_component_dies() {
    changes_survive("policy", [251, 301, 450]);
}
