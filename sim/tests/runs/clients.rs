//! Clients that die with requests in flight and are started again: nothing of one incarnation reaches the next, and no
//! resource is used up.

use super::restarts::{crash, everybody_passed};
use super::{Run, run_for, run_with, scenario};
use capdl::Scenario;
use capdl::scenario::{Kill, Media, Restart, Workload};
use report::Report;
use workload::Bench;

const VICTIM: &str = "victim";
/// Upper limit on a short incarnation, with the end of its session and the restart.
const INCARNATION_MS: u64 = 3;

/// Returns for each restart of the victim its number, and the memory that the root task had left.
fn incarnations(run: &Run) -> Vec<(u16, u64)> {
    let again = |report: &Report| match report {
        Report::Restart(restart) if restart.name == VICTIM => Some((restart.times, restart.memory_left_bytes)),
        _ => None,
    };
    run.reports.iter().filter_map(again).collect()
}

/// Returns for each opening of the victim's session the server's own pages that were left, and its IO page tables.
fn openings(run: &Run) -> Vec<(u32, u32)> {
    let opened = |report: &Report| match report {
        Report::Opened { tenant, pages_left, io_tables_left } if tenant == VICTIM => {
            Some((*pages_left, *io_tables_left))
        }
        _ => None,
    };
    run.reports.iter().filter_map(opened).collect()
}

fn failures(run: &Run) -> Vec<String> {
    let failure = |report: &Report| match report {
        Report::Failure { component, reason } => Some(format!("{component} {reason}")),
        _ => None,
    };
    run.reports.iter().filter_map(failure).collect()
}

fn bench<'a>(scenario: &'a mut Scenario, tenant: &str) -> &'a mut Bench {
    let tenant = scenario.tenants.iter_mut().find(|one| one.name == tenant).expect("a tenant");
    match &mut tenant.workload {
        Workload::Bench(bench) => bench,
        other => panic!("{other:?}"),
    }
}

/// The scenario with `times` deaths, one each `every_ms` and up to `within_ms` later.
fn cycles(times: u32, every_ms: u32, within_ms: u32) -> Scenario {
    let mut scenario = scenario("client-cycles");
    let kill = Kill { times, every_ms, within_ms, ..Kill::new(VICTIM, 5) };
    scenario.kills = vec![kill];
    scenario.tenants[0].ends = None;
    scenario.tenants[1].restart = Some(Restart { times: u16::MAX, within_seconds: 1 });
    bench(&mut scenario, VICTIM).milliseconds = u64::from(every_ms + within_ms + 5);
    scenario
}

#[track_caller]
fn nothing_is_used_up(run: &Run, times: usize) {
    assert_eq!(run.account.findings, "");
    let incarnations = incarnations(run);
    assert_eq!(incarnations.len(), times, "{:?}", failures(run));
    assert!(
        incarnations.iter().all(|(_, left)| *left == incarnations[0].1),
        "memory of the root task: {incarnations:?}"
    );
    let openings = openings(run);
    // The neighbour's session may be opened between the first two.
    assert!(openings.iter().skip(2).all(|left| *left == openings[1]), "memory of the server: {openings:?}");
}

#[test]
fn client_killed_repeatedly_leaks_nothing() {
    for seed in 0..3 {
        let mut scenario = cycles(40, 3, 4);
        bench(&mut scenario, "alice").milliseconds = 500;
        let run = run_with(&scenario, seed, &[]);
        nothing_is_used_up(&run, 40);
        assert!(everybody_passed(&run, &scenario), "seed {seed}: {:?}", failures(&run));
        assert!(openings(&run).len() > 35, "most incarnations come as far as their session: {}", openings(&run).len());
    }
}

