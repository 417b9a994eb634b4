//! Tenants that send only entries that are refused cost their neighbours nothing (`docs/guide/priority.md`).

use super::{iops, reader, run_for};
use blk_api::config::{Class, SchedulingPolicy};
use capdl::Scenario;
use capdl::scenario::{Arbitration, Tenant, Workload};
use report::Load;
use workload::{Flood, FloodKind};

const CLASSES: [Class; 4] = [Class::Urgent, Class::High, Class::Medium, Class::Low];

/// Kinds of which no request reaches a device. None of them asks for a record, so no session is opened again for the next one.
const REFUSED: [FloodKind; 4] =
    [FloodKind::NotInstalled, FloodKind::Invalid, FloodKind::Forbidden, FloodKind::TooLarge];

/// Milliseconds of virtual time of a run. The tenant measures for 60 of them.
const LONGEST_MS: u64 = 150;

/// The submission of refused requests: one entry at a time, or as many as the ring holds. In both forms the client sleeps until
/// the answers come.
#[derive(Clone, Copy, Debug)]
enum Form {
    OneByOne,
    FullRing,
}

const fn form_of(number: usize) -> Form {
    if number.is_multiple_of(2) { Form::OneByOne } else { Form::FullRing }
}

/// This scenario with these tenants beside it: class, kinds and form of each.
fn beside(alone: &Scenario, floods: impl Iterator<Item = (Class, Vec<FloodKind>, Form)>) -> Scenario {
    let mut scenario = alone.clone();
    let alice = alone.tenants[0].clone();
    for (number, (class, kinds, form)) in (0u64..).zip(floods) {
        let depth = match form {
            Form::OneByOne => 1,
            Form::FullRing => 0,
        };
        let flood = Flood {
            kinds,
            milliseconds: 0,
            turn_milliseconds: 15,
            waits: true,
            depth,
            // The extents are read-only: their records refuse writes.
            read_percent: 0,
            seed: number,
            ..Flood::default()
        };
        let mut one =
            Tenant { name: format!("mallory-{number}"), class, workload: Workload::Flood(flood), ..alice.clone() };
        one.extents[0].first = (number + 1) * 2048;
        one.extents[0].writable = false;
        scenario.tenants.push(one);
    }
    scenario
}

/// Returns the one tenant's measurements, if it finished.
fn load(scenario: &Scenario) -> Option<Load> {
    let run = run_for(scenario, 1, LONGEST_MS);
    let load = run.load("alice")?.clone();
    assert_eq!((run.account.findings.as_str(), run.account.panics.as_slice()), ("", &[][..]));
    Some(load)
}

/// Returns `None` if the tenant kept at least 95 % of its throughput and at most 1.2 times its p99 beside the others. Otherwise
/// returns how much it kept.
fn suffers(alone: &Load, beside: Option<Load>) -> Option<String> {
    let Some(beside) = beside else { return Some("it did not come to its end".into()) };
    let (part, times) = (iops(&beside) / iops(alone), beside.p99_ns as f64 / alone.p99_ns as f64);
    (part < 0.95 || times > 1.2).then(|| format!("{:.1} % of its throughput, {times:.2} times its p99", part * 100.0))
}

/// Checks the tenant of each class under this policy, beside one, seven and thirty-one whose requests are all refused.
fn refusals_cost_others_nothing(policy: (SchedulingPolicy, Arbitration)) {
    let mut wrong = Vec::new();
    for class in CLASSES {
        let scenario = reader(policy, class, 20);
        let own = load(&scenario).expect("it measured");
        let mut judge = |what: String, scenario: &Scenario| {
            wrong.extend(suffers(&own, load(scenario)).map(|how| format!("{class:?} beside {what}: {how}")));
        };
        for other in CLASSES {
            // Over the classes each form meets each other.
            let form = form_of(class as usize + other as usize);
            let flood = std::iter::once((other, REFUSED.to_vec(), form));
            judge(format!("one of {other:?}, {form:?}"), &beside(&scenario, flood));
        }
        for many in [7, 31] {
            let floods = (0..many).map(|number| {
                // Writes that a record does not allow are the fifth kind.
                let kind = REFUSED.get(number % 5).copied().unwrap_or(FloodKind::Requests);
                (CLASSES[number % 4], vec![kind], form_of(number / 4))
            });
            judge(format!("{many} of all classes"), &beside(&scenario, floods));
        }
    }
    assert!(wrong.is_empty(), "{policy:?}\n{}", wrong.join("\n"));
}

#[test]
fn refusals_cost_others_nothing_round_robin() {
    refusals_cost_others_nothing((SchedulingPolicy::RoundRobin, Arbitration::RoundRobin));
}

#[test]
fn refusals_cost_others_nothing_dedicated() {
    refusals_cost_others_nothing((SchedulingPolicy::Dedicated, Arbitration::RoundRobin));
}

#[test]
fn refusals_cost_others_nothing_weighted() {
    refusals_cost_others_nothing((SchedulingPolicy::Weighted, Arbitration::RoundRobin));
}

#[test]
fn refusals_cost_others_nothing_weighted_by_the_controller() {
    refusals_cost_others_nothing((SchedulingPolicy::Weighted, Arbitration::WeightedRoundRobin));
}

#[test]
fn refusals_cost_others_nothing_paced() {
    refusals_cost_others_nothing((SchedulingPolicy::Paced, Arbitration::RoundRobin));
}
