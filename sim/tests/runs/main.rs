//! Whole runs: the same seed is the same run, another seed is another one, and each planted defect is caught by the checker
//! of its law.

mod arbitration;
mod clients;
mod events;
mod floods;
mod function_revocations;
mod functions;
mod hot_plug;
mod interrupts;
mod league;
mod moments;
mod neighbours;
mod operator;
mod other_disks;
mod policy_floods;
mod refusals;
mod restarts;
mod revocations;
mod shares;
mod speeds;
mod tenants;
mod virt;

use blk_api::config::{Class, SchedulingPolicy};
use capdl::scenario::{Arbitration, Workload};
use capdl::{Scenario, System, ThreadOrder};
use report::frame::{Kind, Piece, Reader};
use report::{Load, Report, Stamped};
use sim::{Account, Disk, Progress, Simulation};
use sim_fault::{CommandEffect, CommandFault, ComponentEffect, ComponentFault, Fault, QueueKind};
use std::path::Path;

/// Milliseconds of virtual time of a run by default.
const LONGEST_MS: u64 = 2_000;

/// The reports and the account of a run.
struct Run {
    reports: Vec<Report>,
    account: Account,
}

impl Run {
    /// Returns the load that the tenant measured, if it finished.
    fn load(&self, tenant: &str) -> Option<&Load> {
        self.reports.iter().find_map(|report| match report {
            Report::Load(load) if load.tenant == tenant => Some(load),
            _ => None,
        })
    }
}

/// The scenario of one tenant of this class with four reads in flight, which measures for 60 ms from the tick after the delay
/// on. Ready threads run in seL4's order.
fn reader(policy: (SchedulingPolicy, Arbitration), class: Class, delay_ms: u64) -> Scenario {
    let text = format!(
        r#"
name = "reader"
description = "A tenant that measures what it has."
[console]
priority = 115
[[controller]]
name = "disk"
queue_pairs = 64
[[controller.namespace]]
size = "64M"
[[tenant]]
name = "alice"
queue_pairs = 1
depth = 4
window = "64K"
ring_entries = 16
extents = [{{ first = 0, blocks = 2048 }}]
program.name = "bench"
[tenant.program.config]
operations = 0
milliseconds = 60
delay_milliseconds = {delay_ms}
progress_milliseconds = 0
depth = 4
read_percent = 100
verify = false
"#
    );
    let mut scenario = Scenario::parse(&text, "reader").unwrap();
    scenario.machine.thread_order = ThreadOrder::Sel4;
    (scenario.server.policy, scenario.controllers[0].model.arbitration) = policy;
    scenario.tenants[0].class = class;
    scenario
}

/// Returns reads a second.
fn iops(load: &Load) -> f64 {
    load.reads as f64 * 1e9 / load.elapsed_ns as f64
}

/// The scenario of this name with all times from the start on, which tests here change. Loads wait for no moment; those that only a
/// moment ends still end with it.
fn scenario(name: &str) -> Scenario {
    let mut scenario = as_written(name);
    let of_controllers =
        scenario.controllers.iter_mut().flat_map(|one| &mut one.changes).map(|change| &mut change.when);
    let of_tenants = scenario.changes.iter_mut().map(|change| &mut change.when);
    let kills = scenario.kills.iter_mut().map(|kill| &mut kill.when);
    of_controllers.chain(of_tenants).chain(kills).for_each(|when| when.at = None);
    for tenant in &mut scenario.tenants {
        (tenant.opens, tenant.begins) = (None, None);
        let goes_on = |bench: &workload::Bench| bench.milliseconds == 0 && bench.operations == 0;
        if !matches!(&tenant.workload, Workload::Bench(bench) if goes_on(bench)) {
            tenant.ends = None;
        }
    }
    scenario
}

/// The scenario of this name.
fn as_written(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(format!("{name}.toml"));
    Scenario::load(file).unwrap()
}

/// Makes the load of each tenant this long.
fn loads_last(scenario: &mut Scenario, milliseconds: u64) {
    for tenant in &mut scenario.tenants {
        let Workload::Bench(bench) = &mut tenant.workload else { panic!("{} has another workload", tenant.name) };
        bench.milliseconds = milliseconds;
    }
}

/// Runs the scenario with faults added to it, so that the checkers know of them.
fn run(name: &str, seed: u64, faults: &[Fault]) -> Run {
    let mut scenario = scenario(name);
    scenario.faults.extend_from_slice(faults);
    run_with(&scenario, seed, &[])
}

/// Runs the scenario with faults that are not in it, so that the checkers must find their effects.
fn run_with(scenario: &Scenario, seed: u64, planted: &[Fault]) -> Run {
    run_system(scenario, scenario, seed, planted, LONGEST_MS)
}

