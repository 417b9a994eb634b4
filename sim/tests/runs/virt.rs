//! The AArch64 machine: its SMMU stands in front of the device, and the IOMMU server reports the accesses that it stopped.

use super::*;
use capdl::Arch;

const READ: u8 = 2;

/// A tenant that reads into a window of four pages, with six reads in flight in turn, for three ticks.
fn reader_of_pages(arch: Arch) -> Scenario {
    let text = r#"
name = "pages"
description = "A tenant whose every page of the window is read into."
[[controller]]
name = "disk"
attach = "root-port"
[[controller.namespace]]
size = "16M"
content = "pattern"
[[tenant]]
name = "alice"
queue_pairs = 1
depth = 4
window = "16K"
extents = [{ first = 0, blocks = 8192 }]
program.name = "bench"
[tenant.program.config]
operations = 0
milliseconds = 160
depth = 4
read_percent = 100
verify = false
"#;
    let mut scenario = Scenario::parse(text, "pages").unwrap();
    scenario.machine.arch = arch;
    scenario
}

/// Runs a system whose data goes 4 KiB too far: to the next page of the window, or behind its last one, where nothing is mapped.
fn with_data_too_far(arch: Arch) -> Run {
    run_with(&reader_of_pages(arch), 1, &[command_fault(READ, 8, CommandEffect::WrongAddress)])
}

#[test]
fn a_run_on_virt_is_without_findings_and_repeats() {
    let run = || run_with(&reader_of_pages(Arch::Aarch64), 1, &[]);
    let (first, second) = (run(), run());
    assert!(passed(&first) && first.account.commands > 500);
    assert_eq!((first.account.findings.as_str(), first.account.panics.as_slice()), ("", &[][..]));
    assert_eq!(first.account.trace_hash, second.account.trace_hash);
}

#[test]
fn blocked_transfers_are_reported_by_the_iommu_server() {
    let run = with_data_too_far(Arch::Aarch64);
    let found = run.account.findings.matches("the IOMMU stopped a Write").count();
    let blocked = |report: &Report| match report {
        Report::Blocked(blocked) => Some(*blocked),
        _ => None,
    };
    let blocked: Vec<_> = run.reports.iter().filter_map(blocked).collect();
    assert!(found > 0, "{}", run.account.findings);
    assert_eq!(blocked.iter().map(|one| one.times as usize).sum::<usize>(), found, "{blocked:?}");
    for one in &blocked {
        // 01:00.0, behind the port.
        assert_eq!((one.requester_id, one.is_write), (0x0100, true));
        let address = one.address.unwrap();
        assert!(run.account.findings.contains(&format!("Write at {address:#x}")), "{address:#x}");
    }
}

#[test]
fn both_iommus_stop_the_same_transfers() {
    let stopped = |arch| {
        let findings = with_data_too_far(arch).account.findings;
        let stopped = findings.lines().filter_map(|line| line.split_once("the IOMMU stopped a "));
        let mut stopped: Vec<_> = stopped.map(|(_, rest)| rest.to_owned()).collect();
        stopped.sort();
        stopped
    };
    let on_virt = stopped(Arch::Aarch64);
    assert!(!on_virt.is_empty());
    assert_eq!(on_virt, stopped(Arch::X86_64));
}
