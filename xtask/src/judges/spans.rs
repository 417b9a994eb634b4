//! Compares loads in parts of a run with the scenario's expectations.
//!
//! Judged from the loads' own reports while they work, by the machine's clock. For rates, only intervals count that lie wholly in
//! the part. For latencies, intervals that reach into it count too, so that every delay that a change caused is judged.

use crate::judges::times::Missed;
use crate::records::rates::iops_inside;
use crate::records::results::Results;
use capdl::Scenario;
use capdl::scenario::{Span, What};
use report::{Change, Changed, Progress};

/// Expectations that the run missed.
pub(crate) fn missed(scenario: &Scenario, results: &Results) -> Vec<Missed> {
    let judged = scenario.expect.spans.iter().filter(|span| !span.simulated || results.seed.is_some());
    judged.flat_map(|span| missed_in(scenario, span, results)).collect()
}

fn missed_in(scenario: &Scenario, span: &Span, results: &Results) -> Vec<Missed> {
    let Span { tenant, after_change, before_change, at_least_iops, at_most_iops, .. } = span;
    let mut ends = Vec::new();
    for (number, before) in [(after_change, false), (before_change, true)] {
        let change = number.map(|number| reported(scenario, number, results).ok_or(number)).transpose();
        match change {
            Ok(Some(change)) if !before => ends.push(change.at_ns.saturating_add(change.took_ns)),
            Ok(Some(change)) => ends.push(change.at_ns),
            Ok(None) => ends.push(if before { u64::MAX } else { 0 }),
            Err(number) => {
                let sentence = format!("nobody knows when change {number} was in force, so {tenant} cannot be judged");
                return vec![Missed::certainly(sentence)];
            }
        }
    }
    let part = (ends[0], ends[1]);
    let when = in_words(span);
    let Some(iops) = iops_inside(results, tenant, part) else {
        return vec![Missed::certainly(format!("{tenant} said nothing of what it did {when}"))];
    };
    let mut violations = Vec::new();
    if let Some(least) = at_least_iops.filter(|least| iops < *least as f64) {
        violations.push(format!("{tenant} had {iops:.0} IOPS {when}, and {least} are the least"));
    }
    if let Some(most) = at_most_iops.filter(|most| iops > *most as f64) {
        violations.push(format!("{tenant} had {iops:.0} IOPS {when}, and {most} are the most"));
    }
    for (other, percent) in &span.at_least_percent_of {
        match iops_inside(results, other, part) {
            None => violations.push(format!("{other} said nothing of what it did {when}")),
            Some(others) if iops * 100.0 < others * *percent as f64 => violations.push(format!(
                "{tenant} had {iops:.0} IOPS {when} and {other} {others:.0}: {percent} % of these are the least"
            )),
            Some(_) => {}
        }
    }
    let longest_us = reaching_into(results, tenant, part).map(|one| one.max_ns.div_ceil(1_000)).max().unwrap_or(0);
    if let Some(most) = span.latency_max_us.filter(|most| longest_us > *most) {
        violations.push(format!("{tenant} waited {longest_us} µs for a request {when}, and {most} are the most"));
    }
    // No lateness explains that nothing was done at all.
    let during = (iops > 0.0).then_some(part.0..part.1);
    violations.into_iter().map(|sentence| Missed { sentence, during: during.clone() }).collect()
}

fn in_words(span: &Span) -> String {
    match (span.after_change, span.before_change) {
        (None, None) => "in all".into(),
        (Some(after), None) => format!("after change {after}"),
        (None, Some(before)) => format!("before change {before}"),
        (Some(after), Some(before)) => format!("between changes {after} and {before}"),
    }
}

/// The report of the scenario's change `number`, counted from 1. `None` if the number of reports for its tenant differs from the
/// number of changes: a restarted policy component reports them again, so they cannot be told apart.
pub(crate) fn reported<'a>(scenario: &Scenario, number: usize, results: &'a Results) -> Option<&'a Change> {
    let (before, rest) = scenario.changes.split_at_checked(number.checked_sub(1)?)?;
    let change = rest.first()?;
    let alike = |what: &What, changed: Changed| {
        matches!(
            (what, changed),
            (What::Revoke(_), Changed::Revoked { .. })
                | (What::Grant(_), Changed::Granted { .. })
                | (What::Entitle(_), Changed::Entitled)
        )
    };
    let count = |changes: &[capdl::scenario::Change]| changes.iter().filter(|one| one.tenant == change.tenant).count();
    let mut all: Vec<_> = results.changes.iter().filter(|one| one.tenant == change.tenant.as_str()).collect();
    all.sort_by_key(|one| one.at_ns);
    let reported = *all.get(count(before))?;
    (all.len() == count(&scenario.changes) && alike(&change.what, reported.what)).then_some(reported)
}

