//! The judgement of telemetry: the sums in the pages are those that the servers reported when the sessions ended, or that the clients
//! with virtual functions reported. The latencies of traced requests are those of the statistics.

use crate::records::results::Results;
use crate::telemetry::events::Events;
use crate::telemetry::requests::Requests;
use crate::telemetry::sample::Sample;
use crate::telemetry::saved::{self, Summary};
use anyhow::Result;
use blk_api::telemetry::{READS, Session, WRITES};
use blk_api::trace::Kinds;
use capdl::Scenario;
use capdl::scenario::{Tenant, Workload};
use std::path::Path;

/// Differences between the last contents of the pages and the reports of servers and clients, and tenants whose pages cannot be read.
pub fn differences(scenario: &Scenario, last: &Sample, results: &Results) -> Vec<String> {
    if scenario.telemetry.is_none() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for session in &results.sessions {
        let tenant = session.tenant.as_str();
        // A session that was opened again reports once for each of its ends, and its page has the last.
        let is_last = results.sessions.iter().rfind(|one| one.tenant == session.tenant) == Some(session);
        match last.tenants.get(tenant) {
            // A restarted server has written no page of a session that it did not open.
            None if results.servers.get(tenant).is_some_and(|server| died(results, server)) => {}
            None => all.push(format!("{tenant} has no page of telemetry that can be read")),
            Some((server, page)) if is_last && page.is_open == 0 && !died(results, server) => {
                all.extend(difference(tenant, session, page));
            }
            Some(_) => {}
        }
    }
    for tenant in scenario.controllers.iter().flat_map(|one| scenario.functions(&one.name)) {
        let Some(reported) = Moved::of(tenant, results) else { continue };
        let has_ended = |page: &Session| page.openings == 1 && page.is_open == 0 && !died(results, &tenant.name);
        match last.tenants.get(&tenant.name) {
            None => all.push(format!("{} has no page of telemetry that can be read", tenant.name)),
            Some((_, page)) if has_ended(page) => all.extend(reported.difference(&tenant.name, page)),
            Some(_) => {}
        }
    }
    all
}

/// Whether a component died.
fn died(results: &Results, component: &str) -> bool {
    results.faults.iter().any(|fault| fault.fault.name == component)
}

/// The bytes that a client reports to have moved.
struct Moved {
    read: u64,
    written: u64,
    /// The client has moved no others.
    is_all: bool,
}

impl Moved {
    /// The report of a tenant's client, if it makes one.
    fn of(tenant: &Tenant, results: &Results) -> Option<Self> {
        let name = tenant.name.as_str();
        if let Some(digest) = results.digests.iter().find(|digest| digest.tenant == name) {
            return Some(Self { read: digest.bytes, written: 0, is_all: true });
        }
        let load = results.tenants.iter().rfind(|load| load.tenant == name)?;
        let bytes = |requests: u64| requests.saturating_mul(load.block_bytes.into());
        // Otherwise the load is a part of what its client reads and writes, or its requests are larger.
        let is_all = match &tenant.workload {
            Workload::Bench(bench) => {
                !bench.verify && !bench.zeroes && !bench.compares && bench.max_block_bytes == 0 && load.errors == 0
            }
            _ => false,
        };
        Some(Self { read: bytes(load.reads), written: bytes(load.writes), is_all })
    }

    /// The first sum of the client's page that cannot be with this report.
    fn difference(&self, tenant: &str, page: &Session) -> Option<String> {
        let Self { read, written, is_all } = *self;
        let pairs = [("read", page.sums.read_bytes, read), ("written", page.sums.written_bytes, written)];
        let wrong = pairs.into_iter().find(|(_, shown, moved)| shown < moved || (is_all && shown > moved));
        wrong.map(|(what, shown, moved)| {
            format!("the telemetry of {tenant} has {shown} bytes {what}, and its client reported {moved}")
        })
    }
}

