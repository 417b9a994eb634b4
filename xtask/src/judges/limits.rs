//! Compares the limits of tenants with their loads' reports: in any time `t` at most `rate * t + burst` may be done.
//!
//! Judged in every run of a scenario with limits, over every row of intervals that a load reported. Requests in flight at the
//! start of the first interval may be done in it, so that much more may pass. Not judged: the time from the decision of a change
//! until it is in force; rows across a death, because a restarted component begins with a full burst; the time after a death
//! once a limit was changed, because a restarted server begins with the first limit; and the time after an operator's change.

use crate::judges::spans::reported;
use crate::records::results::Results;
use blk_api::config::RateLimit;
use capdl::Scenario;
use capdl::scenario::{Tenant, What, Workload};
use report::{Changed, Progress};

/// Bytes of a request, at most.
const MAX_REQUEST: u32 = 2 << 20;

/// Tenants for which more passed than their limits allow, one sentence each.
pub fn violations(scenario: &Scenario, results: &Results) -> Vec<String> {
    scenario.tenants.iter().flat_map(|tenant| of_tenant(scenario, tenant, results)).collect()
}

/// A time in which the limits do not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Epoch {
    since_ns: u64,
    until_ns: u64,
    limits: Limits,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limits {
    iops: Option<RateLimit>,
    bandwidth: Option<RateLimit>,
}

fn of_tenant(scenario: &Scenario, tenant: &Tenant, results: &Results) -> Vec<String> {
    let (requests, request_bytes) = match &tenant.workload {
        Workload::Bench(bench) => (bench.depth.into(), bench.block_bytes.max(bench.max_block_bytes)),
        Workload::Flood(flood) if flood.depth > 0 => (flood.depth.into(), MAX_REQUEST),
        Workload::Flood(_) => (tenant.ring_entries, MAX_REQUEST),
        _ => return Vec::new(),
    };
    let requests = u64::from(requests.max(1));
    let bytes = requests.saturating_mul(u64::from(request_bytes));
    let mut own: Vec<_> = results.timeline.progress.iter().filter(|one| one.tenant == tenant.name.as_str()).collect();
    own.sort_by_key(|one| one.since_ns);
    let mut violations = Vec::new();
    for epoch in epochs(scenario, tenant, results) {
        let inside = |one: &&&Progress| one.since_ns >= epoch.since_ns && one.until_ns <= epoch.until_ns;
        let row: Vec<_> = own.iter().filter(inside).copied().collect();
        let Limits { iops, bandwidth } = epoch.limits;
        let judged = [
            (iops, requests, "requests", (|one| one.operations) as fn(&Progress) -> u64),
            (bandwidth, bytes, "bytes", |one| one.bytes),
        ];
        for (limit, in_flight, what, amount) in judged {
            let Some(limit) = limit else { continue };
            if let Some((passed, allowed, ns)) = most_beyond(&row, amount, limit, in_flight) {
                let (name, ms, RateLimit { per_second, burst }) = (&tenant.name, ns / 1_000_000, limit);
                violations.push(format!(
                    "{name} had {passed} {what} done in {ms} ms, and its limit of {per_second} a second with a burst of \
                     {burst} lets {allowed} pass"
                ));
            }
        }
    }
    violations
}

/// The row of consecutive intervals that exceeds the limit the most: the amount done, the amount allowed, and its length.
fn most_beyond(
    row: &[&Progress],
    amount: fn(&Progress) -> u64,
    limit: RateLimit,
    in_flight: u64,
) -> Option<(u64, u64, u64)> {
    let mut most: Option<(u64, (u64, u64, u64))> = None;
    for (index, first) in row.iter().enumerate() {
        let mut passed = 0u64;
        for last in row.iter().skip(index) {
            passed = passed.saturating_add(amount(last));
            let ns = last.until_ns.saturating_sub(first.since_ns);
            let by_rate = u128::from(limit.per_second) * u128::from(ns) / 1_000_000_000;
            let by_rate = u64::try_from(by_rate).unwrap_or(u64::MAX);
            // One more for each end of the row, where times are rounded.
            let allowed = by_rate.saturating_add(limit.burst).saturating_add(in_flight).saturating_add(2);
            let beyond = passed.saturating_sub(allowed);
            if beyond > most.map_or(0, |(beyond, ..)| beyond) {
                most = Some((beyond, (passed, allowed, ns)));
            }
        }
    }
    most.map(|(_, row)| row)
}

