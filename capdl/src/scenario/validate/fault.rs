//! Refusals of faults and kills that cannot happen in this system.

use super::moment::check_when;
use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::{Controller, Kill, QUEUE_PAIRS, Scenario};
use sim_fault::{
    CommandEffect, CommandFault, ComponentEffect, ComponentFault, ControllerEffect, ControllerFault, Fault,
};

/// The rate of a fault that hits every time, per million.
const ALWAYS: u32 = 1_000_000;
/// The largest status code type, and the largest number of a retry delay (base specification 2.0, section 3.3.3.2.1).
const MOST_SCT: u8 = 7;
const MOST_CRD: u8 = 3;

pub(super) fn check(scenario: &Scenario, fault: &Fault, line: usize) -> Checked {
    match fault {
        Fault::Command(fault) => check_command(scenario, fault, line),
        Fault::Controller(fault) => check_controller(scenario, fault, line),
        Fault::Component(fault) => check_component(scenario, fault, line),
    }
}

fn check_command(scenario: &Scenario, fault: &CommandFault, line: usize) -> Checked {
    check_name(scenario, &fault.controller, line)?;
    if fault.per_million == 0 || fault.per_million > ALWAYS {
        return refuse(line, format!("a fault hits {} times in a million: write 1 to {ALWAYS}", fault.per_million));
    }
    if fault.times == Some(0) {
        return refuse(line, "a fault hits 0 times: leave `times` out, or write at least 1".into());
    }
    if fault.until_ns.is_some_and(|until| until <= fault.from_ns) {
        return refuse(line, "a fault ends before it begins: raise `until_ns`".into());
    }
    if fault.blocks.is_some_and(|blocks| blocks.count == 0 || blocks.first.checked_add(blocks.count).is_none()) {
        return refuse(line, "a fault names no blocks: write `blocks = { first = 0, count = 1 }`".into());
    }
    check_effect(fault.effect, line)?;
    let Some(nsid) = fault.nsid else { return Ok(()) };
    let namespaces = named(scenario, &fault.controller).map_or(0, |controller| controller.namespaces.len());
    if nsid == 0 || nsid as usize > namespaces {
        return refuse(
            line,
            format!("a fault names namespace {nsid} and there are {namespaces}: write 1 to {namespaces}"),
        );
    }
    Ok(())
}

/// Checks that the fields of a status have room in a completion, and that a delay is one.
fn check_effect(effect: CommandEffect, line: usize) -> Checked {
    match effect {
        CommandEffect::Status { sct, .. } if sct > MOST_SCT => {
            refuse(line, format!("a fault has the status code type {sct}: write 0 to {MOST_SCT}"))
        }
        CommandEffect::NotNow { crd, .. } if crd > MOST_CRD => {
            refuse(line, format!("a fault names the retry delay {crd}: write 0 to {MOST_CRD}"))
        }
        CommandEffect::Delay { ns: 0 } => refuse(line, "a fault delays by 0 ns: write at least 1".into()),
        _ => Ok(()),
    }
}

fn check_controller(scenario: &Scenario, fault: &ControllerFault, line: usize) -> Checked {
    check_name(scenario, &fault.controller, line)?;
    let controller = named(scenario, &fault.controller);
    let last_vector = controller.map_or(0, |controller| controller.vector_count().saturating_sub(1));
    let last_pair = controller.map_or(0, |controller| last_pair(scenario, controller));
    let (what, number, last) = match fault.effect {
        ControllerEffect::AllOnes { for_ns: Some(0) } => {
            return refuse(line, "a fault lasts 0 ns: write `for_ns` of at least 1, or leave it out for ever".into());
        }
        ControllerEffect::SpuriousInterrupt { vector } => ("vector", vector, last_vector),
        ControllerEffect::StuckQueuePair { pair } => ("queue pair", pair, last_pair),
        _ => return Ok(()),
    };
    if number > last {
        return refuse(line, format!("a fault names {what} {number}, which nobody has: write 0 to {last}"));
    }
    Ok(())
}

/// The number of the last queue pair that tenants have, 0 where they have none.
fn last_pair(scenario: &Scenario, controller: &Controller) -> u16 {
    let functions = if scenario.functions(&controller.name).next().is_some() { QUEUE_PAIRS } else { 0 };
    let served = scenario.queue_pairs(&controller.name).min(controller.server_queue_pairs().into()) as u16;
    served.max(functions)
}

