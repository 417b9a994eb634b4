//! Lines about loads that rest by their configuration, so that their low rates are not read as starvation.

use crate::records::results::Results;

/// A line for each load that rests.
pub(super) fn resting(results: &Results) -> Option<String> {
    let has_load = |tenant: &str| results.tenants.iter().any(|load| load.tenant == tenant);
    let resting = results.plan.resting.iter().filter(|(tenant, _)| has_load(tenant));
    let line = |(tenant, percent): (&String, &u8)| {
        format!(
            "{tenant} has requests in flight for {percent} % of the time at most, and rests otherwise (busy_percent).\n"
        )
    };
    let text = resting.map(line).collect::<String>();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::results::tests::of_reports;
    use report::{Load, Report, clip};

    #[test]
    fn a_load_that_rests_is_named() {
        let loads = ["a", "b"].map(|tenant| (1, Report::Load(Load { tenant: clip(tenant), ..Load::default() })));
        let results = of_reports("program.config.busy_percent = 25\n", loads);
        let line = "b has requests in flight for 25 % of the time at most, and rests otherwise (busy_percent).\n";
        assert_eq!(resting(&results).as_deref(), Some(line));
        assert_eq!(resting(&of_reports("program.config.busy_percent = 25\n", [])), None);
    }
}
