//! Checks that a controller that comes and goes leaks nothing: each arrival leaves the PCI server as many empty cptrs, and its NVMe
//! server as many pages and IO page tables. The root task's memory is judged with all restarts (`leaks`).
//!
//! A tenant that waits for such a controller must be there at each of its returns: after its end they would show nothing.
//!
//! Cptrs are compared from the second claim on: at the first, another driver may not have claimed its function yet. Left out:
//! cptrs where several controllers come and go, because each claim depends on what the others hold at that time, and where the
//! PCI server is restarted; pages where several sessions open in any order.

use crate::records::results::{Opened, Results};
use capdl::Scenario;
use capdl::scenario::{Action, Controller, Tenant};

/// Violations, one sentence each.
pub(crate) fn violations(scenario: &Scenario, results: &Results) -> Vec<String> {
    let all = scenario.controllers.iter().enumerate().filter(|(index, _)| scenario.comes_and_goes(*index));
    let moving: Vec<_> = all.map(|(_, controller)| controller).collect();
    let is_alone = moving.len() == 1 && scenario.expect.restarts.keys().all(|name| is_server(scenario, &moving, name));
    let cptrs = moving.iter().filter(|_| is_alone).filter_map(|controller| lost_cptrs(scenario, controller, results));
    let pages = moving.iter().filter_map(|controller| lost_pages(scenario, controller, results));
    let missed = moving.iter().flat_map(|controller| missed_returns(scenario, controller, results));
    cptrs.chain(pages).chain(missed).collect()
}

/// Waiting tenants whose sessions came back less often than their controller.
fn missed_returns(scenario: &Scenario, controller: &Controller, results: &Results) -> Vec<String> {
    let events = scenario.hot_plugs.iter().filter(|event| event.controller == controller.name);
    let after_removal = events.skip_while(|event| event.action == Action::Insert);
    let returns = after_removal.filter(|event| event.action == Action::Insert && !event.other).count();
    let is_to_go_on = |tenant: &&Tenant| tenant.waits && !scenario.expect.gone.contains(&tenant.name);
    let waiting = scenario.sessions(&controller.name).filter(is_to_go_on);
    let missed = waiting.filter_map(|tenant| {
        let again = results.sessions_again(tenant.name.as_str());
        (again < returns).then(|| {
            let (name, controller) = (&tenant.name, &controller.name);
            format!("{name} had its session again {again} times, and {controller} is to return {returns} times: let it work longer")
        })
    });
    missed.collect()
}

fn is_server(scenario: &Scenario, controllers: &[&Controller], name: &str) -> bool {
    controllers.iter().any(|controller| scenario.server_name(&controller.name) == name)
}

/// Whether a later claim left the PCI server another number of empty cptrs than the second one.
fn lost_cptrs(scenario: &Scenario, controller: &Controller, results: &Results) -> Option<String> {
    let server = scenario.server_name(&controller.name);
    let claims = results.claims.iter().filter(|claim| claim.driver == server.as_str());
    let left: Vec<_> = claims.map(|claim| claim.cptrs_left).skip(1).collect();
    let (first, last) = (left.first()?, left.last()?);
    left.iter().any(|cptrs| cptrs != first).then(|| {
        format!(
            "the PCI server had {first} empty cptrs after the second arrival of {}, and {last} after the last",
            controller.name
        )
    })
}

