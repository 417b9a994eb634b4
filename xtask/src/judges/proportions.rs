//! Compares the proportion of several loads with the scenario's expectation.
//!
//! Judged from the loads' own reports, in the part of the run in which all of them work: from the end of the last one's first
//! interval to the beginning of the first one's last interval.

use crate::judges::times::Missed;
use crate::records::rates::iops_inside;
use crate::records::results::Results;
use capdl::Scenario;
use report::Progress;

/// The part of its due by which a load may differ.
const TOLERANCE: f64 = 0.05;

/// Loads that differ from their dues, or could not be compared.
pub(crate) fn missed(scenario: &Scenario, results: &Results) -> Vec<Missed> {
    let expected = &scenario.expect.proportions;
    let (mut since_ns, mut until_ns) = (0, u64::MAX);
    for tenant in expected.keys() {
        let mut own = results.timeline.progress.iter().filter(|one| one.tenant == tenant.as_str());
        let ends = own.next().and_then(|first: &Progress| Some((first.until_ns, own.next_back()?.since_ns)));
        let Some((begins_ns, ends_ns)) = ends else {
            return vec![Missed::certainly(format!("{tenant} reported too little to be compared"))];
        };
        (since_ns, until_ns) = (since_ns.max(begins_ns), until_ns.min(ends_ns));
    }
    let rates: Option<Vec<_>> = expected
        .iter()
        .map(|(tenant, part)| Some((tenant, *part, iops_inside(results, tenant, (since_ns, until_ns))?)))
        .collect();
    let Some(rates) = rates else {
        return vec![Missed::certainly("the loads never worked together".to_owned())];
    };
    let sum: f64 = rates.iter().map(|(.., rate)| rate).sum();
    let parts: u32 = expected.values().sum();
    let differs = |(tenant, part, rate): &(&String, u32, f64)| {
        let due = sum * f64::from(*part) / f64::from(parts);
        ((rate - due).abs() > TOLERANCE * due).then(|| {
            let sentence = format!("{tenant} had {rate:.0} IOPS beside the others, and {due:.0} within 5 % are due");
            Missed::during(since_ns..until_ns, sentence)
        })
    };
    rates.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Report, Stamped, clip};
    use std::time::Duration;

    /// Runs of two loads, by their requests in each 100 ms.
    fn judged(a: &[u64], b: &[u64]) -> Vec<String> {
        let tenant = |name: &str, first: u32| {
            format!(
                "[[tenant]]\nname = \"{name}\"\nqueue_pairs = 1\nextents = [{{ first = {first}, blocks = 1024 }}]\n\
                 program.name = \"bench\"\n[tenant.program.config]\n"
            )
        };
        let text = format!(
            "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"d\"\n[[controller.namespace]]\nsize = \"64M\"\n\
             {}{}[expect]\nproportions = {{ a = 3, b = 1 }}\n",
            tenant("a", 0),
            tenant("b", 1024)
        );
        let scenario = Scenario::parse(&text, "t.toml").unwrap();
        let mut results = Results::default();
        for (name, intervals) in [("a", a), ("b", b)] {
            for (number, operations) in (0..).zip(intervals) {
                let (since_ns, until_ns) = (number * 100_000_000, (number + 1) * 100_000_000);
                let progress =
                    Progress { tenant: clip(name), since_ns, until_ns, operations: *operations, bytes: 0, max_ns: 0 };
                results.take(Stamped { at_ns: 0, report: Report::Progress(progress) }, Duration::ZERO);
            }
        }
        missed(&scenario, &results).into_iter().map(|missed| missed.sentence).collect()
    }

    #[test]
    fn the_beginning_and_the_end_do_not_count() {
        assert!(judged(&[900, 300, 310, 1], &[5, 101, 100, 400]).is_empty());
        assert!(judged(&[900, 300, 310], &[5, 101, 100, 400, 400]).is_empty(), "a ended earlier");
    }

    #[test]
    fn a_wrong_proportion_is_reported_for_both() {
        let wrong = judged(&[0, 100, 100, 0], &[0, 100, 100, 0]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("a had 1000 IOPS beside the others, and 1500 within 5 %"), "{wrong:?}");
    }

    #[test]
    fn loads_that_report_too_little_are_not_judged_as_good() {
        assert_eq!(judged(&[1], &[5, 5, 5]), ["a reported too little to be compared"]);
        assert_eq!(judged(&[3, 3], &[1, 1]), ["the loads never worked together"]);
    }
}
