//! Refusals of what a controller is to be after a reset.

use crate::scenario::controller::MAX_SERIAL;
use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::validate::limits::MAX_NAMESPACE;
use crate::scenario::{Controller, Later, Scenario};
use sim_fault::{ControllerEffect, ControllerFault, Happening};

/// Checks the properties that a controller has later.
pub(super) fn check(scenario: &Scenario, controller: &Controller, line: usize) -> Checked {
    let is_announced = |fault: &ControllerFault| fault.effect == ControllerEffect::Event(Happening::NamespaceChanged);
    let at_event = controller.later.iter().any(|later| later.enabling.is_none());
    if at_event && !scenario.faults_of(controller).any(is_announced) {
        let name = &controller.name;
        return refuse(
            line,
            format!(
                "controller `{name}` has `later` without a reset or an event: write `enabling`, or a fault with the effect \
                 {{ event = \"namespace-changed\" }}"
            ),
        );
    }
    controller.later.iter().try_for_each(|later| check_one(controller, later, line))
}

fn check_one(controller: &Controller, later: &Later, line: usize) -> Checked {
    let name = &controller.name;
    let Later { enabling, serial, max_transfer, queue_pairs, nsid, nguid, eui64, size, blank } = later;
    let wrong = |why: String| refuse(line, format!("controller `{name}` has {why}"));
    if let Some(enabling) = enabling.filter(|enabling| *enabling < 2) {
        return wrong(format!("`later` with enabling {enabling}: write 2 or more, since 1 is its first start"));
    }
    if enabling.is_none() && (serial.is_some() || max_transfer.is_some() || queue_pairs.is_some()) {
        return wrong("`later` without a reset that changes more than namespaces: write `enabling`".into());
    }
    let of_namespace = nguid.is_some() || eui64.is_some() || size.is_some() || *blank;
    if !of_namespace && serial.is_none() && max_transfer.is_none() && queue_pairs.is_none() {
        return wrong("`later` that changes nothing: write a property, or leave it out".into());
    }
    if nsid.is_some() && !of_namespace {
        return wrong("`later` with a namespace of which nothing changes: write a property of it".into());
    }
    if serial.as_ref().is_some_and(|serial| serial.is_empty() || serial.len() > MAX_SERIAL || !serial.is_ascii()) {
        return wrong(format!("a later serial number that no disk has: write 1 to {MAX_SERIAL} ASCII characters"));
    }
    if max_transfer.is_some_and(|pages| !(1..=10).contains(&pages)) {
        return wrong("a later max_transfer that is none: write 1 to 10".into());
    }
    if *queue_pairs == Some(0) {
        return wrong("no queue pairs later: write 1 or more".into());
    }
    let namespaces = controller.namespaces.len();
    if let Some(nsid) = nsid.filter(|nsid| *nsid == 0 || *nsid as usize > namespaces) {
        return wrong(format!("`later` for namespace {nsid} and {namespaces} namespaces: write 1 to {namespaces}"));
    }
    if size.is_some_and(|size| size == 0 || size > MAX_NAMESPACE) {
        return wrong(format!("a later size that no namespace has: write 1 to {MAX_NAMESPACE} bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    fn parsed(later: &str) -> Result<Scenario, String> {
        let text = format!(
            "name = \"a\"\ndescription = \"b\"\n[[controller]]\nname = \"disk\"\n[[controller.later]]\n{later}\n\
             [[controller.namespace]]\nsize = \"1M\"\n\
             [[tenant]]\nname = \"alice\"\nqueue_pairs = 2\nextents = [{{ first = 0, blocks = 64 }}]\n\
             program.name = \"bench\"\n[tenant.program.config]\n"
        );
        Scenario::parse(&text, "file").map_err(|error| error.to_string())
    }

    #[test]
    fn a_controller_that_changes_is_the_simulators_alone() {
        let scenario = parsed("enabling = 2\nserial = \"X\"\nsize = \"2M\"\nnguid = 7\nblank = true").unwrap();
        assert!(scenario.is_simulators_alone());
        let later = &scenario.controllers[0].later[0];
        assert_eq!((later.size, later.nguid, later.eui64, later.max_transfer), (Some(2 << 20), Some(7), None, None));
    }

    #[test]
    fn only_namespaces_change_without_a_reset() {
        let event = "[[fault]]\ncontroller = { at_ns = 5, effect = { event = \"namespace-changed\" } }";
        let with_event = |later: &str| parsed(&format!("{later}\n{event}"));
        assert!(with_event("nguid = 7").is_ok());
        assert!(with_event("max_transfer = 1").unwrap_err().ends_with("write `enabling`"));
    }

    #[test]
    fn impossible_changes_are_refused_with_line_and_fix() {
        for (later, expected) in [
            ("enabling = 1\nserial = \"X\"", "write 2 or more, since 1 is its first start"),
            ("nguid = 7", "the effect { event = \"namespace-changed\" }"),
            ("enabling = 2", "write a property, or leave it out"),
            ("enabling = 2\nserial = \"X\"\nnsid = 1", "write a property of it"),
            ("enabling = 2\nserial = \"\"", "write 1 to 20 ASCII characters"),
            ("enabling = 2\nserial = \"123456789012345678901\"", "write 1 to 20 ASCII characters"),
            ("enabling = 2\nmax_transfer = 11", "write 1 to 10"),
            ("enabling = 2\nqueue_pairs = 0", "write 1 or more"),
            ("enabling = 2\nnguid = 1\nnsid = 2", "write 1 to 1"),
            ("enabling = 2\nsize = 0", "write 1 to 1152921504606846976 bytes"),
        ] {
            let refusal = parsed(later).unwrap_err();
            assert!(refusal.starts_with("file:3: ") && refusal.ends_with(expected), "{refusal}");
        }
    }
}