fn check_component(scenario: &Scenario, fault: &ComponentFault, line: usize) -> Checked {
    let name = &fault.component;
    if !scenario.may_have(name) {
        let names = scenario.components().join(", ");
        return refuse(line, format!("a fault names the component `{name}`: write one of {names}"));
    }
    match fault.effect {
        ComponentEffect::Crash { at_await: 0 } => {
            refuse(line, "a component crashes at its await number 0: write at least 1".into())
        }
        ComponentEffect::Slow { percent } if percent < 100 => {
            refuse(line, format!("a component is slowed to {percent} percent: write 100 or more"))
        }
        ComponentEffect::Crash { .. } | ComponentEffect::Slow { .. } => Ok(()),
    }
}

/// Checks that a component can be stopped as the kill says.
pub(super) fn check_kill(scenario: &Scenario, kill: &Kill, line: usize) -> Checked {
    let name = &kill.component;
    if !scenario.may_have(name) {
        let names = scenario.components().join(", ");
        return refuse(line, format!("a kill names the component `{name}`: write one of {names}"));
    }
    check_when(scenario, &kill.when, &format!("`{name}` is killed"), line)?;
    if kill.times == 0 {
        return refuse(line, format!("`{name}` is killed 0 times: leave `times` out, or write at least 1"));
    }
    if (kill.times > 1) != (kill.every_ms > 0) {
        return refuse(
            line,
            format!("`{name}` is killed {} times: write `times` and `every_ms`, or neither", kill.times),
        );
    }
    Ok(())
}

fn check_name(scenario: &Scenario, name: &str, line: usize) -> Checked {
    let names: Vec<_> = scenario.controllers.iter().map(|controller| controller.name.as_str()).collect();
    if named(scenario, name).is_none() {
        return refuse(line, format!("a fault names the controller `{name}`: write one of {}", names.join(", ")));
    }
    Ok(())
}

