//! One honest tenant among thirty that misbehave (`scenarios/hostile-league.toml`), and one beside a tenant whose rights were
//! taken (`scenarios/refused-beside-a-neighbour.toml`): what they have of what they have alone.

use super::{run_with, scenario};
use capdl::ThreadOrder;
use report::{Load, Report};

/// What the tenant measured, alone or with everybody.
fn load(name: &str, tenant: &str, order: ThreadOrder, alone: bool) -> Load {
    let mut scenario = scenario(name);
    scenario.machine.thread_order = order;
    if alone {
        scenario.tenants.retain(|one| one.name == tenant);
        scenario.changes.clear();
        scenario.kills.clear();
    }
    let run = run_with(&scenario, 1, &[]);
    assert_eq!((run.account.findings.as_str(), run.account.panics.as_slice()), ("", &[][..]));
    for report in &run.reports {
        match report {
            Report::Attack(flood) => println!("  {}: {}", flood.tenant, flood.attack),
            Report::Done { passed, tenant } => assert!(passed, "{tenant}"),
            Report::Failure { component, reason } => panic!("{component}: {reason}"),
            _ => {}
        }
    }
    let of_it = |report| match report {
        Report::Load(load) if load.tenant == tenant => Some(load),
        _ => None,
    };
    run.reports.into_iter().find_map(of_it).expect("the tenant measured")
}

/// Of its throughput alone, and times its p99 alone.
fn kept(name: &str, tenant: &str, order: ThreadOrder) -> (f64, f64) {
    let iops = |load: &Load| load.reads as f64 * 1e9 / load.elapsed_ns as f64;
    let (alone, beside) = (load(name, tenant, order, true), load(name, tenant, order, false));
    let (part, times) = (iops(&beside) / iops(&alone), beside.p99_ns as f64 / alone.p99_ns as f64);
    println!(
        "{name} {order:?}: {:.0} of {:.0} IOPS, p99 {} of {} ns",
        iops(&beside),
        iops(&alone),
        beside.p99_ns,
        alone.p99_ns
    );
    (part, times)
}

#[test]
fn an_honest_tenant_among_thirty_that_misbehave_keeps_what_it_has() {
    for order in [ThreadOrder::Sel4, ThreadOrder::Drawn] {
        let (part, times) = kept("hostile-league", "alice", order);
        assert!(part >= 0.85 && times <= 1.6, "{part} of the throughput, {times} times the p99, {order:?}");
    }
}
