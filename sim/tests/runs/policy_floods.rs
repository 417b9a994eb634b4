//! The cost of floods of the policy component for a neighbour. Virtual time is exact, so bounds are facts about the run.

use super::{iops, run_for, scenario};
use blk_api::config::Class;
use capdl::Scenario;
use capdl::scenario::Workload;
use workload::Flood;

/// The colluders' floods.
fn floods(scenario: &mut Scenario) -> impl Iterator<Item = &mut Flood> {
    scenario.tenants.iter_mut().filter_map(|tenant| match &mut tenant.workload {
        Workload::Flood(flood) => Some(flood),
        _ => None,
    })
}

/// Returns the neighbour's requests a second.
fn rate(scenario: &Scenario) -> f64 {
    let run = run_for(scenario, 1, 600);
    assert_eq!(run.account.findings, "");
    iops(run.load("alice").expect("alice measured nothing"))
}

/// Returns the part of the neighbour's throughput that the colluders leave.
fn left(flooded: &Scenario) -> f64 {
    let mut silent = flooded.clone();
    floods(&mut silent).for_each(|flood| flood.kinds.clear());
    let (flooded, silent) = (rate(flooded), rate(&silent));
    println!("{flooded:.0} IOPS beside floods, {silent:.0} beside the silent");
    flooded / silent
}

#[test]
fn call_floods_leave_a_higher_class_nine_tenths() {
    let left = left(&scenario("policy-flood"));
    assert!(left >= 0.9, "{left}");
}

#[test]
fn callers_at_each_tick_leave_their_class_nine_tenths() {
    let mut scenario = scenario("policy-flood");
    for tenant in &mut scenario.tenants {
        tenant.class = Class::Medium;
    }
    floods(&mut scenario).for_each(|flood| flood.waits = true);
    let left = left(&scenario);
    assert!(left >= 0.9, "{left}");
}
