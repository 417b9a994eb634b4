//! The effect of weights for the classes, the controller's and the server's (`docs/guide/priority.md`). Virtual time is exact,
//! so bounds are facts about the run.

use super::{iops, run_with, scenario};
use blk_api::config::{Class, SchedulingPolicy};
use capdl::Scenario;
use capdl::scenario::{Arbitration, Change, Entitlement, What, When, Workload};
use report::Load;

/// Runs the scenario with these tenants alone, and returns their loads in this order.
fn loads<const N: usize>(scenario: &Scenario, tenants: [&str; N]) -> [Load; N] {
    let mut scenario = scenario.clone();
    scenario.tenants.retain(|tenant| tenants.contains(&tenant.name.as_str()));
    let run = run_with(&scenario, 1, &[]);
    assert_eq!(run.account.findings, "");
    tenants.map(|name| run.load(name).unwrap_or_else(|| panic!("{name} measured nothing")).clone())
}

/// Returns the total throughput, and each tenant's part of it.
fn shares<const N: usize>(loads: &[Load; N]) -> (f64, [f64; N]) {
    let each = loads.each_ref().map(iops);
    let all = each.iter().sum::<f64>();
    (all, each.map(|one| one / all))
}

fn assert_weights(parts: &[f64; 3]) {
    for (part, weight) in parts.iter().zip([0.6, 0.3, 0.1]) {
        assert!((part / weight - 1.0).abs() <= 0.05, "{parts:?}");
    }
}

#[test]
fn saturating_classes_get_their_weights_without_loss() {
    const CLASSES: [&str; 3] = ["high", "medium", "low"];
    let mut scenario = scenario("wrr");
    let (weighed, parts) = shares(&loads(&scenario, CLASSES));
    println!("{weighed:.0} IOPS, of which {parts:.3?}");
    assert_weights(&parts);
    scenario.controllers[0].model.arbitration = Arbitration::RoundRobin;
    let (by_server, parts) = shares(&loads(&scenario, CLASSES));
    println!("{by_server:.0} IOPS weighed by the server, of which {parts:.3?}");
    assert_weights(&parts);
    scenario.server.policy = SchedulingPolicy::RoundRobin;
    let (in_turn, equal) = shares(&loads(&scenario, CLASSES));
    println!("{in_turn:.0} IOPS in turn, of which {equal:.3?}");
    for weighed in [weighed, by_server] {
        assert!((weighed / in_turn - 1.0).abs() <= 0.05, "{weighed} IOPS beside {in_turn}");
    }
    // Otherwise the scenario would show nothing.
    assert!(equal.iter().all(|part| (part * 3.0 - 1.0).abs() <= 0.05), "{equal:?}");
}

#[test]
fn urgent_tenant_waits_for_no_flooding_class() {
    let scenario = scenario("wrr");
    let [alone] = loads(&scenario, ["urgent"]);
    let [urgent, high, medium, low] = loads(&scenario, ["urgent", "high", "medium", "low"]);
    println!("alone {} and {} ns, beside others {} and {}", alone.p50_ns, alone.p999_ns, urgent.p50_ns, urgent.p999_ns);
    assert!(urgent.p999_ns as f64 <= 1.1 * alone.p999_ns as f64, "{urgent:?} and alone {alone:?}");
    let (_, parts) = shares(&[high, medium, low]);
    println!("the others have {parts:.3?}");
    assert_weights(&parts);
}

#[test]
fn where_the_server_weighs_an_urgent_tenant_waits_hardly_more() {
    let mut scenario = scenario("wrr");
    scenario.controllers[0].model.arbitration = Arbitration::RoundRobin;
    let [alone] = loads(&scenario, ["urgent"]);
    let [urgent, high, medium, low] = loads(&scenario, ["urgent", "high", "medium", "low"]);
    println!("alone {} ns, beside others {} ns", alone.p999_ns, urgent.p999_ns);
    assert!(urgent.p999_ns as f64 <= 1.2 * alone.p999_ns as f64, "{urgent:?} and alone {alone:?}");
    assert_weights(&shares(&[high, medium, low]).1);
}

#[test]
fn urgent_flood_starves_nobody_under_controller_arbitration() {
    let mut scenario = scenario("wrr");
    for tenant in &mut scenario.tenants {
        let Workload::Bench(bench) = &mut tenant.workload else { panic!("a load") };
        bench.depth = if tenant.name == "urgent" { 64 } else { 1 };
        (tenant.depth, tenant.priority) = (64, Some(100));
    }
    let [urgent, low] = loads(&scenario, ["urgent", "low"]);
    println!("urgent {:.0} IOPS, low {:.0}, at most {} ns", iops(&urgent), iops(&low), low.max_ns);
    assert!(iops(&urgent) > 10.0 * iops(&low), "{urgent:?} and {low:?}");
    // Twice the limit of the scheduler on the wait of a class.
    assert!(low.reads > 0 && low.max_ns < 20_000_000, "{low:?}");
}

#[test]
fn a_class_that_is_changed_while_it_runs_is_weighed_by_at_once() {
    let mut scenario = scenario("wrr");
    let lower = Entitlement { class: Some(Class::Low), ..Entitlement::default() };
    scenario.changes = vec![Change { when: When::after_ms(150), tenant: "high".into(), what: What::Entitle(lower) }];
    let (all, parts) = shares(&loads(&scenario, ["high", "medium", "low"]));
    println!("{all:.0} IOPS, of which {parts:.3?}");
    // The first tenant has six parts of ten for a third of the time. Then it has half of one part of four, as one of two of class low.
    let [high, medium, low] = parts;
    assert!(high > 0.22 && high < 0.38, "{parts:?}");
    assert!(medium > 0.5 && (0.1..=0.13).contains(&low), "{parts:?}");
}