/// The controller of this name; without a name, the only one.
fn named<'a>(scenario: &'a Scenario, name: &str) -> Option<&'a Controller> {
    match scenario.controllers.as_slice() {
        [only] if name.is_empty() => Some(only),
        controllers => controllers.iter().find(|controller| controller.name == name),
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;
    use std::collections::BTreeSet;

    const SYSTEM: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "disk"
queue_pairs = 4
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
queue_pairs = 1
extents = [{ first = 0, blocks = 64 }]
program.name = "bench"
[tenant.program.config]
[[fault]]
"#;

    fn refusal(fault: &str) -> String {
        Scenario::parse(&format!("{SYSTEM}{fault}"), "file").unwrap_err().to_string()
    }

    #[test]
    fn fault_that_qemu_cannot_make_is_for_the_simulator() {
        let is_alone = |attach: &str, fault: &str| {
            let system = SYSTEM.replace("queue_pairs = 4", &format!("queue_pairs = 4\nattach = \"{attach}\""));
            Scenario::parse(&format!("{system}{fault}"), "file").unwrap().is_simulators_alone()
        };
        let controller = |effect: &str| format!("controller = {{ at_ns = 1, effect = {effect} }}");
        for effect in ["\"fatal-status\"", "{ all-ones = {} }", "{ stuck-queue-pair = { pair = 0 } }"] {
            assert!(!is_alone("root", &controller(effect)), "{effect}");
        }
        let removal = controller("\"removal\"");
        assert!(!is_alone("root-port", &removal) && !is_alone("switch", &removal));
        assert!(is_alone("root", &removal) && is_alone("bridge", &removal), "there is no slot");
        assert!(is_alone("bridge", &controller("{ stuck-queue-pair = { pair = 1 } }")));
        for effect in ["\"never-ready\"", "\"power-loss\"", "{ spurious-interrupt = { vector = 1 } }"] {
            assert!(is_alone("root-port", &controller(effect)), "{effect}");
        }
        assert!(is_alone("root-port", "command = { effect = \"drop-completion\" }"));
        let last = refusal(&controller("{ stuck-queue-pair = { pair = 5 } }"));
        assert!(last.contains("queue pair 5, which nobody has: write 0 to 1"), "{last}");
        let few = SYSTEM.replace("queue_pairs = 4", "queue_pairs = 4\nvectors = 2");
        let text = format!("{few}{}", controller("{ spurious-interrupt = { vector = 2 } }"));
        let last = Scenario::parse(&text, "file").unwrap_err().to_string();
        assert!(last.contains("vector 2, which nobody has: write 0 to 1"), "{last}");
    }

    #[test]
    fn a_kill_names_a_component_and_a_time() {
        let system = SYSTEM.trim_end().trim_end_matches("[[fault]]");
        let refusal =
            |kill: &str| Scenario::parse(&format!("{system}[[kill]]\n{kill}"), "file").unwrap_err().to_string();
        let unknown = refusal("component = \"bob\"\nafter_ms = 5");
        assert!(unknown.starts_with("file:15: ") && unknown.contains("nvme-server, policy, alice"), "{unknown}");
        assert!(refusal("component = \"alice\"\nafter_ms = 0").contains("at least 1"));
        assert!(refusal("component = \"alice\"\nafter_ms = 1\ntimes = 0").contains("at least 1"));
        assert!(refusal("component = \"alice\"\nafter_ms = 1\ntimes = 2").contains("`every_ms`"));
        assert!(refusal("component = \"alice\"\nafter_ms = 1\nevery_ms = 2").contains("or neither"));
        let good = format!("{system}[[kill]]\ncomponent = \"nvme-server\"\nafter_ms = 70");
        assert_eq!(Scenario::parse(&good, "file").unwrap().kills[0].after_us() / 1000, 70);
    }

    #[test]
    fn the_moment_of_a_kill_is_drawn_within_what_the_scenario_says() {
        let system = SYSTEM.trim_end().trim_end_matches("[[fault]]");
        let text = format!("{system}[[kill]]\ncomponent = \"nvme-server\"\nafter_ms = 70\nwithin_ms = 9");
        let scenario = Scenario::parse(&text, "file").unwrap();
        let moments: BTreeSet<u64> = (0..200).map(|seed| scenario.drawn(seed).kills[0].after_us() / 1000).collect();
        assert_eq!(moments, (70..79).collect());
        assert_eq!(scenario.drawn(5), scenario.drawn(5));
    }

    #[test]
    fn faults_that_can_be_are_read() {
        for fault in [
            "command = { effect = \"drop-completion\", nsid = 1, per_million = 5 }",
            "controller = { at_ns = 5, effect = { spurious-interrupt = { vector = 4 } } }",
            "controller = { at_ns = 5, effect = \"power-loss\" }",
            "component = { component = \"nvme-server\", effect = { crash = { at_await = 9 } } }",
        ] {
            assert_eq!(Scenario::parse(&format!("{SYSTEM}{fault}"), "file").unwrap().faults.len(), 1);
        }
    }

    #[test]
    fn a_fault_that_cannot_be_is_refused_with_its_line_and_what_can() {
        for (fault, expected) in [
            ("command = { effect = \"drop-completion\", controller = \"other\" }", "`other`: write one of disk"),
            ("command = { effect = \"drop-completion\", nsid = 2 }", "namespace 2 and there are 1"),
            ("command = { effect = \"drop-completion\", per_million = 0 }", "write 1 to 1000000"),
            ("command = { effect = \"drop-completion\", from_ns = 5, until_ns = 5 }", "ends before it begins"),
            ("command = { effect = \"drop-completion\", blocks = { first = 1, count = 0 } }", "names no blocks"),
            ("command = { effect = \"explode\" }", "stale-phase"),
            ("command = { effect = { status = { sct = 9, sc = 0 } } }", "the status code type 9: write 0 to 7"),
            (
                "command = { effect = { not-now = { status = \"namespace-not-ready\", crd = 4 } } }",
                "the retry delay 4: write 0 to 3",
            ),
            (
                "controller = { at_ns = 5, effect = { spurious-interrupt = { vector = 5 } } }",
                "vector 5, which nobody has: write 0 to 4",
            ),
            (
                "controller = { at_ns = 5, effect = { stuck-queue-pair = { pair = 2 } } }",
                "queue pair 2, which nobody has: write 0 to 1",
            ),
            (
                "controller = { at_ns = 5, effect = { all-ones = { for_ns = 0 } } }",
                "lasts 0 ns: write `for_ns` of at least 1",
            ),
            ("command = { effect = { delay = { ns = 0 } } }", "delays by 0 ns: write at least 1"),
            (
                "controller = { at_ns = 5, controller = \"other\", effect = \"power-loss\" }",
                "`other`: write one of disk",
            ),
            (
                "component = { component = \"bob\", effect = { crash = { at_await = 9 } } }",
                "nvme-server, policy, alice",
            ),
            ("component = { component = \"alice\", effect = { slow = { percent = 9 } } }", "100 or more"),
        ] {
            let refusal = refusal(fault);
            assert!(refusal.starts_with("file:15:") || refusal.starts_with("file:16:"), "{refusal}");
            assert!(refusal.contains(expected), "{refusal}");
        }
    }
}
