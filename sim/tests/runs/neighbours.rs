//! The throughput and latency of a tenant beside neighbours of a lower class that send valid requests, on the whole system
//! (`docs/guide/priority.md`). Ready threads run in seL4's order.

use super::{Run, iops, reader, run_for, run_prepared};
use blk_api::config::{Class, SchedulingPolicy};
use capdl::Scenario;
use capdl::scenario::{Arbitration, Media, Tenant, Workload};
use report::{Load, Report};
use workload::{Bench, Flood, FloodKind};

const POLICIES: [(SchedulingPolicy, Arbitration); 5] = [
    (SchedulingPolicy::Paced, Arbitration::RoundRobin),
    (SchedulingPolicy::RoundRobin, Arbitration::RoundRobin),
    (SchedulingPolicy::Dedicated, Arbitration::RoundRobin),
    (SchedulingPolicy::Weighted, Arbitration::RoundRobin),
    (SchedulingPolicy::Weighted, Arbitration::WeightedRoundRobin),
];

/// Milliseconds of virtual time of a run, at most: the tenant measures for 60 of them, from the tick after the 100th on.
const LONGEST_MS: u64 = 350;

/// The scenario of a tenant of class high with four reads in flight, alone.
fn alone(policy: (SchedulingPolicy, Arbitration), media: Media) -> Scenario {
    let mut scenario = reader(policy, Class::High, 100);
    scenario.controllers[0].model.media = media;
    scenario
}

/// This scenario with `count` tenants of class low with this workload beside it.
fn beside(alone: &Scenario, count: u64, workload: &Workload) -> Scenario {
    let mut scenario = alone.clone();
    let alice = scenario.tenants[0].clone();
    let deep = matches!(workload, Workload::Bench(_));
    for number in 0..count {
        let mut one = Tenant {
            name: format!("mallory-{number}"),
            class: Class::Low,
            depth: if deep { 128 } else { 8 },
            ring_entries: if deep { 256 } else { 16 },
            window: if deep { 1 << 20 } else { 1 << 16 },
            workload: workload.clone(),
            ..alice.clone()
        };
        one.extents[0].first = (number + 1) * 2048;
        scenario.tenants.push(one);
    }
    scenario
}

/// The workload of requests one after the other, without ever sleeping and without end.
fn flood(read_percent: u8) -> Workload {
    Workload::Flood(Flood { kinds: vec![FloodKind::Requests], milliseconds: 0, read_percent, ..Flood::default() })
}

/// The workload of a load that goes on until the tenant has finished.
fn load_of(depth: u16, block_bytes: u32, read_percent: u8) -> Workload {
    Workload::Bench(Bench {
        operations: 0,
        milliseconds: 230,
        depth,
        block_bytes,
        read_percent,
        verify: false,
        progress_milliseconds: 0,
        ..Bench::default()
    })
}

fn measured(scenario: &Scenario) -> Load {
    let system = capdl::build(&scenario.drawn(1), &sim::programs(scenario.machine.arch)).unwrap();
    // Floods go on for ever.
    let loads: Vec<_> =
        scenario.tenants.iter().filter(|tenant| !matches!(tenant.workload, Workload::Flood(_))).collect();
    let is_end = |done: &[String]| loads.iter().all(|load| done.contains(&load.name));
    let run = run_prepared(&system, scenario, 1, &[], LONGEST_MS, |_| {}, is_end);
    assert_eq!((run.account.findings.as_str(), run.account.panics.as_slice()), ("", &[][..]));
    run.load("alice").expect("alice came to its end").clone()
}

/// Bounds on a tenant beside floods: the least part of its throughput alone, and the greatest multiple of its p99 alone.
struct Bounds {
    part: f64,
    times: f64,
}

fn floods_leave(media: Media, policy: (SchedulingPolicy, Arbitration), counts: &[u64], least: &Bounds) {
    let scenario = alone(policy, media);
    let own = measured(&scenario);
    for count in counts {
        let flooded = measured(&beside(&scenario, *count, &flood(100)));
        let (part, times) = (iops(&flooded) / iops(&own), flooded.p99_ns as f64 / own.p99_ns as f64);
        let text =
            format!("{media:?}, {policy:?}, {count} floods: {part:.3} of its throughput, {times:.2} times its p99");
        println!("{text} of {} ns", own.p99_ns);
        assert!(part >= least.part && times <= least.times, "{text}");
    }
}

#[test]
fn floods_leave_a_higher_class_its_throughput_and_latency() {
    for policy in POLICIES {
        let by_controller = policy.1 == Arbitration::WeightedRoundRobin;
        let least = if by_controller { Bounds { part: 0.9, times: 1.25 } } else { Bounds { part: 0.95, times: 1.1 } };
        floods_leave(Media::OpenExpress, policy, &[1, 3, 7, 31], &least);
    }
}

/// Where a read takes 5 us, most of it in the server, the tenants share the server's time.
#[test]
fn on_dram_floods_take_time_of_the_server() {
    for policy in POLICIES {
        floods_leave(Media::Dram, policy, &[1, 31], &Bounds { part: 0.45, times: 3.3 });
    }
}

#[test]
fn lower_classes_lose_nothing_under_paced() {
    let neighbours = [
        (7, "floods of reads", flood(100)),
        (7, "floods of writes", flood(0)),
        (1, "load of 128 reads of 4 KiB", load_of(128, 4096, 100)),
        (1, "load of 8 reads of 128 KiB", load_of(8, 131_072, 100)),
        (7, "loads of 32 writes", load_of(32, 4096, 0)),
    ];
    for media in [Media::OpenExpress, Media::Flash, Media::Emulated] {
        let own = measured(&alone(POLICIES[0], media));
        let own = [own.p99_ns, own.p999_ns];
        for (count, what, workload) in &neighbours {
            let beside = |policy| {
                let load = measured(&beside(&alone(policy, media), *count, workload));
                [load.p99_ns, load.p999_ns]
            };
            let paced = beside(POLICIES[0]);
            let text = format!("{media:?}, {count} {what}: p99 and p99.9 {paced:?}, alone {own:?}");
            println!("{text}");
            // A command of a neighbour may always be ahead, and a batch of them before the server.
            let late: Vec<usize> = (0..2).filter(|at| paced[*at] * 10 > own[*at] * 22).collect();
            let others = if late.is_empty() { &[][..] } else { &POLICIES[1..3] };
            for policy in others {
                let other = beside(*policy);
                assert!(late.iter().all(|at| paced[*at] * 10 <= other[*at] * 11), "{text}, {policy:?}: {other:?}");
            }
        }
    }
}

/// Returns the number of commands of the tenant's session.
fn commands(run: &Run, tenant: &str) -> u64 {
    let of_it = |report: &Report| match report {
        Report::Session(session) if session.tenant == tenant => Some(session.commands),
        _ => None,
    };
    run.reports.iter().find_map(of_it).expect("its session ended")
}

#[test]
fn floods_of_one_class_share_evenly() {
    for policy in POLICIES {
        let mut both = beside(&alone(policy, Media::OpenExpress), 2, &flood(100));
        both.tenants.remove(0);
        for tenant in &mut both.tenants {
            if let Workload::Flood(flood) = &mut tenant.workload {
                flood.milliseconds = 600;
            }
        }
        let run = run_for(&both, 1, 800);
        let [one, other] = ["mallory-0", "mallory-1"].map(|name| commands(&run, name));
        println!("{policy:?}: {one} and {other}");
        assert!(one.abs_diff(other) * 20 <= one.max(other), "{policy:?}: {one} and {other}");
    }
}
