//! Refusals about changes of a controller's interrupt mode.

use super::moment::check_when;
use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::{Controller, Scenario, When};
use std::collections::BTreeSet;

/// Checks that each change has a time of its own and a policy component to order it.
pub(super) fn check(scenario: &Scenario, controller: &Controller, line: usize) -> Checked {
    let name = &controller.name;
    if scenario.probe.is_some() && !controller.changes.is_empty() {
        return refuse(
            line,
            format!(
                "controller `{name}` changes beside a probe, which it has nobody for: remove its [[controller.change]]"
            ),
        );
    }
    let mut times = BTreeSet::new();
    for change in &controller.changes {
        check_when(scenario, &change.when, &format!("controller `{name}` changes"), line)?;
        let When { at, after_ms } = &change.when;
        if !times.insert((at, after_ms)) {
            return refuse(
                line,
                format!("controller `{name}` changes twice after {after_ms} ms: give each change a time of its own"),
            );
        }
    }
    let named = controller.changes.iter().filter(|change| change.when.at.is_some()).count();
    if named > 0 && named < controller.changes.len() {
        return refuse(
            line,
            format!("controller `{name}` has changes at moments and others: name a moment for each, or for none"),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Interrupts, Scenario};

    fn parsed(changes: &str) -> Result<Scenario, String> {
        let text = format!(
            "name = \"a\"\ndescription = \"b\"\n[[controller]]\nname = \"disk\"\ninterrupts = \"intx\"\n\
             [[controller.namespace]]\nsize = \"1M\"\n{changes}\n[[tenant]]\nname = \"alice\"\nqueue_pairs = 1\n\
             extents = [{{ first = 0, blocks = 64 }}]\nprogram.name = \"bench\"\n[tenant.program.config]\n"
        );
        Scenario::parse(&text, "file").map_err(|error| error.to_string())
    }

    fn change(after_ms: u32, interrupts: &str) -> String {
        format!("[[controller.change]]\nafter_ms = {after_ms}\ninterrupts = \"{interrupts}\"\n")
    }

    #[test]
    fn a_controller_with_msi_at_any_time_is_the_simulators() {
        let on_both = parsed(&(change(5, "msix") + &change(9, "intx"))).unwrap();
        assert!(!on_both.is_simulators_alone());
        let ways: Vec<_> = on_both.controllers[0].ways().collect();
        assert_eq!(ways, [Interrupts::Intx, Interrupts::Msix, Interrupts::Intx]);
        assert!(parsed(&change(5, "msi")).unwrap().is_simulators_alone());
    }

    #[test]
    fn impossible_change_is_refused_with_line_and_fix() {
        for (changes, expected) in [
            (change(0, "msix"), "`disk` changes after 0 ms: write at least 1"),
            (change(5, "msix") + &change(5, "intx"), "twice after 5 ms: give each change a time of its own"),
        ] {
            let refusal = parsed(&changes).unwrap_err();
            assert!(refusal.starts_with("file:3: ") && refusal.contains(expected), "{refusal}");
        }
        let refusal = parsed(&change(5, "pin")).unwrap_err();
        assert!(refusal.contains("pin") && refusal.contains("write one of msix, msi, intx"), "{refusal}");
    }
}
