//! Refusals of virtual functions.

use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::{Attach, Controller, Interrupts};

/// Most virtual functions of a controller: their function numbers are 1 to 7. Further ones would have other device numbers, which
/// a port forwards with ARI alone (PCIe base specification, section 6.13), and the PCI server does not enable that.
const MOST_FUNCTIONS: u16 = 7;
/// Fewest I/O queue pairs that QEMU's controller keeps for itself beside virtual functions.
const LEAST_SERVER_QUEUE_PAIRS: u16 = 2;

/// Checks that a controller can have its virtual functions.
pub(super) fn check(controller: &Controller, line: usize) -> Checked {
    let Controller { name, attach, queue_pairs, virtual_functions, quirks, .. } = controller;
    let left = (1u32..).zip(&controller.namespaces).find(|(nsid, namespace)| {
        let function = u16::from(namespace.model.left_attached_to);
        function > if *nsid == 1 { 0 } else { *virtual_functions }
    });
    if let Some((nsid, namespace)) = left {
        return refuse(
            line,
            format!(
                "namespace {nsid} of `{name}` has left_attached_to = {}, but namespace 1 is the server's and `{name}` has \
                 {virtual_functions} virtual functions: name one of these for another namespace",
                namespace.model.left_attached_to
            ),
        );
    }
    if *virtual_functions == 0 {
        return Ok(());
    }
    if *virtual_functions > MOST_FUNCTIONS {
        return refuse(
            line,
            format!("controller `{name}` has {virtual_functions} virtual functions: give it {MOST_FUNCTIONS} at most"),
        );
    }
    if !matches!(attach, Attach::RootPort | Attach::Switch) {
        return refuse(
            line,
            format!(
                "controller `{name}` has virtual functions, which need a PCI Express port above: attach it to \"root-port\" or \
                 \"switch\""
            ),
        );
    }
    if controller.ways().any(|way| way == Interrupts::Msi) {
        return refuse(
            line,
            format!(
                "controller `{name}` has virtual functions and MSI, but only one of them is possible: write interrupts = \"msix\" \
                 or \"intx\""
            ),
        );
    }
    if !quirks.is_empty() {
        return refuse(
            line,
            format!(
                "controller `{name}` has virtual functions and quirks, which the functions' clients do not allow for: leave one of \
                 them out"
            ),
        );
    }
    let least = controller.flexible_queues().saturating_add(LEAST_SERVER_QUEUE_PAIRS);
    if *queue_pairs < least {
        return refuse(
            line,
            format!(
                "controller `{name}` has {queue_pairs} queue pairs, too few for {virtual_functions} virtual functions: give it \
                 {least} or more"
            ),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    fn parsed(controller: &str, tenants: &str) -> Result<Scenario, String> {
        let text = format!(
            "name = \"a\"\ndescription = \"b\"\n[[controller]]\nname = \"disk\"\n{controller}\n\
             [[controller.namespace]]\nsize = \"1M\"\n[[controller.namespace]]\nsize = \"1M\"\n{tenants}\n\
             [[tenant]]\nname = \"alice\"\nqueue_pairs = 2\nextents = [{{ first = 0, blocks = 64 }}]\n\
             program.name = \"bench\"\n[tenant.program.config]\n"
        );
        Scenario::parse(&text, "file").map_err(|error| error.to_string())
    }

    #[test]
    fn a_controller_has_no_virtual_functions_unless_its_scenario_says_so() {
        let scenario = parsed("", "").unwrap();
        let disk = &scenario.controllers[0];
        assert_eq!((disk.virtual_functions, disk.flexible_queues(), disk.server_queue_pairs()), (0, 0, 64));
        assert!(disk.is_attached(1) && disk.is_attached(2) && !scenario.assigns_addresses());
    }

    #[test]
    fn virtual_functions_have_queue_pairs_and_namespaces_of_their_own() {
        let scenario = parsed("virtual_functions = 3\nqueue_pairs = 8", "").unwrap();
        let disk = &scenario.controllers[0];
        assert_eq!((disk.flexible_queues(), disk.server_queue_pairs()), (6, 2));
        assert!(disk.is_attached(1) && !disk.is_attached(2));
    }

    #[test]
    fn firmware_places_no_virtual_functions_so_the_pci_server_does() {
        let scenario = parsed("virtual_functions = 1", "").unwrap();
        assert!(!scenario.pci.assign && scenario.assigns_addresses());
    }

    #[test]
    fn a_controller_in_any_slot_can_have_as_many_as_there_are_function_numbers() {
        for attach in ["root-port", "switch"] {
            assert!(parsed(&format!("virtual_functions = 7\nattach = \"{attach}\""), "").is_ok());
        }
    }

    #[test]
    fn impossible_virtual_functions_are_refused_with_line_and_fix() {
        for (controller, expected) in [
            ("virtual_functions = 8", "`disk` has 8 virtual functions: give it 7 at most"),
            ("virtual_functions = 65535", "give it 7 at most"),
            ("virtual_functions = 1\nattach = \"bridge\"", "attach it to \"root-port\" or \"switch\""),
            ("virtual_functions = 1\nattach = \"root\"", "attach it to \"root-port\" or \"switch\""),
            ("virtual_functions = 1\ninterrupts = \"msi\"", "write interrupts = \"msix\" or \"intx\""),
            ("virtual_functions = 1\nquirks = [\"nguid-changes-at-reset\"]", "leave one of them out"),
            ("virtual_functions = 2\nqueue_pairs = 5", "too few for 2 virtual functions: give it 6 or more"),
        ] {
            let refusal = parsed(controller, "").unwrap_err();
            assert!(refusal.starts_with("file:3: ") && refusal.ends_with(expected), "{refusal}");
        }
    }

    #[test]
    fn namespace_can_be_left_at_a_virtual_function_that_is_there() {
        let left = |number| {
            format!(
                "virtual_functions = 2\n[[controller.namespace]]\nsize = \"1M\"\n\
                 [[controller.namespace]]\nsize = \"1M\"\nmodel = {{ left_attached_to = {number} }}"
            )
        };
        let scenario = parsed(&left(2), "").unwrap();
        assert_eq!([1, 2, 3].map(|nsid| scenario.controllers[0].attachment(nsid)), [Some(0), Some(2), None]);
        let refusal = parsed(&left(3), "").unwrap_err();
        assert!(refusal.contains("left_attached_to = 3") && refusal.contains("has 2 virtual functions"), "{refusal}");
        let of_the_server =
            "virtual_functions = 1\n[[controller.namespace]]\nsize = \"1M\"\nmodel = { left_attached_to = 1 }";
        assert!(parsed(of_the_server, "").unwrap_err().contains("namespace 1 of `disk`"));
    }

    #[test]
    fn tenants_of_the_server_have_the_queue_pairs_that_functions_leave() {
        let bob = "[[tenant]]\nname = \"bob\"\nqueue_pairs = 3\nextents = [{ first = 64, blocks = 64 }]\n\
                   program.name = \"bench\"\n[tenant.program.config]";
        assert!(parsed("virtual_functions = 2\nqueue_pairs = 9", bob).is_ok());
        let refusal = parsed("virtual_functions = 2\nqueue_pairs = 8", bob).unwrap_err();
        assert!(refusal.contains("wants 2 queue pairs but controller `disk` has 1 of 4 left"), "{refusal}");
    }
}