/// Runs the scenario with another time limit.
fn run_for(scenario: &Scenario, seed: u64, longest_ms: u64) -> Run {
    run_system(scenario, scenario, seed, &[], longest_ms)
}

/// Runs the components by one scenario and the checkers by another.
fn run_configured(configured: &Scenario, scenario: &Scenario, seed: u64) -> Run {
    run_system(configured, scenario, seed, &[], LONGEST_MS)
}

fn run_system(configured: &Scenario, scenario: &Scenario, seed: u64, planted: &[Fault], longest_ms: u64) -> Run {
    let system = capdl::build(&configured.drawn(seed), &sim::programs(configured.machine.arch)).unwrap();
    run_built(&system, scenario, seed, planted, longest_ms)
}

/// Runs a system that is built, judged by `scenario`.
fn run_built(system: &System, scenario: &Scenario, seed: u64, planted: &[Fault], longest_ms: u64) -> Run {
    let all = scenario.tenants.len();
    run_prepared(system, scenario, seed, planted, longest_ms, |_| {}, |done| done.len() == all)
}

/// Runs a system that is built on a machine that was changed first, until these tenants at their ends, passed or failed, are the end.
fn run_prepared(
    system: &System,
    scenario: &Scenario,
    seed: u64,
    planted: &[Fault],
    longest_ms: u64,
    prepare: impl FnOnce(&mut Simulation),
    is_end: impl Fn(&[String]) -> bool,
) -> Run {
    let disk = Disk::pattern();
    let disks = scenario.controllers.iter().map(|one| vec![disk.clone(); one.namespaces.len()]).collect();
    let faults = [scenario.faults.as_slice(), planted].concat();
    let mut simulation = Simulation::new(scenario, system, disks, &faults, seed);
    prepare(&mut simulation);
    let (mut reader, mut reports, mut done) = (Reader::new(), Vec::new(), Vec::new());
    for until_ms in 1..=longest_ms {
        let progress = simulation.run_until(until_ms * 1_000_000);
        let known = done.len();
        reader.feed(&simulation.take_serial(), &mut |piece| {
            if let Piece::Frame { kind: Kind::Report, bytes, .. } = piece {
                let report = Stamped::decode(bytes).map(|stamped| stamped.report);
                if let Some(Report::Done { tenant, .. }) = &report {
                    done.push(tenant.to_string());
                }
                reports.extend(report);
            }
        });
        if progress == Progress::Quiet || done.len() > known && is_end(&done) {
            break;
        }
    }
    Run { reports, account: simulation.end() }
}

fn command_fault(opcode: u8, times: u64, effect: CommandEffect) -> Fault {
    Fault::Command(CommandFault {
        opcodes: vec![opcode],
        skip: 20,
        times: Some(times),
        ..CommandFault::new(QueueKind::Io, effect)
    })
}

fn passed(run: &Run) -> bool {
    run.reports.iter().any(|report| matches!(report, Report::Done { passed: true, .. }))
}