/// Runs so many incarnations of a few requests each, beside a neighbour that verifies all the while. The media are as slow as an
/// emulated machine's.
fn short_incarnations(times: u32) {
    let mut scenario = cycles(times, 1, 1);
    scenario.controllers[0].model.media = Media::Emulated;
    scenario.tenants[1].window = 32 << 10;
    scenario.tenants[1].extents.truncate(1);
    scenario.tenants[1].extents[0].blocks = 64;
    bench(&mut scenario, VICTIM).depth = 4;
    let alice = bench(&mut scenario, "alice");
    (alice.depth, alice.milliseconds) = (1, u64::from(times) * INCARNATION_MS);
    let began = std::time::Instant::now();
    let run = run_for(&scenario, 1, u64::from(times) * INCARNATION_MS + 1_000);
    nothing_is_used_up(&run, times as usize);
    assert!(everybody_passed(&run, &scenario), "{:?}", failures(&run));
    let last_ns = run.reports.iter().filter_map(|report| match report {
        Report::Restart(restart) => Some(restart.ended_at_ns),
        _ => None,
    });
    let last_ns = last_ns.max().unwrap_or(0);
    assert!(last_ns < u64::from(times) * INCARNATION_MS * 1_000_000, "its neighbour outlived it: {last_ns} ns");
    let (opened, commands) = (openings(&run).len(), run.account.commands);
    println!(
        "{times} incarnations, {opened} openings, {commands} commands, {} ms, {:?}",
        last_ns / 1_000_000,
        began.elapsed()
    );
}

#[test]
fn ten_thousand_incarnations_of_a_client_leak_nothing() {
    short_incarnations(10_000);
}

/// Kills the victim once, and this component so soon after it that the server is still ending the victim's session, or has not
/// begun to. Returns whether the component was started again first.
fn both_die(component: &str, seed: u64) -> bool {
    let mut scenario = cycles(1, 0, 0);
    scenario.kills[0].when.after_ms = 20;
    for tenant in ["alice", VICTIM] {
        bench(&mut scenario, tenant).milliseconds = 80;
    }
    scenario.kills.push(Kill { within_ms: 1, ..Kill::new(component, 20) });
    let run = run_with(&scenario, seed, &[]);
    assert_eq!(run.account.findings, "", "{component} with {seed}");
    assert!(everybody_passed(&run, &scenario), "{component} with {seed}: {:?}", failures(&run));
    assert_eq!(incarnations(&run).len(), 1);
    let again = |report: &Report| match report {
        Report::Restart(restart) => Some(restart.name.to_string()),
        _ => None,
    };
    run.reports.iter().find_map(again).is_some_and(|first| first != VICTIM)
}

#[test]
fn client_that_dies_with_its_server_restarts_after_it() {
    for component in ["nvme-server", "pci-server", "policy"] {
        let first = (0..8).filter(|seed| both_die(component, *seed)).count();
        println!("{component} was started again before its client {first} times");
        assert!(component != "nvme-server" || first > 0);
    }
}

#[test]
fn a_client_whose_server_stays_dead_stays_dead_too() {
    let mut scenario = cycles(1, 0, 0);
    scenario.server.restart.times = 0;
    scenario.kills.push(Kill::new("nvme-server", 5));
    let run = run_with(&scenario, 1, &[]);
    assert!(incarnations(&run).is_empty());
    assert!(failures(&run).contains(&"victim stays dead: nobody can end its session".into()), "{:?}", failures(&run));
}

#[test]
fn client_death_at_any_await_leaves_nothing_behind() {
    let mut died = 0;
    for at_await in (1..40).chain((40..1_200).step_by(29)) {
        let mut scenario = scenario("boot");
        scenario.tenants[0].restart = Some(Restart::default());
        let run = run_with(&scenario, at_await, &[crash("alice", at_await)]);
        assert_eq!(run.account.findings, "", "at {at_await}");
        assert!(everybody_passed(&run, &scenario), "at {at_await}: {:?}", failures(&run));
        died += run.reports.iter().filter(|report| matches!(report, Report::Restart(_))).count();
    }
    assert!(died > 50, "{died}");
}