/// The times in which the limits of `tenant` did not change, the earliest first.
fn epochs(scenario: &Scenario, tenant: &Tenant, results: &Results) -> Vec<Epoch> {
    /// Reason for the end of an epoch.
    enum End {
        Change { in_force_ns: u64, limits: Limits },
        Unknown,
        Death,
    }
    let mut limits = Limits { iops: tenant.iops, bandwidth: tenant.bandwidth };
    let mut ends: Vec<_> = results.restarts.iter().map(|restart| (restart.ended_at_ns, End::Death)).collect();
    for (number, change) in (1..).zip(&scenario.changes).filter(|(_, change)| change.tenant == tenant.name) {
        let What::Entitle(to) = &change.what else { continue };
        limits.iops = to.iops.unwrap_or(limits.iops);
        limits.bandwidth = to.bandwidth.unwrap_or(limits.bandwidth);
        match reported(scenario, number, results) {
            Some(reported) => {
                let in_force_ns = reported.at_ns.saturating_add(reported.took_ns);
                ends.push((reported.at_ns, End::Change { in_force_ns, limits }));
            }
            None => {
                let of_tenant = results.changes.iter().filter(|one| one.tenant == tenant.name.as_str());
                ends.push((of_tenant.map(|one| one.at_ns).min().unwrap_or(u64::MAX), End::Unknown));
            }
        }
    }
    if !scenario.changes.iter().any(|change| change.tenant == tenant.name) {
        // An operator's change.
        let others = results.changes.iter().filter(|one| one.tenant == tenant.name.as_str());
        let shares = others.filter(|one| one.what == Changed::Entitled);
        ends.extend(shares.map(|one| (one.at_ns, End::Unknown)));
    }
    ends.sort_by_key(|(at_ns, _)| *at_ns);
    let mut epochs = Vec::new();
    let mut epoch =
        Epoch { since_ns: 0, until_ns: u64::MAX, limits: Limits { iops: tenant.iops, bandwidth: tenant.bandwidth } };
    let mut changed = false;
    for (at_ns, end) in ends {
        epochs.push(Epoch { until_ns: at_ns, ..epoch });
        match end {
            End::Change { in_force_ns, limits } => {
                changed = true;
                epoch = Epoch { since_ns: in_force_ns, limits, ..epoch };
            }
            End::Death if !changed => epoch.since_ns = at_ns,
            End::Death | End::Unknown => return epochs,
        }
    }
    epochs.push(epoch);
    epochs
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Change, Report, Restart, Stamped, clip};
    use std::time::Duration;

    /// A tenant with `limit`, and perhaps a change of it; two requests in flight.
    fn scenario(limit: &str, change: &str) -> Scenario {
        let text = format!(
            "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"d\"\n[[controller.namespace]]\nsize = \"64M\"\n\
             [[tenant]]\nname = \"a\"\nqueue_pairs = 1\nextents = [{{ first = 0, blocks = 1024 }}]\n{limit}\n\
             program.name = \"bench\"\n[tenant.program.config]\ndepth = 2\n{change}\n"
        );
        Scenario::parse(&text, "t.toml").unwrap()
    }

    const LIMIT: &str = "iops = { per_second = 100, burst = 5 }";
    const CHANGE: &str = "[[change]]\nafter_ms = 100\ntenant = \"a\"\niops = { per_second = 20, burst = 1 }\n";

    /// Intervals of 100 ms, from the beginning on.
    fn progress(operations: &[u64]) -> Vec<Report> {
        let one = |(number, operations): (u64, &u64)| {
            let (since_ns, until_ns) = (number * 100_000_000, (number + 1) * 100_000_000);
            let (operations, bytes) = (*operations, *operations * 4096);
            Report::Progress(Progress { tenant: clip("a"), since_ns, until_ns, operations, bytes, max_ns: 0 })
        };
        (0..).zip(operations).map(one).collect()
    }

    fn judged(scenario: &Scenario, reports: impl IntoIterator<Item = Report>) -> Vec<String> {
        let mut results = Results::default();
        for report in reports {
            results.take(Stamped { at_ns: 0, report }, Duration::ZERO);
        }
        violations(scenario, &results)
    }

    #[test]
    fn limit_passes_rate_and_one_burst_in_every_interval() {
        let scenario = scenario(LIMIT, "");
        // 10 per interval, 5 at once, 2 in flight and 2 for rounding.
        assert_eq!(judged(&scenario, progress(&[19, 10, 10])), [""; 0]);
        assert_eq!(judged(&scenario, progress(&[0, 0, 19, 10])), [""; 0]);
        let off = judged(&scenario, progress(&[0, 0, 0, 20, 11, 0]));
        assert_eq!(
            off,
            ["a had 31 requests done in 200 ms, and its limit of 100 a second with a burst of 5 lets 29 pass"]
        );
        assert_eq!(judged(&super::tests::scenario("", ""), progress(&[9_999])), [""; 0]);
    }

    #[test]
    fn bytes_have_a_limit_of_their_own() {
        let scenario = scenario("bandwidth = { per_second = \"400K\", burst = \"8K\" }", "");
        assert_eq!(judged(&scenario, progress(&[14])), [""; 0]);
        assert!(judged(&scenario, progress(&[15]))[0].starts_with("a had 61440 bytes done in 100 ms"));
    }

    #[test]
    fn limit_counts_until_an_operator_changes_the_share() {
        let what = Changed::Entitled;
        let change = Change { policy: clip("p"), tenant: clip("a"), what, at_ns: 100_000_000, took_ns: 1_000_000 };
        let run = |operations: &[u64]| {
            judged(&scenario(LIMIT, ""), progress(operations).into_iter().chain([Report::Change(change.clone())]))
        };
        assert_eq!(run(&[19, 9_999, 9_999]), [""; 0]);
        assert_eq!(run(&[20, 9_999]).len(), 1);
    }

    #[test]
    fn another_limit_counts_from_when_it_is_in_force() {
        let scenario = scenario(LIMIT, CHANGE);
        let what = Changed::Entitled;
        let change = Change { policy: clip("p"), tenant: clip("a"), what, at_ns: 150_000_000, took_ns: 1_000_000 };
        let run = |operations: &[u64]| {
            judged(&scenario, progress(operations).into_iter().chain([Report::Change(change.clone())]))
        };
        // The interval of the change itself is not judged.
        assert_eq!(run(&[19, 99, 7, 2]), [""; 0]);
        let off = run(&[19, 99, 8, 2]);
        assert_eq!(
            off,
            ["a had 8 requests done in 100 ms, and its limit of 20 a second with a burst of 1 lets 7 pass"]
        );
        assert_eq!(run(&[20]).len(), 1);
    }

    #[test]
    fn server_restart_refills_the_burst() {
        let restart = |at_ns| {
            let (name, took_ns, memory_left_bytes) = (clip("nvme-server"), 1_000, 0);
            Report::Restart(Restart { name, times: 1, ended_at_ns: at_ns, took_ns, memory_left_bytes })
        };
        let scenario = scenario(LIMIT, "");
        assert_eq!(judged(&scenario, progress(&[19, 19]).into_iter().chain([restart(100_000_000)])), [""; 0]);
        assert_eq!(judged(&scenario, progress(&[19, 19])).len(), 1);
        let change = super::tests::scenario(LIMIT, CHANGE);
        let what = Changed::Entitled;
        let reported = Change { policy: clip("p"), tenant: clip("a"), what, at_ns: 100_000_000, took_ns: 0 };
        let reports = [Report::Change(reported), restart(200_000_000)];
        assert_eq!(judged(&change, progress(&[19, 7, 19]).into_iter().chain(reports)), [""; 0]);
    }
}
