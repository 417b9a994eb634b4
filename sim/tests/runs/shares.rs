//! Shares that change while their tenants run.

use super::{Run, run_with, scenario};
use capdl::Scenario;
use capdl::scenario::Kill;
use report::Report;

/// The scenario on a controller that is slower than the processor.
fn slow_controller() -> Scenario {
    let mut scenario = scenario("shares-change");
    scenario.controllers[0].model.fetch_ns = 2500;
    scenario
}

fn reads<const N: usize>(run: &Run, tenants: [&str; N]) -> [u64; N] {
    tenants.map(|name| {
        let of_it = |report: &Report| match report {
            Report::Load(load) if load.tenant == name => Some(load.reads),
            _ => None,
        };
        run.reports.iter().find_map(of_it).unwrap_or_else(|| panic!("{name} measured nothing"))
    })
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
    // Alike for a third of the time, and then three to one.
    assert!(carol > bob * 9 / 5 && carol < bob * 3, "{carol} beside {bob}");
}

#[test]
fn a_server_that_was_started_again_is_told_the_shares_that_changed() {
    let mut scenario = slow_controller();
    scenario.kills = vec![Kill::new("nvme-server", 400)];
    scenario.expect.restarts.insert("nvme-server".into(), 1);
    let [alice, _, carol] = reads(&run_with(&scenario, 1, &[]), ["alice", "bob", "carol"]);
    println!("{alice} beside {carol}");
    assert!(alice < carol / 3, "{alice} beside {carol}");
}
