//! Interrupts and interrupt modes of a run, compared with the scenario.

use crate::judges::times::{Missed, WHOLE_RUN};
use crate::records::results::Results;
use capdl::Scenario;
use capdl::scenario::{Controller, ExpectedInterrupts};

/// Controllers that do not have their last interrupt mode yet, one phrase each.
pub fn awaited(scenario: &Scenario, results: &Results) -> Vec<String> {
    let phrase = |controller: &Controller| {
        let (policy, last) = (scenario.policy_name(&controller.name), controller.changes.last()?);
        let mut reported = results.interrupts_changes.iter().filter(|one| one.policy == policy.as_str());
        let is_there = reported.any(|one| usize::from(one.number) == controller.changes.len())
            || scenario.expect.lost.contains(&controller.name);
        (!is_there).then(|| format!("{} does not interrupt by {} yet", controller.name, last.interrupts.name()))
    };
    scenario.controllers.iter().filter_map(phrase).collect()
}

/// Kinds of interrupts of which fewer came than expected. How many come depends on time, and whether any come does not.
pub(crate) fn missed(scenario: &Scenario, results: &Results) -> Vec<Missed> {
    let ExpectedInterrupts { msix, msi, intx } = scenario.expect.interrupts;
    let sum = |count: fn(&report::Interrupts) -> u64| {
        results.interrupts().fold(0u64, |sum, (_, interrupts)| sum.saturating_add(count(interrupts)))
    };
    let kinds = [
        ("MSI-X", msix, sum(|counts| counts.msix)),
        ("MSI", msi, sum(|counts| counts.msi)),
        ("INTx", intx, sum(|counts| counts.intx)),
    ];
    let fewer = kinds.into_iter().filter(|(_, least, seen)| seen < least);
    let miss = |(name, least, seen)| {
        let sentence = format!("{seen} interrupts came by {name}, and {least} are the least");
        Missed { sentence, during: (seen > 0).then_some(WHOLE_RUN) }
    };
    fewer.map(miss).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Interrupts, InterruptsChange, Report, Session, clip};
    use std::time::Duration;

    /// A controller that changes from MSI-X to its pin and back; `expect` has the fewest interrupts.
    fn scenario(expect: &str) -> Scenario {
        let text = format!(
            "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.change]]\nafter_ms = 90\n\
             interrupts = \"msix\"\n[[controller.change]]\nafter_ms = 50\ninterrupts = \"intx\"\n\
             [[controller.namespace]]\nsize = \"1M\"\n[[tenant]]\nname = \"w\"\nqueue_pairs = 1\n\
             extents = [{{ first = 0, blocks = 1024 }}]\nprogram.name = \"bench\"\n[tenant.program.config]\n[expect]\n{expect}\n"
        );
        Scenario::parse(&text, "t.toml").unwrap()
    }

    fn results(reports: impl IntoIterator<Item = Report>) -> Results {
        let mut results = Results::default();
        reports.into_iter().for_each(|report| results.add(report, Duration::ZERO));
        results
    }

    fn change(number: u16, to: &str) -> Report {
        let (policy, to) = (clip("policy"), clip(to));
        Report::InterruptsChange(InterruptsChange { policy, number, to, at_ns: 5, took_ns: 1 })
    }

    #[test]
    fn a_run_waits_for_the_last_change() {
        let scenario = scenario("");
        for early in [vec![], vec![change(1, "INTx")]] {
            assert_eq!(awaited(&scenario, &results(early)), ["a does not interrupt by MSI-X yet"]);
        }
        // The policy component leaves out a change that the next one has overtaken.
        for all in [vec![change(1, "INTx"), change(2, "MSI-X")], vec![change(2, "MSI-X")]] {
            assert!(awaited(&scenario, &results(all)).is_empty());
        }
    }

    #[test]
    fn nobody_waits_for_a_controller_that_is_lost() {
        assert!(awaited(&scenario("lost = [\"a\"]"), &results([])).is_empty());
    }

    #[test]
    fn interrupts_of_an_edu_device_count_as_sessions_do() {
        let text = "name = \"t\"\ndescription = \"t\"\n[edu]\n[expect]\ninterrupts = { msi = 2 }\n";
        let scenario = Scenario::parse(text, "t.toml").unwrap();
        let taken = |msi| {
            let interrupts = Interrupts { msix: 0, msi, intx: 9 };
            results([Report::Interrupted { driver: clip("edu-driver"), interrupts }])
        };
        assert_eq!(missed(&scenario, &taken(2)), []);
        let fewer = |seen| format!("{seen} interrupts came by MSI, and 2 are the least");
        assert_eq!(missed(&scenario, &taken(1)), [Missed::during(WHOLE_RUN, fewer(1))]);
        assert_eq!(missed(&scenario, &taken(0)), [Missed::certainly(fewer(0))], "no lateness explains that none came");
    }

    #[test]
    fn too_few_interrupts_of_a_kind_are_wrong() {
        let scenario = scenario("interrupts = { msix = 10, intx = 5 }");
        let session = |interrupts| Report::Session(Session { tenant: clip("w"), interrupts, ..Session::default() });
        let enough = [Interrupts { msix: 4, msi: 0, intx: 5 }, Interrupts { msix: 6, msi: 0, intx: 0 }];
        assert_eq!(missed(&scenario, &results(enough.map(session))), []);
        let few = session(Interrupts { msix: 9, msi: 7, intx: 5 });
        let fewer = "9 interrupts came by MSI-X, and 10 are the least".to_owned();
        assert_eq!(missed(&scenario, &results([few])), [Missed::during(WHOLE_RUN, fewer)]);
    }
}
