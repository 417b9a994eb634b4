//! A controller whose interrupt mode changes, and components that die at that time.

use super::restarts::{everybody_passed, started_again};
use super::{Run, run_with};
use capdl::Scenario;
use capdl::scenario::Kill;
use report::{Interrupts, Report};

/// A little before the policy component orders the change.
const ORDERED_US: u32 = 39_800;
/// Upper limit on the duration of the change.
const TAKES_US: u32 = 3_000;

/// Two tenants that verify their reads, while their controller goes from the pin to messages.
fn changing(to: &str) -> Scenario {
    let text = format!(
        r#"
name = "changing"
description = "A controller whose interrupt mode changes."
[[controller]]
name = "disk"
interrupts = "intx"
iops_limit = 50000
[[controller.change]]
after_ms = 40
interrupts = "{to}"
[[controller.namespace]]
size = "16M"
content = "pattern"
[[tenant]]
name = "one"
copies = 2
queue_pairs = 2
depth = 4
extents = [{{ first = 0, blocks = 8192 }}]
program.name = "bench"
[tenant.program.config]
operations = 0
milliseconds = 80
depth = 6
read_percent = 60
max_block_bytes = 65536
"#
    );
    Scenario::parse(&text, "changing").unwrap()
}

fn changes(run: &Run) -> Vec<String> {
    let to = |report: &Report| match report {
        Report::InterruptsChange(change) => Some(change.to.to_string()),
        _ => None,
    };
    run.reports.iter().filter_map(to).collect()
}

fn interrupts(run: &Run) -> Vec<Interrupts> {
    let of = |report: &Report| match report {
        Report::Session(session) => Some(session.interrupts),
        _ => None,
    };
    run.reports.iter().filter_map(of).collect()
}

#[test]
fn sessions_see_both_interrupt_modes_and_a_short_change() {
    for (to, name) in [("msix", "MSI-X"), ("msi", "MSI")] {
        let scenario = changing(to);
        let run = run_with(&scenario, 1, &[]);
        assert!(everybody_passed(&run, &scenario), "{:?}", run.reports);
        assert_eq!((run.account.findings.as_str(), changes(&run)), ("", vec![name.to_owned()]));
        for counts in interrupts(&run) {
            let messages = if to == "msi" { counts.msi } else { counts.msix };
            assert!(counts.intx > 100 && messages > 100, "{counts:?}");
            assert_eq!(counts.total(), counts.intx + messages);
        }
        let took = run.reports.iter().find_map(|report| match report {
            Report::InterruptsChange(change) => Some(change.took_ns),
            _ => None,
        });
        assert!(took.is_some_and(|took| took < u64::from(TAKES_US) * 1000), "{took:?}");
    }
}

#[test]
fn change_is_made_although_a_component_dies_during_it() {
    for component in ["nvme-server", "pci-server", "policy"] {
        let mut died = 0;
        for (seed, offset_us) in (1..).zip((0..TAKES_US).step_by(50)) {
            let mut scenario = changing("msi");
            let at_us = ORDERED_US + offset_us;
            scenario.kills.push(Kill::new(component, at_us / 1000));
            // A scenario can only give whole milliseconds; the rest is drawn by a run.
            let mut configured = scenario.clone();
            configured.kills[0].drawn_us = at_us % 1000;
            let run = run_drawn(&configured, &scenario, seed);
            let what = format!("{component} {offset_us} us after the order");
            assert_eq!(run.account.findings, "", "{what}");
            assert!(everybody_passed(&run, &scenario), "{what}: {:?}", run.reports);
            died += u32::from(started_again(&run).iter().any(|name| name == component));
            // A policy component that died may have reported it already, and its next incarnation reports it again.
            let changes = changes(&run);
            assert!(!changes.is_empty() && changes.iter().all(|to| to == "MSI"), "{what}: {changes:?}");
        }
        assert!(died > 40, "{component} died {died} times");
    }
}

/// Runs a system whose kills come at the times that `configured` has drawn.
fn run_drawn(configured: &Scenario, scenario: &Scenario, seed: u64) -> Run {
    super::run_built(
        &capdl::build(configured, &sim::programs(configured.machine.arch)).unwrap(),
        scenario,
        seed,
        &[],
        super::LONGEST_MS,
    )
}
