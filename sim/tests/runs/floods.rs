//! Each kind of flood, on the whole system.

use super::{Run, passed, run_with};
use capdl::Scenario;
use capdl::scenario::{Kill, Workload};
use report::{Report, Session};
use workload::{Flood, FloodKind};

/// The scenario of a tenant beside a flood.
fn beside(flood: Flood) -> Scenario {
    let text = r#"
name = "beside-a-flood"
description = "A tenant beside a flood."
[console]
priority = 100
[[controller]]
name = "disk"
[[controller.namespace]]
size = "16M"
[[tenant]]
name = "alice"
class = "high"
queue_pairs = 1
extents = [{ first = 0, blocks = 8192 }]
program.name = "bench"
[tenant.program.config]
operations = 0
milliseconds = 120
depth = 4
[[tenant]]
name = "mallory"
class = "low"
queue_pairs = 1
extents = [{ first = 8192, blocks = 8192 }]
program.name = "flood"
[tenant.program.config]
kinds = ["requests"]
"#;
    let mut scenario = Scenario::parse(text, "beside-a-flood").unwrap();
    scenario.tenants[1].workload = Workload::Flood(flood);
    scenario
}

fn flood(kind: FloodKind, waits: bool) -> Flood {
    Flood { kinds: vec![kind], milliseconds: 100, waits, ..Flood::default() }
}

/// Returns the number of the flood's sessions, and the sums of their counters at the server.
fn sessions(run: &Run) -> (u64, Session) {
    let (mut all, mut sum) = (0, Session::default());
    for report in &run.reports {
        let Report::Session(one) = report else { continue };
        if one.tenant != "mallory" {
            continue;
        }
        all += 1;
        sum.requests += one.requests;
        sum.refused += one.refused;
        sum.commands += one.commands;
        sum.read_bytes += one.read_bytes;
        sum.written_bytes += one.written_bytes;
        sum.not_installed += one.not_installed;
    }
    (all, sum)
}

/// Asserts that both tenants have finished, and that no checker has findings.
#[track_caller]
fn ended_well(run: &Run) {
    assert_eq!((run.account.findings.as_str(), run.account.panics.as_slice()), ("", &[][..]));
    assert!(passed(run));
    let done = run.reports.iter().filter(|report| matches!(report, Report::Done { passed: true, .. })).count();
    assert_eq!(done, 2, "{:?}", run.reports);
}

#[test]
fn every_kind_of_flood_does_what_it_says() {
    for (kind, waits) in FloodKind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let run = run_with(&beside(flood(kind, waits)), 1, &[]);
        ended_well(&run);
        let (sessions, seen) = sessions(&run);
        println!("{kind:?} {waits} {sessions} {seen:?}");
        let holds = match kind {
            FloodKind::Requests => seen.commands > 500 && seen.read_bytes == seen.commands * 512,
            FloodKind::Zeroes => seen.commands > 500 && seen.read_bytes == 0 && seen.written_bytes == 0,
            FloodKind::Invalid | FloodKind::Forbidden | FloodKind::TooLarge => {
                seen.refused > 60 && seen.refused == seen.requests
            }
            FloodKind::NotInstalled => seen.not_installed > 60 && seen.not_installed == seen.requests,
            FloodKind::OpenClose => sessions > 2,
            FloodKind::PolicyCalls | FloodKind::Evictions | FloodKind::Signals | FloodKind::Calls => {
                seen.requests == 0 && sessions == 1
            }
        };
        assert!(holds, "{kind:?}, waits: {waits}: {sessions} sessions, {seen:?}");
    }
}

#[test]
fn a_flood_of_writes_to_one_block_writes() {
    let run = run_with(&beside(Flood { read_percent: 0, blocks: 1, ..flood(FloodKind::Requests, false) }), 1, &[]);
    ended_well(&run);
    let (_, seen) = sessions(&run);
    assert!(seen.written_bytes > 500 * 512 && seen.read_bytes == 0, "{seen:?}");
}

#[test]
fn floods_continue_after_server_and_policy_deaths() {
    for (component, seed) in ["nvme-server", "policy", "pci-server"].into_iter().flat_map(|name| [(name, 1), (name, 2)])
    {
        let all =
            Flood { kinds: FloodKind::ALL.to_vec(), turn_milliseconds: 3, ..flood(FloodKind::Requests, seed == 2) };
        let mut scenario = beside(all);
        scenario.kills = vec![Kill { within_ms: 30, ..Kill::new(component, 20) }];
        scenario.expect.restarts.insert(component.into(), 1);
        ended_well(&run_with(&scenario, seed, &[]));
    }
}
