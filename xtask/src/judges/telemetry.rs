//! The judgement of telemetry: the sums in the pages are those that the servers reported when the sessions ended.

use crate::records::results::Results;
use crate::telemetry::sample::Sample;
use blk_api::telemetry::{READS, Session, WRITES};
use capdl::Scenario;

/// Differences between the last contents of the pages and the servers' reports, and tenants whose pages cannot be read.
pub fn differences(scenario: &Scenario, last: &Sample, results: &Results) -> Vec<String> {
    if scenario.telemetry.is_none() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for session in &results.sessions {
        let tenant = session.tenant.as_str();
        // A session that was opened again reports once for each of its ends, and its page has the last.
        let is_last = results.sessions.iter().rfind(|one| one.tenant == session.tenant) == Some(session);
        let died = |server: &str| results.faults.iter().any(|fault| fault.fault.name == server);
        match last.tenants.get(tenant) {
            None => all.push(format!("{tenant} has no page of telemetry that can be read")),
            Some((server, page)) if is_last && page.is_open == 0 && !died(server) => {
                all.extend(difference(tenant, session, page));
            }
            Some(_) => {}
        }
    }
    all
}

/// The first sum of a session's page that is not the reported one.
fn difference(tenant: &str, reported: &report::Session, page: &Session) -> Option<String> {
    let sums = &page.sums;
    let interrupts = reported.interrupts.msix + reported.interrupts.msi + reported.interrupts.intx;
    let pairs = [
        ("requests", sums.requests, reported.requests),
        ("refused requests", sums.refused, reported.refused),
        ("commands", sums.commands, reported.commands),
        ("bytes read", sums.read_bytes, reported.read_bytes),
        ("bytes written", sums.written_bytes, reported.written_bytes),
        ("errors", sums.errors, reported.errors),
        ("doorbells", sums.doorbells, reported.doorbells),
        ("interrupts", sums.interrupts, interrupts),
        ("notifications", sums.notifications, reported.notifications),
        ("requests without a record", sums.not_installed, reported.not_installed),
        ("forbidden requests", sums.forbidden, reported.forbidden),
    ];
    let of_sums = pairs.into_iter().find(|(_, shown, reported)| shown != reported);
    let of_sums = of_sums.map(|(what, shown, reported)| {
        format!("the telemetry of {tenant} has {shown} {what}, and its server reported {reported}")
    });
    // Each request that was done has a latency; those without blocks have no direction.
    let counted: u64 =
        [READS, WRITES].into_iter().flat_map(|one| page.latencies[one].counts()).copied().map(u64::from).sum();
    let too_many = || format!("the telemetry of {tenant} has {counted} latencies of {} requests", sums.requests);
    of_sums.or_else(|| (counted > sums.requests).then(too_many))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(requests: u64, latencies: u64) -> Session {
        let mut page = Session::default();
        page.sums.requests = requests;
        (0..latencies).for_each(|latency| page.latencies[READS].record(latency, 1));
        page
    }

    fn reported(requests: u64) -> report::Session {
        report::Session {
            tenant: report::clip("alice"),
            ended_by: report::Text::new(),
            requests,
            refused: 0,
            commands: 0,
            read_bytes: 0,
            written_bytes: 0,
            errors: 0,
            doorbells: 0,
            interrupts: report::Interrupts::default(),
            notifications: 0,
            not_installed: 0,
            forbidden: 0,
            queue_pairs: 1,
            depth: 1,
        }
    }

    #[test]
    fn sums_that_differ_are_named() {
        assert_eq!(difference("alice", &reported(5), &page(5, 5)), None);
        let sentence = difference("alice", &reported(6), &page(5, 5)).unwrap();
        assert_eq!(sentence, "the telemetry of alice has 5 requests, and its server reported 6");
        let sentence = difference("alice", &reported(5), &page(5, 6)).unwrap();
        assert_eq!(sentence, "the telemetry of alice has 6 latencies of 5 requests");
    }
}
