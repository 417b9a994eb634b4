//! Refusals of hot plug.

use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::{Action, Attach, Controller, HotPlug, Scenario, Tenant};
use std::collections::BTreeMap;

/// Checks that a controller can come and go.
pub(super) fn check_controller(scenario: &Scenario, controller: &Controller, line: usize) -> Checked {
    let Controller { name, hot_plug, attach, virtual_functions, .. } = controller;
    if !hot_plug {
        return Ok(());
    }
    if *attach != Attach::RootPort {
        return refuse(
            line,
            format!(
                "controller `{name}` has hot_plug, and its place has no slot that the PCI server handles: attach it to \
                 \"root-port\""
            ),
        );
    }
    if *virtual_functions > 0 {
        return refuse(line, format!("controller `{name}` has hot_plug and virtual functions: leave one of them out"));
    }
    if scenario.tester().is_some() {
        return refuse(
            line,
            format!("controller `{name}` has hot_plug, and its driver is a test component: leave hot_plug out"),
        );
    }
    Ok(())
}

/// Checks that a tenant that waits has a controller that can go.
pub(super) fn check_tenant(scenario: &Scenario, tenant: &Tenant, line: usize) -> Checked {
    let Tenant { name, waits, controller, .. } = tenant;
    let can_go = scenario.controller(controller).is_some_and(|(_, controller)| controller.hot_plug);
    if *waits && !can_go {
        return refuse(
            line,
            format!(
                "tenant `{name}` waits for a controller that cannot go: leave waits out, or write hot_plug = true at \
                 `{controller}`"
            ),
        );
    }
    Ok(())
}

/// Checks that each event can happen: the controller is in its slot, or not, by the events before.
pub(super) fn check_events(scenario: &Scenario, lines: &[usize]) -> Checked {
    let mut last: BTreeMap<&str, (Action, u32)> = BTreeMap::new();
    for (event, line) in scenario.hot_plugs.iter().zip(lines) {
        let name = event.controller.as_str();
        let Some((_, controller)) = scenario.controller(name) else {
            let names: Vec<_> = scenario.controllers.iter().map(|controller| controller.name.as_str()).collect();
            return refuse(
                *line,
                format!("[[hotplug]] names the controller `{name}`: write one of {}", names.join(", ")),
            );
        };
        if !controller.hot_plug {
            return refuse(
                *line,
                format!(
                    "[[hotplug]] names `{name}`, which cannot come or go: write hot_plug = true at that controller"
                ),
            );
        }
        let (after_ms, action) = (event.after_ms, event.action.name());
        if event.other {
            check_other(scenario, event, last.contains_key(name), *line)?;
        }
        if after_ms == 0 {
            return refuse(*line, format!("[[hotplug]] has `{action}` of `{name}` after 0 ms: write at least 1"));
        }
        if let Some((before, before_ms)) = last.insert(name, (event.action, after_ms)) {
            let is_there = before == Action::Insert;
            if is_there == (event.action == Action::Insert) {
                let state = if is_there { "in its slot" } else { "not in its slot" };
                let other = if is_there { "\"remove\" or \"pull\"" } else { "\"insert\"" };
                return refuse(
                    *line,
                    format!("[[hotplug]] has `{action}` of `{name}`, which is {state} by then: write {other}"),
                );
            }
            if after_ms == before_ms {
                return refuse(
                    *line,
                    format!(
                        "[[hotplug]] has `{action}` and `{}` of `{name}` both after {after_ms} ms: write another time",
                        before.name()
                    ),
                );
            }
        }
    }
    Ok(())
}

