//! Rates of tenants' loads: requests and bytes a second.

use crate::records::results::Results;
use anyhow::{Context, Result};
use report::{Load, Progress};

/// Begin and end of the load's measured part, nanoseconds of machine time.
pub const fn measured(load: &Load) -> (u64, u64) {
    (load.began_ns, load.began_ns.saturating_add(load.elapsed_ns))
}

/// Requests per second in the measured part.
pub fn iops(load: &Load) -> f64 {
    load.reads.saturating_add(load.writes) as f64 * 1e9 / load.elapsed_ns.max(1) as f64
}

/// Bytes per second in the measured part. The mean size of varying requests is that of the intervals in it.
pub fn bytes_a_second(results: &Results, load: &Load) -> f64 {
    let (operations, bytes, _) = sums_inside(results, load.tenant.as_str(), measured(load));
    let each = if operations > 0 { bytes as f64 / operations as f64 } else { f64::from(load.block_bytes) };
    iops(load) * each
}

/// Requests per second in the intervals of `tenant` that lie in a part of the run; `None` without such an interval.
pub(crate) fn iops_inside(results: &Results, tenant: &str, part: (u64, u64)) -> Option<f64> {
    let (operations, _, ns) = sums_inside(results, tenant, part);
    (ns > 0).then(|| operations as f64 * 1e9 / ns as f64)
}

/// Requests, bytes and nanoseconds of the tenant's intervals that lie in a part of the run.
fn sums_inside(results: &Results, tenant: &str, (since_ns, until_ns): (u64, u64)) -> (u64, u64, u64) {
    let inside = |one: &&Progress| one.since_ns >= since_ns && one.until_ns <= until_ns;
    intervals(results, tenant).filter(inside).fold((0, 0, 0), |(operations, bytes, ns), one| {
        let took_ns = one.until_ns.saturating_sub(one.since_ns);
        (operations.saturating_add(one.operations), bytes.saturating_add(one.bytes), ns.saturating_add(took_ns))
    })
}

/// Requests per second of a tenant in a part of the run; an interval that is only partly inside counts in proportion.
pub fn iops_between(results: &Results, tenant: &str, (since_ns, until_ns): (u64, u64)) -> f64 {
    let operations = intervals(results, tenant).map(|one| {
        let inside = one.until_ns.min(until_ns).saturating_sub(one.since_ns.max(since_ns));
        one.operations as f64 * inside as f64 / one.until_ns.saturating_sub(one.since_ns).max(1) as f64
    });
    operations.sum::<f64>() * 1e9 / until_ns.saturating_sub(since_ns).max(1) as f64
}

/// Start and end of a tenant's load, as it reported them: nanoseconds of machine time.
pub fn time_of(results: &Results, tenant: &str) -> Result<(u64, u64)> {
    let own = || intervals(results, tenant);
    let ends = own().map(|one| one.since_ns).min().zip(own().map(|one| one.until_ns).max());
    ends.with_context(|| format!("{tenant} reported no progress"))
}

fn intervals<'a>(results: &'a Results, tenant: &str) -> impl Iterator<Item = &'a Progress> {
    results.timeline.progress.iter().filter(move |one| one.tenant == tenant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Progress, clip};

    #[test]
    fn an_interval_counts_with_its_part() {
        let mut results = Results::default();
        results.timeline.progress = [(0, 100, 10), (100, 200, 20), (200, 300, 40)]
            .map(|(since_ns, until_ns, operations)| Progress {
                tenant: clip("a"),
                since_ns: since_ns * 1_000_000,
                until_ns: until_ns * 1_000_000,
                operations,
                ..Progress::default()
            })
            .into();
        assert_eq!(time_of(&results, "a").unwrap(), (0, 300_000_000));
        // A half of 10, all of 20, a quarter of 40.
        let iops = iops_between(&results, "a", (50_000_000, 225_000_000));
        assert!((iops - 35.0 / 0.175).abs() < 1e-6, "{iops}");
        assert!(time_of(&results, "b").is_err());
    }
}
