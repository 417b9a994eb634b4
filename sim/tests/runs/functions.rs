//! A controller with virtual functions.

use super::{Run, as_written, passed, run_prepared, run_with, scenario};
use capdl::Arch;
use capdl::scenario::Attach;
use report::Report;
use sim::{Defect, Simulation};
use sim_fault::{CommandEffect, CommandFault, Fault, QueueKind};
use std::collections::BTreeSet;

/// Milliseconds of virtual time in which the attacks end.
const ATTACKED_MS: u64 = 20_000;
/// The tenants of the scenario with the attacks.
const ALL: [&str; 4] = ["alice", "frida", "fritz", "mallory"];

#[test]
fn tenant_of_the_server_works_beside_virtual_functions_that_nobody_drives() {
    for (arch, attach) in [(Arch::X86_64, Attach::RootPort), (Arch::Aarch64, Attach::Switch)] {
        let mut scenario = scenario("boot");
        scenario.machine.arch = arch;
        scenario.controllers[0].attach = attach;
        scenario.controllers[0].virtual_functions = 3;
        let run = run_with(&scenario, 1, &[]);
        assert!(passed(&run), "{:?}", run.reports);
        assert_eq!((run.account.findings.as_str(), run.account.panics.as_slice()), ("", &[][..]));
    }
}

/// The scenario in which a tenant attacks with its function, on a machine with a defect and so much memory, until these tenants came
/// to their ends.
fn attacked(defect: Option<Defect>, memory: Option<u64>, awaited: &[&str]) -> Run {
    let mut scenario = scenario("functions-hostile");
    scenario.machine.memory = memory.unwrap_or(scenario.machine.memory);
    let system = capdl::build(&scenario.drawn(1), &sim::programs(scenario.machine.arch)).unwrap();
    let plant = |simulation: &mut Simulation| defect.into_iter().for_each(|defect| simulation.plant(defect));
    let is_end = |done: &[String]| awaited.iter().all(|tenant| done.iter().any(|one| one == tenant));
    run_prepared(&system, &scenario, 1, &[], ATTACKED_MS, plant, is_end)
}

/// The attacks that were not refused.
fn succeeded(run: &Run) -> Vec<&str> {
    let attacks = run.reports.iter().filter_map(|report| match report {
        Report::Attack(attack) if !attack.refused => Some(attack.attack.as_str()),
        _ => None,
    });
    attacks.collect()
}

/// The tenants whose work failed.
fn failed(run: &Run) -> BTreeSet<&str> {
    let failed = run.reports.iter().filter_map(|report| match report {
        Report::Done { tenant, passed: false } => Some(tenant.as_str()),
        _ => None,
    });
    failed.collect()
}

#[test]
fn wrong_answers_to_verify_and_compare_are_noticed() {
    const COMPARE: u8 = 5;
    const VERIFY: u8 = 0x0c;
    let answered = |opcode, (sct, sc)| {
        let effect = CommandEffect::Status { sct, sc, dnr: false };
        let fault = CommandFault { opcodes: vec![opcode], ..CommandFault::new(QueueKind::Io, effect) };
        run_with(&as_written("verify-and-compare"), 1, &[Fault::Command(fault)])
    };
    let (media_error, success) = ((2, 0x81), (0, 0));
    // Faults of commands hit the controller's own queues, so not the function's.
    assert_eq!(failed(&answered(VERIFY, media_error)), BTreeSet::from(["alice"]));
    let blind = answered(COMPARE, success);
    assert_eq!(failed(&blind), BTreeSet::from(["alice"]));
    assert!(blind.account.findings.contains("  data  "), "{}", blind.account.findings);
}

#[test]
fn nothing_that_a_function_does_reaches_its_neighbours() {
    let run = attacked(None, None, &ALL);
    assert!(succeeded(&run).is_empty() && failed(&run).is_empty(), "{:?}", run.reports);
    assert_eq!((run.account.findings.as_str(), run.account.panics.as_slice()), ("", &[][..]));
    let refused = run.reports.iter().filter(|report| matches!(report, Report::Attack(_)));
    assert!(refused.count() > 30);
}

#[test]
fn attacks_by_dma_succeed_behind_an_open_iommu() {
    // There is memory at the addresses of pools, from 1 GiB on. None can be at those of windows, from 4 GiB on.
    let run = attacked(Some(Defect::Iommu), Some(3 << 29), &ALL);
    let attacks = [
        "DMA at its window's physical address",
        "DMA to physical memory around its window",
        "DMA at addresses behind its pool",
        "a list of addresses at a physical address",
        "queues at physical addresses",
    ];
    assert_eq!(succeeded(&run), attacks);
    assert!(failed(&run).contains("mallory"), "{:?}", run.reports);
    assert!(run.account.findings.contains("neither in its server's pool nor in any window"));
}

#[test]
fn commands_to_neighbours_succeed_without_attachments() {
    let run = attacked(Some(Defect::Namespaces), None, &ALL);
    let attacks = ["read", "write", "compare", "zero", "flush", "discard"];
    assert_eq!(succeeded(&run), attacks.map(|verb| format!("{verb} a neighbour's namespace")));
    assert!(failed(&run).contains("mallory"), "{:?}", run.reports);
}

#[test]
fn neighbours_suffer_from_doorbells_that_are_theirs() {
    let neighbours = ["frida", "fritz"];
    let run = attacked(Some(Defect::Doorbells), None, &neighbours);
    assert!(failed(&run).is_superset(&neighbours.into()), "{:?}", run.reports);
    assert!(run.account.findings.contains("  data        fritz: read"), "{}", run.account.findings);
}
