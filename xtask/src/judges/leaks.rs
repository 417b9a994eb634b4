//! Checks that incarnations of restarted clients leak nothing. The root task must have as much memory left after each restart,
//! and a server as many pages of its own and IO page tables at each opening of the client's session.
//!
//! Openings are compared within one incarnation of the server, because a restarted server begins with all its memory. Two kinds
//! of openings are left out: the client's first one in an incarnation, and those before the first one of a neighbour. A server
//! keeps the memory that it allocates then, for later openings.

use crate::records::results::{Opened, Results};
use capdl::Scenario;
use capdl::scenario::Tenant;
use std::collections::BTreeSet;

/// Violations, one sentence each.
pub(crate) fn violations(scenario: &Scenario, results: &Results) -> Vec<String> {
    let mut violations = Vec::new();
    let left = || results.restarts.iter().map(|restart| restart.memory_left_bytes);
    if let (Some(most), Some(least)) = (left().max(), left().min())
        && most != least
    {
        violations.push(format!("new starts used up {} bytes of the root task's memory", most - least));
    }
    for tenant in scenario.tenants.iter().filter(|tenant| tenant.restart.is_some()) {
        let incarnations = results.restarts_of(&tenant.name);
        let leaks = leaks(scenario, tenant, results);
        if leaks > 0 {
            violations.push(format!(
                "{leaks} of {incarnations} incarnations of {} used up memory of its server",
                tenant.name
            ));
        }
    }
    violations
}

/// Number of openings of the tenant's session at which its server had less left than at the one before.
fn leaks(scenario: &Scenario, tenant: &Tenant, results: &Results) -> usize {
    let server = scenario.server_name(&tenant.controller);
    let deaths = || results.restarts.iter().filter(|restart| restart.name == server.as_str());
    let incarnation = |opened: &Opened| deaths().filter(|restart| restart.ended_at_ns <= opened.at_ns).count();
    let is_of_server = |opened: &&Opened| {
        scenario.sessions(&tenant.controller).any(|neighbour| opened.tenant == neighbour.name.as_str())
    };
    let mut openings: Vec<&Opened> = results.opened.iter().filter(is_of_server).collect();
    // The console delivers the records of a server and of the root task independently, so sort them by time.
    openings.sort_by_key(|opened| opened.at_ns);
    let mut leaks = 0;
    for of_one in openings.chunk_by(|one, next| incarnation(one) == incarnation(next)) {
        let mut known = BTreeSet::new();
        let mut before: Option<&Opened> = None;
        for opened in of_one {
            let is_first = known.insert(&opened.tenant);
            if opened.tenant == tenant.name.as_str() {
                leaks += usize::from(before.is_some_and(|before| has_less(opened, before)));
                before = (!is_first).then_some(opened);
            } else if is_first {
                before = None;
            }
        }
    }
    leaks
}

const fn has_less(opened: &Opened, before: &Opened) -> bool {
    opened.pages_left < before.pages_left || opened.io_tables_left < before.io_tables_left
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Report, Restart, Stamped, clip};
    use std::time::Duration;

    const TENANT: &str =
        "queue_pairs = 1\nprogram.name = \"bench\"\n[tenant.program.config]\n[[tenant.extents]]\nblocks = 8\nfirst = ";

    /// Judges a run in which the server was restarted at `deaths`, and had so many pages left at each opening of a session.
    fn sentences(memory: [u64; 3], deaths: &[u64], openings: &[(u64, &str, u32)]) -> Vec<String> {
        let text = format!(
            "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.namespace]]\n\
             size = \"64M\"\n[[tenant]]\nname = \"w\"\nrestart = {{}}\n{TENANT}0\n[[tenant]]\nname = \"v\"\n{TENANT}8\n"
        );
        let mut results = Results::default();
        let mut take = |at_ns, report| results.take(Stamped { at_ns, report }, Duration::ZERO);
        let restart = |name: &str, times, ended_at_ns, memory_left_bytes| {
            Report::Restart(Restart { name: clip(name), times, ended_at_ns, took_ns: 2, memory_left_bytes })
        };
        for (times, memory_left_bytes) in (1..).zip(memory) {
            take(0, restart("w", times, 5, memory_left_bytes));
        }
        for (times, ended_at_ns) in (1..).zip(deaths) {
            take(0, restart("nvme-server", times, *ended_at_ns, memory[0]));
        }
        for (at_ns, tenant, pages_left) in openings {
            take(*at_ns, Report::Opened { tenant: clip(tenant), pages_left: *pages_left, io_tables_left: 4 });
        }
        violations(&Scenario::parse(&text, "t.toml").unwrap(), &results)
    }

    /// Openings of `w`'s session, one per nanosecond.
    fn of_w(pages: [u32; 4]) -> Vec<(u64, &'static str, u32)> {
        (0..).zip(pages).map(|(at_ns, pages)| (at_ns, "w", pages)).collect()
    }

    #[test]
    fn incarnations_that_leave_all_as_it_was_are_right() {
        assert_eq!(sentences([7, 7, 7], &[], &of_w([90, 80, 80, 80])), [""; 0]);
    }

    #[test]
    fn memory_that_an_incarnation_leaks_is_named() {
        let wrong = sentences([7, 7, 6], &[], &of_w([90, 80, 80, 80]));
        assert_eq!(wrong, ["new starts used up 1 bytes of the root task's memory"]);
        let wrong = sentences([7, 7, 7], &[], &of_w([90, 80, 80, 79]));
        assert_eq!(wrong, ["1 of 3 incarnations of w used up memory of its server"]);
    }

    #[test]
    fn openings_of_two_incarnations_of_the_server_are_not_compared() {
        // The last incarnation of the first server opens after the neighbour is gone; the next server's neighbour opens first.
        let of_two =
            [(1, "v", 95), (2, "w", 90), (3, "w", 90), (4, "w", 92), (11, "v", 95), (12, "w", 90), (13, "w", 85)];
        assert_eq!(sentences([7, 7, 7], &[10], &of_two), [""; 0]);
        // The same openings of one server are leaks, because no neighbour opens first in between.
        assert_eq!(sentences([7, 7, 7], &[], &of_two), ["2 of 3 incarnations of w used up memory of its server"]);
        // A leak in the second incarnation is found, in any order of the records.
        let mut leaks = of_two.to_vec();
        leaks.extend([(14, "w", 85), (15, "w", 84)]);
        leaks.reverse();
        assert_eq!(sentences([7, 7, 7], &[10], &leaks), ["1 of 3 incarnations of w used up memory of its server"]);
    }

    #[test]
    fn what_a_neighbours_first_opening_takes_is_no_leak() {
        let openings = [(1, "w", 95), (2, "w", 90), (3, "v", 88), (4, "w", 80), (5, "w", 80)];
        assert_eq!(sentences([7, 7, 7], &[], &openings), [""; 0]);
    }
}
