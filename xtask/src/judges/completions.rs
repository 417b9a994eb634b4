//! Compares the interrupts that servers counted for each session with the scenario's way of noticing completions.
//!
//! A polled queue pair has its interrupts off; one with interrupts must have raised some if there was I/O; a hybrid one may do
//! either. Left out: tenants without an orderly end, that is refused, expelled, faulted, or without their controller.

use crate::records::results::Results;
use blk_api::config::{Completion, badge};
use capdl::Scenario;
use capdl::scenario::{Controller, Interrupts, Path, Tenant, Workload};
use report::Session;
use sim_fault::{ControllerEffect, ControllerFault, Fault};
use std::collections::BTreeSet;

/// Violations, one sentence each.
pub fn violations(scenario: &Scenario, results: &Results) -> Vec<String> {
    let in_order = results.sessions.iter().filter(|session| session.ended_by.is_empty());
    in_order.filter_map(|session| violation(scenario, session, results)).collect()
}

fn violation(scenario: &Scenario, session: &Session, results: &Results) -> Option<String> {
    let tenant = scenario.tenants.iter().find(|tenant| session.tenant == tenant.name.as_str())?;
    let (name, expect) = (&tenant.name, &scenario.expect);
    let lists = [&expect.faults, &expect.expelled, &expect.refused_sessions, &expect.gone];
    let has_other_end = lists.into_iter().flatten().any(|one| one == name) || scenario.is_of_lost(name);
    if has_other_end || results.faulted(name) {
        return None;
    }
    let (commands, interrupts) = (session.commands, session.interrupts.total());
    match tenant.completion {
        Completion::Polled if interrupts > for_nothing(scenario, tenant) && is_counted_apart(scenario, tenant) => {
            Some(format!("{name} is polled, and its queue pairs raised {interrupts} interrupts"))
        }
        Completion::Interrupt if interrupts == 0 && commands > 0 => {
            Some(format!("{name} is notified of completions by interrupts, and of {commands} commands none raised any"))
        }
        Completion::Polled | Completion::Interrupt | Completion::Hybrid => None,
    }
}

/// Spurious interrupts that faults raise, on any vector of the tenant's controller.
fn for_nothing(scenario: &Scenario, tenant: &Tenant) -> u64 {
    let is_spurious = |fault: &&Fault| match fault {
        Fault::Controller(ControllerFault {
            controller, effect: ControllerEffect::SpuriousInterrupt { .. }, ..
        }) => *controller == tenant.controller || controller.is_empty(),
        _ => false,
    };
    scenario.faults.iter().filter(is_spurious).count() as u64
}

