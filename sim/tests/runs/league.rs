//! An honest tenant among thirty that misbehave (`scenarios/hostile-league.toml`), compared with the same tenant alone.

use super::{iops, run_for, scenario};
use capdl::ThreadOrder;
use report::{Load, Report};

/// Milliseconds of virtual time in which all tenants finish.
const LONGEST_MS: u64 = 6_000;

/// Returns the tenant's measurements, alone or with all others.
fn load(name: &str, tenant: &str, order: ThreadOrder, alone: bool) -> Load {
    let mut scenario = scenario(name);
    scenario.machine.thread_order = order;
    if alone {
        scenario.tenants.retain(|one| one.name == tenant);
        scenario.changes.clear();
        scenario.kills.clear();
    }
    let run = run_for(&scenario, 1, LONGEST_MS);
    assert_eq!((run.account.findings.as_str(), run.account.panics.as_slice()), ("", &[][..]));
    let done = run.reports.iter().filter(|report| matches!(report, Report::Done { .. })).count();
    assert_eq!(done, scenario.tenants.len(), "everybody comes to its end");
    for report in &run.reports {
        match report {
            Report::Attack(flood) => println!("  {}: {}", flood.tenant, flood.attack),
            Report::Done { passed, tenant } => assert!(passed, "{tenant}"),
            Report::Failure { component, reason } => panic!("{component}: {reason}"),
            _ => {}
        }
    }
    run.load(tenant).expect("the tenant measured").clone()
}

/// Returns the part of its throughput alone that the tenant keeps, and the multiple of its p99 alone.
fn kept(name: &str, tenant: &str, order: ThreadOrder) -> (f64, f64) {
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
fn honest_tenant_keeps_its_service_among_thirty_hostile() {
    // In the drawn order, each thread that never sleeps is as likely to run as the last one, at every switch.
    for (order, least, most) in [(ThreadOrder::Sel4, 0.95, 1.2), (ThreadOrder::Drawn, 0.85, 1.5)] {
        let (part, times) = kept("hostile-league", "alice", order);
        assert!(part >= least && times <= most, "{part} of the throughput, {times} times the p99, {order:?}");
    }
}