fn reaching_into<'a>(
    results: &'a Results,
    tenant: &str,
    (since_ns, until_ns): (u64, u64),
) -> impl Iterator<Item = &'a Progress> {
    let of_tenant = results.timeline.progress.iter().filter(move |one| one.tenant == tenant);
    of_tenant.filter(move |one| one.until_ns > since_ns && one.since_ns < until_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Report, Stamped, clip};
    use std::time::Duration;

    fn scenario(span: &str) -> Scenario {
        let tenant = |name: &str, first: u32| {
            format!(
                "[[tenant]]\nname = \"{name}\"\nqueue_pairs = 1\nextents = [{{ first = {first}, blocks = 1024 }}]\n\
                 program.name = \"bench\"\n[tenant.program.config]\n"
            )
        };
        let change = |after_ms: u32| format!("[[change]]\nafter_ms = {after_ms}\ntenant = \"a\"\nweight = 2\n");
        let text = format!(
            "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"d\"\n[[controller.namespace]]\nsize = \"64M\"\n\
             {}{}{}{}[[expect.span]]\n{span}\n",
            tenant("a", 0),
            tenant("b", 1024),
            change(100),
            change(300)
        );
        Scenario::parse(&text, "t.toml").unwrap()
    }

    /// Intervals of 100 ms from the beginning on: operations and the longest latency, microseconds.
    fn progress(tenant: &str, intervals: &[(u64, u64)]) -> Vec<Report> {
        let one = |(number, (operations, max_us)): (u64, &(u64, u64))| {
            let (since_ns, until_ns) = (number * 100_000_000, (number + 1) * 100_000_000);
            let (tenant, max_ns) = (clip(tenant), max_us * 1_000);
            Report::Progress(Progress { tenant, since_ns, until_ns, operations: *operations, bytes: 0, max_ns })
        };
        (0..).zip(intervals).map(one).collect()
    }

    /// Two changes for `a`: at 150 ms and 350 ms, each in force after 10 ms.
    fn changes() -> Vec<Report> {
        let change = |at_ms: u64| {
            let what = Changed::Entitled;
            let (at_ns, took_ns) = (at_ms * 1_000_000, 10_000_000);
            Report::Change(Change { policy: clip("policy"), tenant: clip("a"), what, at_ns, took_ns })
        };
        vec![change(150), change(350)]
    }

    fn results(seed: Option<u64>, reports: impl IntoIterator<Item = Report>) -> Results {
        let mut results = Results { seed, ..Results::default() };
        for report in reports {
            results.take(Stamped { at_ns: 0, report }, Duration::ZERO);
        }
        results
    }

    fn violations(scenario: &Scenario, results: &Results) -> Vec<String> {
        missed(scenario, results).into_iter().map(|missed| missed.sentence).collect()
    }

    fn judged(span: &str) -> Vec<String> {
        let a = progress("a", &[(500, 90), (300, 900), (100, 80), (110, 70), (600, 60)]);
        let b = progress("b", &[(500, 90), (600, 90), (700, 90), (700, 90), (500, 90)]);
        violations(&scenario(span), &results(Some(1), changes().into_iter().chain(a).chain(b)))
    }

    #[test]
    fn rates_are_those_of_intervals_between_the_changes() {
        assert_eq!(judged("tenant = \"a\"\nbefore_change = 1\nat_least_iops = 5000\nat_most_iops = 5000"), [""; 0]);
        let between = "tenant = \"a\"\nafter_change = 1\nbefore_change = 2\n";
        assert_eq!(judged(&format!("{between}at_most_iops = 1000\nat_least_iops = 1000")), [""; 0]);
        let off = judged(&format!("{between}at_most_iops = 999"));
        assert_eq!(off, ["a had 1000 IOPS between changes 1 and 2, and 999 are the most"]);
        let off = judged("tenant = \"a\"\nafter_change = 2\nat_least_iops = 6001");
        assert_eq!(off, ["a had 6000 IOPS after change 2, and 6001 are the least"]);
    }

    #[test]
    fn a_tenant_is_compared_with_another_in_the_same_part() {
        let between = "tenant = \"b\"\nafter_change = 1\nbefore_change = 2\n";
        assert_eq!(judged(&format!("{between}at_least_percent_of = {{ a = 700 }}")), [""; 0]);
        let off = judged(&format!("{between}at_least_percent_of = {{ a = 701 }}"));
        assert_eq!(off, ["b had 7000 IOPS between changes 1 and 2 and a 1000: 701 % of these are the least"]);
    }

    #[test]
    fn a_latency_counts_where_its_interval_reaches_into_the_part() {
        // The change at 150 ms has an interval of its own.
        let off = judged("tenant = \"a\"\nafter_change = 1\nlatency_max_us = 899");
        assert_eq!(off, ["a waited 900 µs for a request after change 1, and 899 are the most"]);
        assert_eq!(judged("tenant = \"a\"\nafter_change = 1\nlatency_max_us = 900"), [""; 0]);
        assert_eq!(judged("tenant = \"a\"\nafter_change = 2\nlatency_max_us = 70"), [""; 0]);
    }

    #[test]
    fn lateness_between_the_changes_explains_what_was_missed_there() {
        let reports = changes().into_iter().chain(progress("a", &[(1, 9), (1, 9), (1, 9), (1, 9), (1, 9)]));
        let span = "tenant = \"a\"\nafter_change = 1\nbefore_change = 2\nat_least_iops = 11";
        let [missed] = missed(&scenario(span), &results(None, reports)).try_into().unwrap();
        assert_eq!(missed.during, Some(160_000_000..350_000_000));
        let [unknown] = super::missed(&scenario(span), &results(None, [])).try_into().unwrap();
        assert_eq!(unknown.during, None);
    }

    #[test]
    fn what_is_asked_of_simulated_runs_is_not_asked_of_others() {
        let scenario = scenario("tenant = \"a\"\nat_least_iops = 9999\nsimulated = true");
        let run = |seed| violations(&scenario, &results(seed, progress("a", &[(1, 1)]))).len();
        assert_eq!((run(Some(1)), run(None)), (1, 0));
    }

    #[test]
    fn who_said_nothing_in_the_part_fails_the_run() {
        let scenario = scenario("tenant = \"a\"\nafter_change = 1\nat_most_iops = 9999");
        let early = violations(&scenario, &results(None, changes().into_iter().chain(progress("a", &[(1, 1)]))));
        assert_eq!(early, ["a said nothing of what it did after change 1"]);
        let untold = violations(&scenario, &results(None, progress("a", &[(1, 1), (1, 1), (1, 1)])));
        assert_eq!(untold, ["nobody knows when change 1 was in force, so a cannot be judged"]);
    }
}
