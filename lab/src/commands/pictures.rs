//! The test that the pictures of runs can be read: no text lies on another, and none is cut.

use crate::simulate::{self, RunInput, simulate};
use capdl::Scenario;
use xtask::project::Project;
use xtask::reports::timeline;

/// Scenarios of all kinds of events: the usual, many tenants, functions, hot plug, changes, faults.
const SIMULATED: [&str; 9] = [
    "demo",
    "boot",
    "tenants-64",
    "functions-killed",
    "hotplug",
    "shares-change",
    "controller-fails",
    "bridge-two-controllers",
    "queues-change",
];

#[path = "../../../xtask/src/reports/figure/texts.rs"]
mod texts;

fn scenario(name: &str) -> Scenario {
    Scenario::load(Project::here().unwrap().scenario(name).unwrap()).unwrap()
}

#[test]
fn every_text_of_a_timeline_can_be_read() {
    for name in SIMULATED {
        let scenario = scenario(name);
        let picture = timeline::svg(&simulate(RunInput { seed: 1, ..RunInput::of(&scenario) }).unwrap().results);
        assert!(picture.contains("virtual time since the start of the machine"), "{name}");
        assert_eq!(texts::faults(&picture), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn every_text_of_a_capability_graph_can_be_read() {
    for name in Project::here().unwrap().scenarios().unwrap() {
        let scenario = scenario(&name);
        if simulate::is_missing(&scenario) {
            continue;
        }
        let system = capdl::build(&scenario, &sim::programs(scenario.machine.arch)).unwrap();
        assert_eq!(texts::faults(&system.svg()), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn capability_graph_and_table_count_the_same() {
    let scenario = scenario("boot");
    let svg = capdl::build(&scenario, &sim::programs(scenario.machine.arch)).unwrap().svg();
    for one in simulate(RunInput { seed: 1, ..RunInput::of(&scenario) }).unwrap().results.components {
        let holds = format!("{} capabilities, ", one.capabilities);
        assert!(svg.contains(&holds), "{}: {holds}", one.name);
    }
}
