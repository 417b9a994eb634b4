//! Refusals about the edu device.

use crate::scenario::Scenario;
use crate::scenario::refusal::{Checked, refuse_file};

/// Checks the scenario as one with an edu device.
pub(super) fn check(scenario: &Scenario) -> Checked {
    if !scenario.controllers.is_empty() || scenario.probe.is_some() {
        return refuse_file(
            "an edu device is in no system with other drivers: remove [edu], or every [[controller]] and [probe]"
                .into(),
        );
    }
    if !scenario.faults.is_empty() || !scenario.kills.is_empty() {
        return refuse_file(
            "an edu device's driver is never started again: remove every [[fault]] and [[kill]]".into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    fn parsed(more: &str) -> Result<Scenario, String> {
        let text = format!("name = \"a\"\ndescription = \"b\"\n{more}\n[edu]\n");
        Scenario::parse(&text, "file").map_err(|error| error.to_string())
    }

    #[test]
    fn a_scenario_with_an_edu_device_has_nothing_else() {
        let scenario = parsed("").unwrap();
        assert_eq!(scenario.programs(), ["console", "pci-server", "edu-driver"]);
        assert_eq!(scenario.components(), ["console", "pci-server", "edu-driver"]);
        let disk = "[[controller]]\nname = \"disk\"\n[[controller.namespace]]\nsize = \"1M\"";
        let refusal = parsed(disk).unwrap_err();
        assert!(refusal.contains("no system with other drivers"), "{refusal}");
        let kill = parsed("[[kill]]\ncomponent = \"edu-driver\"\nafter_ms = 5").unwrap_err();
        assert!(kill.contains("never started again"), "{kill}");
    }
}
