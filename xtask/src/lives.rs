//! What the lives of clients that are started again use up: nothing. The root task has as much memory left after each new
//! start, and a server as many pages of its own and IO page tables at each opening of the client's session. The first
//! opening is left out: what is made then is kept for those that follow, and a neighbour may be opened after it.

use crate::results::Results;
use capdl::Scenario;

/// What a server had left when it opened a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Opened {
    /// Whose session it is.
    pub(crate) tenant: report::Name,
    /// Pages of its own memory.
    pub(crate) pages_left: u32,
    /// IO page tables.
    pub(crate) io_tables_left: u32,
}

/// What is wrong, one sentence each.
pub(crate) fn wrongs(scenario: &Scenario, results: &Results) -> Vec<String> {
    let mut wrongs = Vec::new();
    let left = || results.restarts.iter().map(|restart| restart.memory_left_bytes);
    if let (Some(most), Some(least)) = (left().max(), left().min())
        && most != least
    {
        wrongs.push(format!("new starts used up {} bytes of the root task's memory", most - least));
    }
    for tenant in scenario.tenants.iter().filter(|tenant| tenant.restart.is_some()) {
        let lives = results.restarts_of(&tenant.name);
        let own = |opened: &&Opened| opened.tenant == tenant.name.as_str();
        let openings: Vec<&Opened> = results.opened.iter().filter(own).skip(1).collect();
        // A server that was started again begins with all it has.
        let used = |before: &Opened, next: &Opened| {
            next.pages_left < before.pages_left || next.io_tables_left < before.io_tables_left
        };
        let leaks = openings.windows(2).filter(|pair| matches!(pair, [before, next] if used(before, next))).count();
        if leaks > 0 {
            wrongs.push(format!("{leaks} of {lives} lives of {} used up memory of its server", tenant.name));
        }
    }
    wrongs
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Report, Restart, clip};
    use std::time::Duration;

    fn sentences(memory: [u64; 3], pages: [u32; 4]) -> Vec<String> {
        let text = "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.namespace]]\n\
                    size = \"64M\"\n[[tenant]]\nname = \"w\"\nqueue_pairs = 1\n\
                    extents = [{ first = 0, blocks = 1024 }]\nrestart = {}\n[tenant.workload.bench]\n";
        let mut results = Results::default();
        for (times, memory_left_bytes) in (1..).zip(memory) {
            let restart = Restart { name: clip("w"), times, ended_at_ns: 5, took_ns: 2, memory_left_bytes };
            results.add(Report::Restart(restart), Duration::ZERO);
        }
        for pages_left in pages {
            results.add(Report::Opened { tenant: clip("w"), pages_left, io_tables_left: 4 }, Duration::ZERO);
        }
        wrongs(&Scenario::parse(text, "t.toml").unwrap(), &results)
    }

    #[test]
    fn lives_that_leave_all_as_it_was_are_right() {
        assert_eq!(sentences([7, 7, 7], [90, 80, 80, 80]), [""; 0]);
    }

    #[test]
    fn memory_that_a_life_takes_with_it_is_named() {
        let wrong = sentences([7, 7, 6], [90, 80, 80, 80]);
        assert_eq!(wrong, ["new starts used up 1 bytes of the root task's memory"]);
        assert_eq!(sentences([7, 7, 7], [90, 80, 80, 79]), ["1 of 3 lives of w used up memory of its server"]);
    }
}
