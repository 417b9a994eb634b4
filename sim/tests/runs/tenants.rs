//! The cost of a request does not depend on the number of tenants (`docs/guide/priority.md`).

use super::{run_with, scenario};
use capdl::Scenario;
use report::Report;

/// Returns the processor's virtual time for a request in nanoseconds, where the processor limits the requests.
fn cost_ns(scenario: &Scenario) -> f64 {
    let run = run_with(scenario, 1, &[]);
    assert_eq!(run.account.findings, "");
    let rates = run.reports.iter().filter_map(|report| match report {
        Report::Load(load) => Some(load.reads as f64 / load.elapsed_ns as f64),
        _ => None,
    });
    let rates: Vec<f64> = rates.collect();
    assert_eq!(rates.len(), scenario.tenants.len(), "everybody measured");
    1.0 / rates.iter().sum::<f64>()
}

#[test]
fn a_request_of_one_of_sixty_four_costs_what_one_of_two_does() {
    let many = scenario("tenants-64");
    let mut few = many.clone();
    few.tenants.truncate(2);
    let (few, many) = (cost_ns(&few), cost_ns(&many));
    println!("{few:.0} ns a request of two tenants, {many:.0} ns of sixty-four");
    assert!(many <= 1.1 * few, "{many} ns beside {few}");
}
