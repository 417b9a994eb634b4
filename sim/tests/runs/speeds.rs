//! Equal parts by the speeds of queues (`docs/guide/priority.md`): virtual time is exact, so bounds are facts about the run.

use super::{iops, run_for, scenario};
use blk_api::config::SchedulingPolicy;
use capdl::Scenario;
use capdl::scenario::{Arbitration, Workload};

/// Milliseconds of virtual time of a run: its tenants ask for 4,000.
const LONGEST_MS: u64 = 5_000;

/// Returns the parts of the scenario's tenants in all bytes, each divided by its weight.
fn parts(scenario: &Scenario) -> Vec<f64> {
    let run = run_for(scenario, 1, LONGEST_MS);
    assert_eq!((run.account.findings.as_str(), run.account.panics.as_slice()), ("", &[][..]));
    let bytes = |tenant: &capdl::scenario::Tenant| {
        let Workload::Bench(bench) = &tenant.workload else { panic!("a load") };
        let load = run.load(&tenant.name).unwrap_or_else(|| panic!("{} measured nothing", tenant.name));
        iops(load) * f64::from(bench.block_bytes) / f64::from(tenant.weight)
    };
    let each: Vec<f64> = scenario.tenants.iter().map(bytes).collect();
    let all: f64 = each.iter().sum();
    each.iter().map(|one| one / all).collect()
}

/// Asserts that each part is equal within the tolerance.
fn assert_equal(parts: &[f64], tolerance: f64) {
    println!("{parts:.3?}");
    assert!(parts.iter().all(|part| (part * parts.len() as f64 - 1.0).abs() <= tolerance), "{parts:?}");
}

#[test]
fn commands_of_any_size_get_equal_parts() {
    assert_equal(&parts(&scenario("device-direct")), 0.05);
}

#[test]
fn equals_of_one_size_get_equal_parts_whatever_their_depth() {
    let mut scenario = scenario("device-direct");
    for tenant in &mut scenario.tenants {
        let Workload::Bench(bench) = &mut tenant.workload else { panic!("a load") };
        bench.block_bytes = 4096;
    }
    assert_equal(&parts(&scenario), 0.05);
}

#[test]
fn weights_count_and_classes_do_not() {
    let mut scenario = scenario("device-direct");
    for (tenant, weight) in scenario.tenants.iter_mut().zip([1, 2, 3]) {
        tenant.weight = weight;
    }
    scenario.tenants[0].class = blk_api::config::Class::Low;
    assert_equal(&parts(&scenario), 0.05);
}

#[test]
fn a_controller_that_does_not_weigh_has_the_server_do_it() {
    let mut scenario = scenario("device-direct");
    scenario.controllers[0].model.arbitration = Arbitration::RoundRobin;
    // By costs that the server learns; it takes half of this controller's costs for the commands'.
    assert_equal(&parts(&scenario), 0.3);
    scenario.server.policy = SchedulingPolicy::RoundRobin;
    // Otherwise the scenario would show nothing.
    assert!(parts(&scenario)[2] > 0.8);
}
