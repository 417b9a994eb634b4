//! Refusals about the PCI tree.

use crate::scenario::file::Lines;
use crate::scenario::pci::BUSES_BELOW_ROOT;
use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::{Path, Scenario};

/// Drivers that the PCI server can tell the supervisor of ([`platform::Badge::silenced`]).
const MAX_DRIVERS: usize = 32;

/// Checks that all drivers can be told apart, and that all buses of the controllers have numbers.
pub(super) fn check(scenario: &Scenario, lines: &Lines) -> Checked {
    let buses: usize = scenario.controllers.iter().map(|controller| controller.attach.buses()).sum();
    let tenants = scenario.tenants.iter().zip(&lines.tenants);
    let functions = tenants.filter(|(tenant, _)| tenant.path == Path::Function).map(|(_, line)| line);
    let drivers: Vec<_> = lines.controllers.iter().chain(functions).collect();
    if let Some(line) = drivers.get(MAX_DRIVERS) {
        return refuse(
            **line,
            format!(
                "{} controllers and {} tenants with functions are {} drivers, of which there can be {MAX_DRIVERS}: leave \
                 some of them out",
                scenario.controllers.len(),
                drivers.len() - scenario.controllers.len(),
                drivers.len()
            ),
        );
    }
    let mut sum = 0;
    for (controller, line) in scenario.controllers.iter().zip(&lines.controllers) {
        sum += controller.attach.buses();
        if sum > BUSES_BELOW_ROOT {
            return refuse(
                *line,
                format!(
                    "the controllers are on {buses} PCI buses below the root bus, of which there are {BUSES_BELOW_ROOT}: \
                     attach some of them to \"root\""
                ),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    /// A scenario with so many controllers at this place, and with these lines about PCI.
    fn parsed(controllers: usize, attach: &str, pci: &str) -> Result<Scenario, String> {
        let mut text = format!("name = \"a\"\ndescription = \"b\"\n{pci}\n");
        for number in 0..controllers {
            text += &format!("[[controller]]\nname = \"c{number}\"\nattach = \"{attach}\"\n");
            text += "[[controller.namespace]]\nsize = \"1M\"\n";
        }
        text += "[[tenant]]\nname = \"alice\"\ncontroller = \"c0\"\nqueue_pairs = 1\n";
        text += "extents = [{ first = 0, blocks = 64 }]\nprogram.name = \"bench\"\n[tenant.program.config]\n";
        Scenario::parse(&text, "a.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn firmware_configures_the_tree_unless_the_server_is_to() {
        assert!(!parsed(1, "root", "").unwrap().pci.assign);
        assert!(!parsed(1, "root", "[pci]").unwrap().pci.assign);
        assert!(parsed(1, "root", "[pci]\nassign = true").unwrap().pci.assign);
    }

    #[test]
    fn who_assigns_is_yes_or_no() {
        let refusal = parsed(1, "root", "[pci]\nassign = \"server\"").unwrap_err();
        assert!(
            refusal.starts_with("a.toml:4: ") && refusal.contains("`assign` is \"server\": write true or false"),
            "{refusal}"
        );
        let refusal = parsed(1, "root", "[pci]\nassigns = true").unwrap_err();
        assert!(refusal.starts_with("a.toml:4: unknown key `assigns`"), "{refusal}");
    }

    #[test]
    fn more_buses_than_there_are_are_refused_with_the_fix() {
        assert!(parsed(5, "switch", "").is_ok());
        assert!(parsed(15, "root-port", "").is_ok());
        assert!(parsed(20, "root", "").is_ok());
        let refusal = parsed(6, "switch", "[pci]\nassign = true").unwrap_err();
        assert!(refusal.contains("18 PCI buses") && refusal.ends_with("attach some of them to \"root\""), "{refusal}");
        assert!(refusal.starts_with("a.toml:30: "), "{refusal}");
        assert!(parsed(16, "bridge", "").is_err());
        assert!(parsed(32, "root", "").is_ok());
        let refusal = parsed(33, "root", "").unwrap_err();
        assert!(refusal.starts_with("a.toml:164: 33 controllers") && refusal.contains("are 33 drivers"), "{refusal}");
    }
}