/// Checks that another controller can take the place of the one that an event names.
fn check_other(scenario: &Scenario, event: &HotPlug, was_there: bool, line: usize) -> Checked {
    let (name, action) = (&event.controller, event.action.name());
    if event.action != Action::Insert {
        return refuse(line, format!("[[hotplug]] has `{action}` of `{name}` with other: leave other out"));
    }
    if !was_there {
        return refuse(
            line,
            format!(
                "[[hotplug]] inserts another controller than `{name}`, which was not there before: leave other out"
            ),
        );
    }
    if let Some(tenant) = scenario.sessions(name).find(|tenant| tenant.restart.is_some()) {
        return refuse(
            line,
            format!(
                "[[hotplug]] inserts another controller than `{name}`, whose blocks the restarted tenant `{}` would take \
                 for its own: leave other out, or the tenant's restart",
                tenant.name
            ),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_events;
    use crate::scenario::{Restart, Scenario};

    fn parsed(controller: &str, events: &[(&str, u32, &str)]) -> Result<Scenario, String> {
        let event = |(controller, after_ms, action): &(&str, u32, &str)| {
            format!("[[hotplug]]\ncontroller = \"{controller}\"\nafter_ms = {after_ms}\naction = \"{action}\"\n")
        };
        let events: String = events.iter().map(event).collect();
        let text = format!(
            "name = \"a\"\ndescription = \"b\"\n[[controller]]\nname = \"c\"\n{controller}\n[[controller.namespace]]\n\
             size = \"1M\"\n[[controller]]\nname = \"stays\"\n[[controller.namespace]]\nsize = \"1M\"\n[[tenant]]\n\
             name = \"w\"\ncontroller = \"c\"\nqueue_pairs = 1\nextents = [{{ first = 0, blocks = 64 }}]\n\
             program.name = \"bench\"\n[tenant.program.config]\n{events}"
        );
        Scenario::parse(&text, "t.toml").map_err(|error| error.to_string())
    }

    const CAN: &str = "hot_plug = true";
    /// The rest of the line becomes a comment.
    const OTHER: &str = "insert\"\nother = true # ";
    const OTHER_PULL: &str = "pull\"\nother = true # ";

    #[test]
    fn events_in_any_order_of_the_file_are_taken_by_their_times() {
        let scenario = parsed(CAN, &[("c", 3000, "insert"), ("c", 100, "pull"), ("c", 4000, "remove")]).unwrap();
        assert_eq!(scenario.hot_plugs.iter().map(|event| event.after_ms).collect::<Vec<_>>(), [100, 3000, 4000]);
        assert!(scenario.is_there_at_first(0));
        assert!(!parsed(CAN, &[("c", 10, "insert")]).unwrap().is_there_at_first(0));
    }

    #[test]
    fn what_cannot_happen_is_refused_with_the_mend() {
        let refusals = [
            ("", &[("c", 5, "pull")][..], "which cannot come or go: write hot_plug = true"),
            (CAN, &[("d", 5, "pull")], "names the controller `d`: write one of c, stays"),
            (CAN, &[("stays", 5, "pull")], "which cannot come or go"),
            (CAN, &[("c", 0, "pull")], "after 0 ms: write at least 1"),
            (CAN, &[("c", 5, "insert"), ("c", 9, "insert")], "is in its slot by then: write \"remove\" or \"pull\""),
            (CAN, &[("c", 5, "pull"), ("c", 9, "remove")], "is not in its slot by then: write \"insert\""),
            (CAN, &[("c", 5, "pull"), ("c", 5, "insert")], "`insert` and `pull` of `c` both after 5 ms"),
            (CAN, &[("c", 5, "vanish")], "unknown value `vanish`"),
            (CAN, &[("c", 5, OTHER)], "which was not there before: leave other out"),
            (CAN, &[("c", 5, OTHER_PULL)], "has `pull` of `c` with other: leave other out"),
            ("hot_plug = true\nserial = \"S\"", &[("c", 5, "pull"), ("c", 6, OTHER), ("c", 7, OTHER)], "by then"),
            ("hot_plug = true\nattach = \"bridge\"", &[], "attach it to \"root-port\""),
            ("hot_plug = true\nattach = \"root\"", &[], "attach it to \"root-port\""),
            ("hot_plug = true\nvirtual_functions = 2", &[], "leave one of them out"),
        ];
        for (controller, events, sentence) in refusals {
            let error = parsed(controller, events).expect_err(sentence);
            assert!(error.contains(sentence), "{error}");
            assert!(error.starts_with("t.toml:"), "{error}");
        }
        assert!(parsed(CAN, &[("c", 5, "remove"), ("c", 6, "insert")]).is_ok());
        let exchanged =
            parsed(CAN, &[("c", 5, "remove"), ("c", 6, OTHER), ("c", 7, "pull"), ("c", 8, "insert")]).unwrap();
        assert_eq!(
            exchanged.hot_plugs.iter().map(|event| event.other).collect::<Vec<_>>(),
            [false, true, false, false]
        );
    }

    #[test]
    fn an_event_that_is_repeated_takes_turns_with_another() {
        let repeated =
            |action: &str, times: u32, every_ms: u32| format!("{action}\"\ntimes = {times}\nevery_ms = {every_ms} # ");
        let cycles = |times, every_ms| {
            let (pull, insert) = (repeated("pull", times, every_ms), repeated("insert", times, every_ms));
            parsed(CAN, &[("c", 100, &pull), ("c", 300, &insert)])
        };
        let scenario = cycles(3, 1000).unwrap();
        let events: Vec<_> = scenario.hot_plugs.iter().map(|event| (event.after_ms, event.action.name())).collect();
        let turns =
            [(100, "pull"), (300, "insert"), (1100, "pull"), (1300, "insert"), (2100, "pull"), (2300, "insert")];
        assert_eq!(events, turns);
        let refusals = [
            (0, 5, "`pull` of `c` 0 times: write at least 1"),
            (1, 5, "once, and every_ms: leave it out"),
            (2, 0, "not how far apart: write every_ms"),
            (3, u32::MAX / 2, "lower times or every_ms"),
            (2, 100, "has `pull` of `c`, which is not in its slot by then"),
        ];
        for (times, every_ms, sentence) in refusals {
            let error = cycles(times, every_ms).expect_err(sentence);
            assert!(error.contains(sentence) && error.starts_with("t.toml:"), "{error}");
        }
    }

    #[test]
    fn a_restarted_tenant_would_take_other_blocks_for_its_own() {
        let mut scenario = parsed(CAN, &[("c", 5, "pull"), ("c", 6, OTHER)]).unwrap();
        assert!(check_events(&scenario, &[1, 2]).is_ok());
        scenario.tenants[0].restart = Some(Restart::default());
        let refusal = check_events(&scenario, &[1, 2]).unwrap_err();
        assert_eq!(refusal.line, Some(2));
        assert!(refusal.message.ends_with("leave other out, or the tenant's restart"), "{}", refusal.message);
    }

    #[test]
    fn another_controller_has_another_serial_number_of_the_same_size() {
        let serial =
            |serial: &str| parsed(&format!("{CAN}\nserial = \"{serial}\""), &[]).unwrap().controllers[0].other_serial();
        assert_eq!(serial("S1"), "S1-2");
        assert_eq!(serial("123456789012345678ab"), "123456789012345678-2");
        assert_eq!(serial("123456789012345678-2"), "123456789012345678-3");
    }
}
