//! Judges a scenario with a test component, which must pass all its checks. A probe must report that every attack was refused,
//! and then fault at the right place.
//!
//! Another component that is expected to fault need not pass; the probe must pass all checks before its fault.

use crate::records::results::{Faulted, Results};
use capdl::scenario::PROBE;
use capdl::{Scenario, System};
use workload::LastProbe;

/// The test component's own verdict, if there is one and it has reported.
fn verdict(scenario: &Scenario, results: &Results) -> Option<bool> {
    let tester = scenario.tester()?;
    results.done.iter().find(|(name, _)| *name == tester).map(|(_, passed)| *passed)
}

/// Phrase about a test component that has not finished.
pub fn awaited(scenario: &Scenario, results: &Results) -> Option<String> {
    let tester = scenario.tester().filter(|_| verdict(scenario, results).is_none());
    tester.map(|tester| format!("{tester} has not finished"))
}

/// Whether the test component has reported that it did not pass: waiting cannot improve the result.
pub fn is_lost(scenario: &Scenario, results: &Results) -> bool {
    verdict(scenario, results) == Some(false)
}

/// Violations of the probe, one sentence each.
pub fn violations(scenario: &Scenario, system: &System, results: &Results) -> Vec<String> {
    let Some(probe) = &scenario.probe else { return Vec::new() };
    let mut violations = Vec::new();
    for failure in results.failures.iter().filter(|failure| failure.component == PROBE) {
        violations.push(format!("{PROBE}: {}", failure.reason));
    }
    if is_lost(scenario, results) {
        violations.push(format!("{PROBE} did not pass its own checks"));
    }
    let name = match probe.last {
        LastProbe::Registers => "arena",
        LastProbe::RevokedPage => "pages",
    };
    let environment = system.environments.iter().find(|environment| environment.name == PROBE);
    let Some(region) = environment.and_then(|environment| environment.region(name)) else { return violations };
    for Faulted { fault, .. } in results.faults.iter().filter(|one| one.fault.name == PROBE) {
        let offset = fault.address.checked_sub(region.vaddr.bits());
        if offset.is_none_or(|offset| offset >= region.len) {
            violations.push(format!(
                "{PROBE} faulted at {:#x} and not in what was taken from it, {:#x} and {:#x} bytes on",
                fault.address,
                region.vaddr.bits(),
                region.len
            ));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::{CPtr, Environment, Region, RegionKind, Vaddr};
    use report::{Fault, FaultKind, Report, clip};
    use std::time::Duration;

    fn scenario() -> Scenario {
        let text = "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"1M\"\n\
                    [probe]\nlast = \"registers\"\n[expect]\nfaults = [\"probe\"]\n";
        Scenario::parse(text, "t.toml").unwrap()
    }

    fn system() -> System {
        let region =
            Region { name: clip("arena"), vaddr: Vaddr::new(0x3000_0000), len: 0x1000, kind: RegionKind::Arena };
        let environment = Environment {
            component: 3,
            name: clip(PROBE),
            cnode: None,
            cnode_bits: 4,
            ipc_buffer: Vaddr::new(0),
            free_cptrs: 0..0,
            receive_cptr: None,
            wait: Some(CPtr::new(8)),
            caps: Vec::new(),
            regions: vec![region],
            config: Vec::new(),
        };
        System { specification: Default::default(), data: Vec::new(), environments: vec![environment] }
    }

    fn results(passed: bool, address: u64) -> Results {
        let mut results = Results::default();
        let fault = Fault { component: 3, name: clip(PROBE), kind: FaultKind::Read, address, instruction: 0 };
        for report in [Report::Done { tenant: clip(PROBE), passed }, Report::Fault(fault)] {
            results.add(report, Duration::ZERO);
        }
        results
    }

    #[test]
    fn a_probe_that_is_stopped_where_it_must_be_is_right() {
        assert_eq!(awaited(&scenario(), &Results::default()).as_deref(), Some("probe has not finished"));
        let results = results(true, 0x3000_001c);
        assert_eq!((awaited(&scenario(), &results), is_lost(&scenario(), &results)), (None, false));
        assert!(violations(&scenario(), &system(), &results).is_empty());
    }

    #[test]
    fn an_edu_driver_is_waited_for_and_lost_when_it_does_not_pass() {
        let scenario = Scenario::parse("name = \"t\"\ndescription = \"t\"\n[edu]\n", "t.toml").unwrap();
        assert_eq!(awaited(&scenario, &Results::default()).as_deref(), Some("edu-driver has not finished"));
        let mut results = Results::default();
        results.add(Report::Done { tenant: clip("edu-driver"), passed: false }, Duration::ZERO);
        assert_eq!((awaited(&scenario, &results), is_lost(&scenario, &results)), (None, true));
    }

    #[test]
    fn a_probe_that_did_not_pass_or_faults_elsewhere_is_wrong() {
        assert!(is_lost(&scenario(), &results(false, 0x3000_0000)));
        assert_eq!(
            violations(&scenario(), &system(), &results(false, 0x3000_0000)),
            ["probe did not pass its own checks"]
        );
        for address in [0x2fff_ffff, 0x3000_1000] {
            let violations = violations(&scenario(), &system(), &results(true, address));
            assert!(violations.iter().any(|wrong| wrong.contains("not in what was taken")), "{violations:?}");
        }
    }
}
