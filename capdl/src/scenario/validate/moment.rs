//! Refusals of moments that never come, and of events that wait for one that is not there.

use crate::scenario::file::Lines;
use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::validate::names::{check_name, check_unique};
use crate::scenario::{Scenario, When, Workload};
use report::milestones::MOST_MOMENTS;
use std::collections::BTreeSet;

/// Longest name of a moment.
const MAX_NAME: usize = 40;

/// Checks the moments, and those that tenants name.
pub(super) fn check(scenario: &Scenario, lines: &Lines) -> Checked {
    let mut names = BTreeSet::new();
    for (moment, line) in scenario.moments.iter().zip(&lines.moments) {
        let name = &moment.name;
        check_name("moment", name, MAX_NAME, *line)?;
        check_unique("moment", name, &mut names, *line)?;
        if moment.when.values().all(|marks| marks.is_empty()) {
            return refuse(
                *line,
                format!("moment `{name}` waits for nothing: write `when = {{ alice = {{ verified = 1 }} }}`"),
            );
        }
        for (component, marks) in &moment.when {
            if !scenario.may_have(component) {
                let all = scenario.components().join(", ");
                return refuse(*line, format!("moment `{name}` names the component `{component}`: write one of {all}"));
            }
            let is_tenant = scenario.tenants.iter().any(|tenant| tenant.name == *component);
            if !is_tenant && marks.keys().any(|mark| mark.is_clients()) {
                return refuse(
                    *line,
                    format!("moment `{name}` counts what tenants do of `{component}`: write `deaths` or `restarts`"),
                );
            }
            if marks.values().any(|times| *times == 0) {
                return refuse(
                    *line,
                    format!("moment `{name}` waits for something of `{component}` 0 times: write at least 1"),
                );
            }
        }
    }
    let controllers = scenario.controllers.iter().map(|controller| controller.changes.len()).sum::<usize>();
    let all = scenario.moments.len() + scenario.changes.len() + controllers + scenario.kills.len();
    if all > usize::from(MOST_MOMENTS) {
        let message =
            format!("there are {all} moments, changes and kills, and {MOST_MOMENTS} are the most: leave some out");
        return Err(super::Refusal { line: lines.moments.last().copied(), message });
    }
    for (tenant, line) in scenario.tenants.iter().zip(&lines.tenants) {
        let name = &tenant.name;
        for moment in [&tenant.opens, &tenant.begins, &tenant.ends].into_iter().flatten() {
            check_named(scenario, moment, &format!("tenant `{name}` waits for"), *line)?;
        }
        let can_end = matches!(tenant.workload, Workload::Bench(_));
        if tenant.ends.is_some() && !can_end {
            return refuse(
                *line,
                format!(
                    "tenant `{name}` has the program `{}`, which ends by itself: leave `ends` out",
                    tenant.workload.program()
                ),
            );
        }
    }
    Ok(())
}

/// Checks the time of an event. A refusal begins with `whom`, as in "tenant `alice` changes".
pub(super) fn check_when(scenario: &Scenario, when: &When, whom: &str, line: usize) -> Checked {
    if when.is_start() {
        return refuse(line, format!("{whom} after 0 ms: write at least 1, or name a moment: `at = \"…\"`"));
    }
    when.at.iter().try_for_each(|moment| check_named(scenario, moment, &format!("{whom} at"), line))
}

fn check_named(scenario: &Scenario, moment: &str, event: &str, line: usize) -> Checked {
    if scenario.moments.iter().any(|one| one.name == moment) {
        return Ok(());
    }
    refuse(line, format!("{event} the moment `{moment}`, which is not there: add a [[moment]] of that name"))
}

#[cfg(test)]
mod tests {
    use crate::Scenario;
    use crate::scenario::When;

    const SYSTEM: &str = "name = \"a\"\ndescription = \"b\"\n[[controller]]\nname = \"disk\"\n[[controller.namespace]]\n\
        size = \"1M\"\n[[tenant]]\nname = \"alice\"\nqueue_pairs = 1\nextents = [{ first = 0, blocks = 64 }]\n";

    fn parsed(tenant: &str, rest: &str) -> Result<Scenario, String> {
        let text = format!("{SYSTEM}{tenant}\nprogram.name = \"bench\"\n{rest}");
        Scenario::parse(&text, "file").map_err(|error| error.to_string())
    }

    const MOMENT: &str =
        "[[moment]]\nname = \"now\"\nwhen = { alice = { verified = 2 }, nvme-server = { restarts = 1 } }\n";

    #[test]
    fn events_and_loads_wait_for_a_moment() {
        let kill = "[[kill]]\ncomponent = \"alice\"\nat = \"now\"\nafter_ms = 5\n";
        let change = "[[change]]\ntenant = \"alice\"\nat = \"now\"\nweight = 2\n";
        let scenario = parsed("ends = \"now\"", &format!("{MOMENT}{kill}{change}")).unwrap();
        assert_eq!(scenario.kills[0].when, When { at: Some("now".into()), after_ms: 5 });
        assert_eq!(scenario.changes[0].when, When { at: Some("now".into()), after_ms: 0 });
        assert_eq!(scenario.tenants[0].ends.as_deref(), Some("now"));
    }

    #[test]
    fn impossible_moment_is_refused_with_the_mend() {
        let when = |when: &str| format!("[[moment]]\nname = \"now\"\nwhen = {{ {when} }}\n");
        for (tenant, rest, expected) in [
            ("", when(""), "waits for nothing: write `when"),
            ("", when("bob = { verified = 1 }"), "names the component `bob`: write one of"),
            ("", when("nvme-server = { verified = 1 }"), "write `deaths` or `restarts`"),
            ("", when("alice = { verified = 0 }"), "0 times: write at least 1"),
            ("", when("alice = { seen = 1 }"), "unknown value `seen`"),
            ("", format!("{MOMENT}{MOMENT}"), "moment `now` is there twice"),
            (
                "begins = \"then\"",
                String::new(),
                "tenant `alice` waits for the moment `then`, which is not there: add a",
            ),
            ("", "[[kill]]\ncomponent = \"alice\"\nat = \"then\"\n".into(), "`alice` is killed at the moment `then`"),
            ("", "[[kill]]\ncomponent = \"alice\"\n".into(), "after 0 ms: write at least 1, or name a moment"),
            (
                "",
                "[[change]]\ntenant = \"alice\"\nat = \"then\"\nweight = 2\n".into(),
                "`alice` changes at the moment `then`",
            ),
        ] {
            let refusal = parsed(tenant, &rest).unwrap_err();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn changes_wait_for_moments_all_or_none() {
        let change = |key: &str| format!("[[change]]\ntenant = \"alice\"\n{key}\nweight = 2\n");
        let refusal = parsed("", &format!("{MOMENT}{}{}", change("after_ms = 5"), change("at = \"now\""))).unwrap_err();
        assert!(refusal.contains("name a moment for each change, or for none"), "{refusal}");
        let other = MOMENT.replace("now", "then");
        let times = |first: &str, second: &str| {
            let text = format!("{MOMENT}{other}{}{}", change(first), change(second));
            parsed("", &text).unwrap().changes.iter().map(|change| change.when.after_ms).collect::<Vec<_>>()
        };
        let late = "at = \"now\"\nafter_ms = 9";
        assert_eq!(times(late, "at = \"now\""), [0, 9]);
        assert_eq!(times(late, "at = \"then\""), [9, 0], "in the order in which they are written");
    }
}