#[test]
fn tenants_read_back_what_they_wrote() {
    let run = run("boot", 1, &[]);
    assert!(passed(&run), "{:?}", run.reports);
    assert_eq!((run.account.findings.as_str(), run.account.panics.as_slice()), ("", &[][..]));
    assert!(run.account.commands > 500);
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_another() {
    let hash = |seed| run("hybrid", seed, &[]).account.trace_hash;
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}

#[test]
fn flipped_bit_is_seen_by_tenant_and_contents_checker() {
    const READ: u8 = 2;
    let run = run("boot", 1, &[command_fault(READ, 1, CommandEffect::CorruptData)]);
    assert!(!passed(&run), "the tenant verifies");
    assert!(run.account.findings.contains("  data  "), "{}", run.account.findings);
    assert!(run.account.checkers.contains(&sim::Checker::Data));
}

#[test]
fn a_write_that_is_wrong_on_the_disk_is_found_when_it_is_read() {
    const WRITE: u8 = 1;
    let run = run("boot", 1, &[command_fault(WRITE, 20, CommandEffect::CorruptData)]);
    assert!(run.account.findings.contains("  data  "), "{}", run.account.findings);
}

#[test]
fn a_request_that_is_never_answered_is_reported_at_the_end() {
    // The server dies for good with requests in flight.
    let mut scenario = scenario("boot");
    scenario.server.restart.times = 0;
    scenario.faults.push(restarts::crash("nvme-server", restarts::UNDER_LOAD));
    let run = run_with(&scenario, 1, &[]);
    assert!(run.account.findings.contains("liveness"), "{}", run.account.findings);
}

#[test]
fn a_component_that_is_slowed_takes_longer() {
    let took_ns = |faults: &[Fault]| {
        let run = run("boot", 1, faults);
        run.load("alice").expect("the tenant measured").elapsed_ns
    };
    let slow = ComponentFault { component: "nvme-server".into(), effect: ComponentEffect::Slow { percent: 10_000 } };
    assert!(took_ns(&[Fault::Component(slow)]) > 2 * took_ns(&[]));
}

#[test]
fn a_flush_that_lies_is_found_after_the_power_was_lost() {
    const FLUSH: u8 = 0;
    let lie = command_fault(FLUSH, u64::MAX, CommandEffect::Status { sct: 0, sc: 0, dnr: false });
    let findings = |planted: &[Fault]| -> Vec<_> {
        (0..4).map(|seed| run_with(&scenario("power-loss"), seed, planted).account.findings).collect()
    };
    let lies = findings(&[lie]);
    assert!(lies.iter().any(|findings| findings.contains("  data  ")), "{lies:?}");
    assert_eq!(findings(&[]).concat(), "");
}

#[test]
fn missing_completion_is_reported_unless_it_is_planted() {
    const WRITE: u8 = 1;
    let fault = command_fault(WRITE, 1, CommandEffect::DropCompletion);
    let planted = run_with(&scenario("boot"), 1, std::slice::from_ref(&fault));
    let configured = |run: &Run| run.account.findings.contains("should have posted its completion");
    assert!(configured(&planted), "{}", planted.account.findings);
    assert!(!configured(&run("boot", 1, &[fault])));
}

#[test]
fn double_completion_is_reported_unless_it_is_planted() {
    const WRITE: u8 = 1;
    let fault = command_fault(WRITE, 1, CommandEffect::DuplicateCompletion);
    let planted = run_with(&scenario("boot"), 1, std::slice::from_ref(&fault));
    assert!(planted.account.findings.contains("should have been in flight"), "{}", planted.account.findings);
    assert_eq!(run("boot", 1, &[fault]).account.findings, "");
}

#[test]
fn component_with_changed_holdings_is_reported() {
    // The server dies for good, and the PCI server has taken back the capabilities that it had given out.
    let mut scenario = scenario("boot");
    scenario.server.restart.times = 0;
    let planted = run_with(&scenario, 1, &[restarts::crash("nvme-server", restarts::UNDER_LOAD)]);
    assert!(planted.account.findings.contains("capabilities at the end"), "{}", planted.account.findings);
}

#[test]
fn window_of_a_dead_client_is_out_of_reach() {
    // The checkers do not know that it dies, so they compare its holdings with the beginning.
    let run = run_with(&scenario("boot"), 1, &[restarts::crash("alice", 500)]);
    let ended = |report: &Report| match report {
        Report::Session(session) => Some(session.ended_by.to_string()),
        _ => None,
    };
    assert_eq!(run.reports.iter().filter_map(ended).collect::<Vec<_>>(), ["its client died"]);
    assert!(!run.account.findings.contains("in reach of its controller"), "{}", run.account.findings);
}

#[test]
fn misplaced_data_is_found_by_the_authority_checker() {
    const READ: u8 = 2;
    let run = run_with(&scenario("boot"), 1, &[command_fault(READ, 20, CommandEffect::WrongAddress)]);
    assert!(run.account.findings.contains("  authority  "), "{}", run.account.findings);
}

/// The scenario of three tenants with the same work for a quarter of a second.
fn alike() -> Scenario {
    let text = r#"
name = "alike"
description = "Three tenants that are owed the same."
[[controller]]
name = "disk"
[[controller.namespace]]
size = "16M"
[[tenant]]
name = "one"
copies = 3
queue_pairs = 1
depth = 8
extents = [{ first = 0, blocks = 8192 }]
program.name = "bench"
[tenant.program.config]
operations = 0
milliseconds = 250
verify = false
"#;
    Scenario::parse(text, "alike").unwrap()
}

#[test]
fn slow_tenant_is_reported_as_treated_unfairly() {
    const READ: u8 = 2;
    let on_first = |effect| match command_fault(READ, u64::MAX, effect) {
        Fault::Command(fault) => Fault::Command(CommandFault {
            blocks: Some(sim_fault::Blocks { first: 0, count: 8192 }),
            opcodes: Vec::new(),
            ..fault
        }),
        other => other,
    };
    let slow = on_first(CommandEffect::Delay { ns: 1_000_000 });
    let fair = run_with(&alike(), 1, &[]);
    assert_eq!((fair.account.findings.as_str(), passed(&fair)), ("", true));
    let unfair = run_with(&alike(), 1, std::slice::from_ref(&slow));
    let findings = &unfair.account.findings;
    assert!(findings.lines().all(|line| line.contains("  fairness    one-0: it got ")), "{findings}");
    assert!(!findings.is_empty());
    // If the scenario expects unfairness, it is not reported.
    let mut configured = alike();
    configured.faults.push(slow);
    assert_eq!(run_with(&configured, 1, &[]).account.findings, "");
}
