//! Refusals of requirements on parts of a run, and on proportions.

use crate::scenario::refusal::{Checked, refuse_file};
use crate::scenario::{Scenario, Span, Workload};

/// Checks all spans and proportions that the scenario expects.
pub(super) fn check(scenario: &Scenario) -> Checked {
    if let Some(name) = scenario.expect.proportions.keys().find(|name| !reports_progress(scenario, name)) {
        return refuse_file(format!(
            "[expect] proportions names `{name}`, which is no tenant with the workload bench that tells of its progress: name one"
        ));
    }
    scenario.expect.spans.iter().try_for_each(|span| check_one(scenario, span))
}

fn check_one(scenario: &Scenario, span: &Span) -> Checked {
    let Span { tenant, after_change, before_change, at_least_iops, at_most_iops, .. } = span;
    if let Some(name) =
        [tenant].into_iter().chain(span.at_least_percent_of.keys()).find(|name| !reports_progress(scenario, name))
    {
        return refuse_file(format!(
            "[[expect.span]] names `{name}`, which is no tenant with the workload bench that tells of its progress: name one"
        ));
    }
    let count = scenario.changes.len();
    let numbers = [after_change, before_change].into_iter().flatten();
    if let Some(number) = numbers.copied().find(|number| !(1..=count).contains(number)) {
        return refuse_file(format!(
            "[[expect.span]] for `{tenant}` names change {number} of {count}: count them from 1, the earliest first"
        ));
    }
    if after_change.zip(*before_change).is_some_and(|(after, before)| after >= before) {
        return refuse_file(format!(
            "[[expect.span]] for `{tenant}` ends before it begins: name a later change in before_change"
        ));
    }
    let says_nothing = at_least_iops.is_none()
        && at_most_iops.is_none()
        && span.at_least_percent_of.is_empty()
        && span.latency_max_us.is_none();
    if says_nothing {
        return refuse_file(format!(
            "[[expect.span]] for `{tenant}` asks for nothing: add at_least_iops, at_most_iops, at_least_percent_of or \
             latency_max_us"
        ));
    }
    Ok(())
}

/// Whether `name` is a load that reports its progress while it works.
fn reports_progress(scenario: &Scenario, name: &str) -> bool {
    let reports = |workload: &Workload| matches!(workload, Workload::Bench(bench) if bench.progress_milliseconds > 0);
    is_load(scenario, name) && scenario.tenants.iter().any(|tenant| tenant.name == name && reports(&tenant.workload))
}

/// Whether `name` is a tenant whose latency is measured.
pub(super) fn is_load(scenario: &Scenario, name: &str) -> bool {
    scenario.tenants.iter().any(|tenant| tenant.name == name && matches!(tenant.workload, Workload::Bench(_)))
}