/// Whether a session's count has its own interrupts alone. Not so with the pin, which all sessions share, nor with so few vectors
/// that queue pairs share them, nor with so many that several have the same badge, nor beside an attacker with a function: it can raise any interrupt of others, because
/// this kernel has no interrupt remapping.
fn is_counted_apart(scenario: &Scenario, tenant: &Tenant) -> bool {
    let forges = |other: &Tenant| other.path == Path::Function && matches!(other.workload, Workload::Hostile(_));
    if scenario.tenants.iter().any(forges) {
        return false;
    }
    let controller = scenario.controller(&tenant.controller);
    let last = scenario.queue_pairs(&tenant.controller);
    // Vector 0 is the admin queue's.
    let has_own =
        |one: &Controller| u32::from(one.vector_count()) > last && one.ways().all(|way| way == Interrupts::Msix);
    let by_message = controller.is_some_and(|(_, one)| has_own(one));
    let badges: BTreeSet<_> = (0..=last).map(badge::vector).collect();
    by_message && badges.len() as u64 == u64::from(last) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Report, clip};
    use std::time::Duration;

    fn scenario(completion: &str, more: &str) -> Scenario {
        let server = if completion == "polled" { "[server]\npriority = 100\n" } else { "" };
        let text = format!(
            "name = \"t\"\ndescription = \"t\"\n{server}[[controller]]\nname = \"a\"\n{more}\n\
             [[controller.namespace]]\nsize = \"64M\"\n[[tenant]]\nname = \"w\"\nqueue_pairs = 1\n\
             completion = \"{completion}\"\nextents = [{{ first = 0, blocks = 1024 }}]\nprogram.name = \"bench\"\n[tenant.program.config]\n"
        );
        Scenario::parse(&text, "t.toml").unwrap()
    }

    fn sentences(scenario: &Scenario, commands: u64, interrupts: u64, ended_by: &str) -> Vec<String> {
        let ended_by = clip(ended_by);
        let interrupts = report::Interrupts { msix: interrupts, ..report::Interrupts::default() };
        let session = Session { tenant: clip("w"), ended_by, commands, interrupts, ..Session::default() };
        let mut results = Results::default();
        results.add(Report::Session(session), Duration::ZERO);
        violations(scenario, &results)
    }

    #[test]
    fn a_polled_queue_pair_that_interrupts_is_wrong() {
        let polled = scenario("polled", "");
        assert!(sentences(&polled, 100, 0, "").is_empty());
        let wrong = sentences(&polled, 100, 1, "");
        assert_eq!(wrong, ["w is polled, and its queue pairs raised 1 interrupts"]);
    }

    #[test]
    fn interrupts_of_a_vector_that_queue_pairs_share_are_nobodys() {
        assert!(sentences(&scenario("polled", "vectors = 1"), 100, 1, "").is_empty());
        assert_eq!(sentences(&scenario("polled", "vectors = 2"), 100, 1, "").len(), 1);
    }

    #[test]
    fn interrupts_that_a_fault_raises_are_nobodys() {
        let mut polled = scenario("polled", "");
        let effect = ControllerEffect::SpuriousInterrupt { vector: 1 };
        polled.faults.push(Fault::Controller(ControllerFault { controller: "a".into(), at_ns: 5, effect }));
        assert!(sentences(&polled, 100, 1, "").is_empty());
        assert_eq!(sentences(&polled, 100, 2, "").len(), 1);
    }

    #[test]
    fn silent_queue_pair_that_must_interrupt_is_a_violation() {
        let interrupt = scenario("interrupt", "");
        assert!(sentences(&interrupt, 100, 1, "").is_empty());
        assert!(sentences(&interrupt, 0, 0, "").is_empty());
        let wrong = sentences(&interrupt, 100, 0, "");
        assert_eq!(wrong, ["w is notified of completions by interrupts, and of 100 commands none raised any"]);
    }

    #[test]
    fn a_hybrid_queue_pair_may_interrupt_or_not() {
        let hybrid = scenario("hybrid", "");
        assert!(sentences(&hybrid, 100, 0, "").is_empty() && sentences(&hybrid, 100, 100, "").is_empty());
    }

    #[test]
    fn what_did_not_end_in_order_is_not_counted() {
        let mut interrupt = scenario("interrupt", "");
        assert!(sentences(&interrupt, 100, 0, "tail beyond the ring").is_empty());
        interrupt.expect.faults = vec!["w".into()];
        assert!(sentences(&interrupt, 100, 0, "").is_empty());
        interrupt.expect = capdl::scenario::Expect { lost: vec!["a".into()], ..Default::default() };
        assert!(sentences(&interrupt, 100, 0, "").is_empty());
    }

    #[test]
    fn forged_interrupts_do_not_count_for_polled_sessions() {
        let more = "virtual_functions = 1\n[[controller.namespace]]\nsize = \"64M\"\n";
        let polled = scenario("polled", more);
        assert_eq!(sentences(&polled, 100, 2, "").len(), 1);
        let attacker = format!(
            "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n{more}[[controller.namespace]]\n\
             size = \"64M\"\n[[tenant]]\nname = \"mallory\"\npath = \"function\"\nnamespace = 2\nqueue_pairs = 1\n\
             program.name = \"hostile\"\n[tenant.program.config]\n"
        );
        let mut beside = polled.clone();
        beside.tenants.extend(Scenario::parse(&attacker, "t.toml").unwrap().tenants);
        assert!(sentences(&beside, 100, 2, "").is_empty());
    }

    #[test]
    fn shared_interrupts_do_not_count_for_polled_sessions() {
        assert!(sentences(&scenario("polled", "interrupts = \"intx\""), 100, 5, "").is_empty());
        let mut many = scenario("polled", "");
        many.tenants[0].queue_pairs = 64;
        assert!(sentences(&many, 100, 5, "").is_empty());
    }
}