/// Whether the server's only session found less memory when it was opened at a later arrival.
fn lost_pages(scenario: &Scenario, controller: &Controller, results: &Results) -> Option<String> {
    let mut sessions = scenario.sessions(&controller.name);
    let (Some(tenant), None) = (sessions.next(), sessions.next()) else { return None };
    if tenant.restart.is_some() {
        // It opens several sessions in one incarnation, which `leaks` compares.
        return None;
    }
    let mut openings: Vec<_> = results.opened.iter().filter(|opened| opened.tenant == tenant.name.as_str()).collect();
    openings.sort_by_key(|opened| opened.at_ns);
    let memory = |opened: &Opened| (opened.pages_left, opened.io_tables_left);
    let (first, last) = (memory(openings.first()?), memory(openings.last()?));
    openings.iter().any(|opened| memory(opened) != first).then(|| {
        format!(
            "the server of {} had {} pages and {} IO page tables left at its first session, and {} and {} at its last",
            controller.name, first.0, first.1, last.0, last.1
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Report, Stamped, clip};
    use std::time::Duration;

    const SCENARIO: &str = r#"
name = "t"
description = "t"
[[controller]]
name = "comes"
hot_plug = true
[[controller.namespace]]
size = "64M"
[[controller]]
name = "stays"
hot_plug = true
[[controller.namespace]]
size = "64M"
[[tenant]]
name = "w"
controller = "comes"
queue_pairs = 1
program.name = "bench"
extents = [{ first = 0, blocks = 8 }]
[tenant.program.config]
[[hotplug]]
controller = "comes"
after_ms = 5
action = "pull"
"#;

    /// Judges a run with these empty cptrs at the claims, and these pages at the openings.
    fn sentences(more: &str, cptrs: &[u32], pages: &[u32]) -> Vec<String> {
        let mut results = Results::default();
        let mut take = |at_ns, report| results.take(Stamped { at_ns, report }, Duration::ZERO);
        for (at_ns, cptrs_left) in (1..).zip(cptrs) {
            let driver = clip("nvme-server-comes");
            take(at_ns, Report::Claimed { driver, requester_id: 256, cptrs_left: *cptrs_left });
            take(
                at_ns,
                Report::Claimed { driver: clip("nvme-server-stays"), requester_id: 512, cptrs_left: at_ns as u32 },
            );
        }
        // The console delivers records in any order.
        for (at_ns, pages_left) in pages.iter().enumerate().rev() {
            take(at_ns as u64, Report::Opened { tenant: clip("w"), pages_left: *pages_left, io_tables_left: 4 });
        }
        violations(&Scenario::parse(&format!("{SCENARIO}{more}"), "t.toml").unwrap(), &results)
    }

    #[test]
    fn arrivals_that_leave_all_as_it_was_are_right() {
        assert_eq!(sentences("", &[90, 80, 80, 80], &[70, 70, 70]), [""; 0]);
        assert_eq!(sentences("", &[90], &[70]), [""; 0]);
        assert_eq!(sentences("", &[], &[]), [""; 0]);
    }

    #[test]
    fn an_arrival_that_leaks_is_named() {
        let wrong = sentences("", &[90, 80, 79, 78], &[70, 70]);
        assert_eq!(
            wrong,
            ["the PCI server had 80 empty cptrs after the second arrival of comes, and 78 after the last"]
        );
        let wrong = sentences("", &[90, 80, 80], &[70, 70, 69]);
        assert_eq!(wrong.len(), 1);
        assert!(
            wrong[0].contains("70 pages and 4 IO page tables left at its first session, and 69 and 4"),
            "{wrong:?}"
        );
    }

    #[test]
    fn cptrs_of_two_controllers_that_move_are_not_compared() {
        let other = "[[hotplug]]\ncontroller = \"stays\"\nafter_ms = 5\naction = \"pull\"\n";
        assert_eq!(sentences(other, &[90, 80, 79], &[70, 70]), [""; 0]);
        let restarts = "[expect]\nrestarts = { pci-server = 1 }\n";
        assert_eq!(sentences(restarts, &[90, 80, 79], &[70, 70]), [""; 0]);
    }
    #[test]
    fn a_waiting_tenant_that_ended_before_a_return_is_named() {
        let waits = SCENARIO.replace("queue_pairs = 1", "queue_pairs = 1\nwaits = true");
        let returns = "[[hotplug]]\ncontroller = \"comes\"\nafter_ms = 9\naction = \"insert\"\n";
        let scenario = Scenario::parse(&format!("{waits}{returns}"), "t.toml").unwrap();
        let mut results = Results::default();
        let wrong = violations(&scenario, &results);
        assert_eq!(wrong, ["w had its session again 0 times, and comes is to return 1 times: let it work longer"]);
        results.reconnected.push(report::Reconnected { tenant: clip("w"), at_ns: 1, reissued: 0 });
        assert_eq!(violations(&scenario, &results), [""; 0]);
    }
}
