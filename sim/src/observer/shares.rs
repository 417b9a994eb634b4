//! Groups for the fairness checker: sessions of one controller that are configured alike, down to their clients' work. Only
//! such sessions are compared: an urgent class, more queue pairs or a deeper queue exist to get more, and lost rights mean less.

use capdl::Scenario;
use capdl::scenario::{Tenant, Workload};
use sim_check::{Fairness, FairnessRules, Share};
use sim_fault::Fault;
use workload::{Bench, Digest};

/// Length of an interval: long against a request, and against some time slices of the processor, by which sessions may differ.
const INTERVAL_NS: u64 = 40_000_000;
/// Upper limit on the ratio of two sessions' throughput.
const FACTOR: u64 = 2;
/// Allowance on top of the ratio: some requests of the usual size.
const SLACK_BYTES: u64 = 256 << 10;
/// Time for which a session that asks without pause may wait while others are answered.
const STARVATION_NS: u64 = 1_000_000_000;
/// Time after a fault in which sessions may still wait for their turn. A doorbell that is lost shows after a limit of 10 s, and an abort
/// that does not help is followed by new queue pairs and a reset, each after a limit of its own.
const RECOVERY_NS: u64 = 30_000_000_000;

/// Returns the checker for a scenario's sessions, which are numbered as its tenants.
pub(crate) fn fairness(scenario: &Scenario) -> Fairness {
    let rules = FairnessRules { interval_ns: INTERVAL_NS, factor: FACTOR, slack_bytes: SLACK_BYTES };
    let mut fairness = Fairness::new(rules);
    let alike: Vec<Tenant> = scenario.tenants.iter().map(|tenant| anonymous(scenario, tenant)).collect();
    for (number, tenant) in (0..).zip(&alike) {
        let first_alike = alike.iter().position(|other| other == tenant).map_or(number, |first| first as u32);
        let (group, starvation_ns) =
            if scenario.expect.unfair { (number, u64::MAX) } else { (first_alike, STARVATION_NS) };
        let saturating = u32::from(depth(tenant) / 2).max(1);
        let share = Share { group, weight: 1, saturating, starvation_ns };
        fairness.session(number, share, 0);
    }
    for fault in &scenario.faults {
        fairness.faults_until(end_ns(fault));
    }
    fairness
}

/// Returns a tenant without its name, blocks and seed, which may differ within a group. A tenant whose rights or share change,
/// or could by an operator, keeps them, and so is alone in its group.
fn anonymous(scenario: &Scenario, tenant: &Tenant) -> Tenant {
    if scenario.control.is_some() || scenario.changes.iter().any(|change| change.tenant == tenant.name) {
        return tenant.clone();
    }
    let mut anonymous = Tenant { name: String::new(), extents: Vec::new(), ..tenant.clone() };
    match &mut anonymous.workload {
        Workload::Bench(bench) => bench.seed = 0,
        Workload::Flood(flood) => flood.seed = 0,
        Workload::Digest(_) | Workload::Hostile(_) | Workload::Signal(_) | Workload::Own(_) => {}
    }
    anonymous
}

/// Returns the number of requests that its client keeps in flight.
fn depth(tenant: &Tenant) -> u16 {
    match &tenant.workload {
        Workload::Bench(Bench { depth, .. }) | Workload::Digest(Digest { depth, .. }) => *depth,
        Workload::Flood(_) | Workload::Hostile(_) | Workload::Signal(_) | Workload::Own(_) => 1,
    }
}

/// Returns the time until which a fault may cost a session its share.
fn end_ns(fault: &Fault) -> u64 {
    match fault {
        Fault::Command(fault) => fault.until_ns.map_or(u64::MAX, |until_ns| until_ns.saturating_add(RECOVERY_NS)),
        Fault::Controller(fault) => fault.at_ns.saturating_add(RECOVERY_NS),
        Fault::Component(_) => u64::MAX,
    }
}
