//! Refusals about the probe.

use crate::scenario::refusal::{Checked, refuse_file};
use crate::scenario::{Backend, PROBE, Probe, Scenario};

/// Blocks the probe writes, from the first on.
const BLOCKS: u64 = 2;
/// Largest memory of a machine with a probe: its memory then has none of the addresses that the probe uses for the device.
const MAX_MEMORY: u64 = 256 << 20;

/// Checks the scenario as one with `probe`.
pub(super) fn check(scenario: &Scenario, probe: &Probe) -> Checked {
    if !scenario.tenants.is_empty() {
        return refuse_file("a probe is never beside tenants: remove [probe] or every [[tenant]]".into());
    }
    let [controller] = scenario.controllers.as_slice() else {
        return refuse_file("a scenario with a probe has one controller: remove the others".into());
    };
    if controller.name != probe.controller {
        return refuse_file(format!(
            "[probe] names the controller `{}`, which is not there: name `{}`",
            probe.controller, controller.name
        ));
    }
    let namespace = controller.namespaces.first();
    if !namespace.is_some_and(|namespace| namespace.blocks() >= BLOCKS && namespace.backend == Backend::File) {
        return refuse_file(format!(
            "the probe needs a file of {BLOCKS} blocks as namespace 1 of `{}`: give it one",
            controller.name
        ));
    }
    if !scenario.machine.iommu {
        return refuse_file("[machine] iommu is false, and the probe tries what an IOMMU stops: leave it out".into());
    }
    if scenario.machine.memory > MAX_MEMORY {
        return refuse_file("[machine] memory exceeds the 256M of a scenario with a probe: lower it".into());
    }
    if !scenario.expect.faults.iter().any(|name| name == PROBE) {
        return refuse_file(format!("[expect] faults does not name `{PROBE}`, whose last access is a fault: add it"));
    }
    Ok(())
}