/// Saves the traces of a run in its folder, if it has one, and returns their differences from the last statistics.
///
/// # Errors
/// A file cannot be written.
pub fn traces(
    scenario: &Scenario,
    last: &Sample,
    results: &Results,
    events: &Events,
    folder: Option<&Path>,
) -> Result<Vec<String>> {
    let traced = |tenant: &&Tenant| scenario.traced(tenant) == Kinds::ALL;
    if scenario.telemetry.as_ref().is_none_or(|telemetry| telemetry.trace_pages == 0) {
        return Ok(Vec::new());
    }
    let requests = Requests::of(events);
    let summary = Summary::of(events, &requests, last);
    if let Some(folder) = folder {
        saved::save_in(folder, events.places(), &requests, &summary)?;
    }
    let mut all = Vec::new();
    for tenant in scenario.tenants.iter().filter(traced) {
        let name = &tenant.name;
        let Some((server, page)) = last.tenants.get(name) else { continue };
        let is_comparable = page.openings == 1 && page.latency_sums.iter().any(|sum| *sum > 0);
        if died(results, name) || died(results, server) || !is_comparable || summary.lost > 0 {
            continue;
        }
        all.extend(disagreement(name, summary.latencies.get(name).copied()));
    }
    Ok(all)
}

/// Nanoseconds by which the mean latency of a trace may differ from that of the statistics: both ends of a trace's are rounded.
const TOLERANCE: f64 = 1.0;

/// A tenant's traced latency, if it is not that of the statistics.
fn disagreement(tenant: &str, latencies: Option<(f64, f64)>) -> Option<String> {
    let Some((counted, traced)) = latencies else { return Some(format!("{tenant} has no traced request")) };
    ((counted - traced).abs() > TOLERANCE).then(|| {
        format!("the traced requests of {tenant} take {traced:.0} ns each, and its statistics have {counted:.0}")
    })
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
    use crate::records::results::Faulted;
    use report::{Fault, FaultKind, clip};

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
    fn latencies_that_differ_are_named() {
        assert_eq!(disagreement("alice", Some((1000.0, 1000.9))), None);
        let sentence = disagreement("alice", Some((1000.0, 1002.0))).unwrap();
        assert_eq!(sentence, "the traced requests of alice take 1002 ns each, and its statistics have 1000");
        assert_eq!(disagreement("alice", None).unwrap(), "alice has no traced request");
    }

    #[test]
    fn a_client_has_moved_what_it_reports() {
        let mut page = page(5, 5);
        page.sums.read_bytes = 4096;
        let moved = |read, is_all| Moved { read, written: 0, is_all }.difference("frida", &page);
        assert_eq!((moved(4096, true), moved(512, false)), (None, None), "it may have read more beside its load");
        let sentence = "the telemetry of frida has 4096 bytes read, and its client reported 512";
        assert_eq!(moved(512, true).unwrap(), sentence);
        assert!(moved(8192, false).is_some());
    }

    #[test]
    fn page_may_be_missing_after_the_death_of_its_server_alone() {
        let text = "name = \"t\"\ndescription = \"t\"\n[telemetry]\n[[controller]]\nname = \"d\"\n[[controller.namespace]]\nsize = \"1M\"\n\
                    [[tenant]]\nname = \"alice\"\nqueue_pairs = 1\nextents = [{ first = 0, blocks = 64 }]\nprogram.name = \"bench\"\n";
        let scenario = Scenario::parse(text, "t.toml").unwrap();
        let mut results = Results { sessions: vec![reported(5)], ..Results::default() };
        results.take_scenario(&scenario);
        let missing = |results: &Results| differences(&scenario, &Sample::default(), results);
        assert_eq!(missing(&results), ["alice has no page of telemetry that can be read"]);
        let fault =
            Fault { component: 3, name: clip("nvme-server"), kind: FaultKind::Killed, address: 0, instruction: 0 };
        results.faults.push(Faulted { at_ns: 7, fault });
        assert_eq!(missing(&results), [""; 0]);
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
