//! Limits of controllers beside the rates that they served.
//!
//! The loads of a controller's tenants are measured at different times, so their rates may add up to more than the controller's limit.
//! The rates are added here for the time in which all of them were measured.

use super::tenants::seconds;
use crate::records::plan::Limit;
use crate::records::rates::{iops_inside, measured};
use crate::records::results::Results;
use report::{Load, Progress};
use std::collections::BTreeMap;

/// Bytes that a controller's limit counts as one.
const UNIT_BYTES: u64 = 4096;

/// A line for each limited controller that several tenants loaded.
pub(super) fn limits(results: &Results) -> Option<String> {
    let lines = results.plan.limits.iter().filter_map(|(server, limit)| line(results, server, limit));
    let text = lines.collect::<String>();
    (!text.is_empty()).then_some(text)
}

fn line(results: &Results, server: &str, limit: &Limit) -> Option<String> {
    let Limit { controller, per_second } = limit;
    let is_served = |load: &&Load| results.servers.get(load.tenant.as_str()).is_some_and(|own| own == server);
    // A tenant that was started again has several loads; the last one counts.
    let loads: BTreeMap<&str, &Load> =
        results.tenants.iter().filter(is_served).map(|load| (load.tenant.as_str(), load)).collect();
    (loads.len() > 1).then_some(())?;
    let parts = || loads.values().map(|load| measured(load));
    let from_ns = parts().map(|(from_ns, _)| from_ns).max()?;
    let to_ns = parts().map(|(_, to_ns)| to_ns).min()?;
    let burst = per_second / 10;
    let limit = format!(
        "Controller {controller} serves {per_second} requests of 4 KiB a second at most, after a burst of {burst}"
    );
    let served: Option<f64> = loads.keys().map(|tenant| units(results, tenant, (from_ns, to_ns))).sum();
    Some(match served {
        Some(served) => format!(
            "{limit}. From {} to {} s, while its {} loads were measured together, it served {served:.0}.\n",
            seconds(results, from_ns),
            seconds(results, to_ns),
            loads.len()
        ),
        None => format!(
            "{limit}. Its {} loads were not measured at the same time, so their rates do not add up.\n",
            loads.len()
        ),
    })
}

/// Units of 4 KiB that the tenant was served per second in a part of the run; `None` if none of its intervals lies in it.
fn units(results: &Results, tenant: &str, (from_ns, to_ns): (u64, u64)) -> Option<f64> {
    let inside = |one: &&Progress| one.tenant == tenant && one.since_ns >= from_ns && one.until_ns <= to_ns;
    let sum = |(operations, units): (u64, u64), one: &Progress| {
        let of_interval = one.operations.max(one.bytes.div_ceil(UNIT_BYTES));
        (operations.saturating_add(one.operations), units.saturating_add(of_interval))
    };
    let (operations, units) = results.timeline.progress.iter().filter(inside).fold((0, 0), sum);
    Some(iops_inside(results, tenant, (from_ns, to_ns))? * units as f64 / operations.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::results::tests::of_reports;
    use report::{Report, clip};

    /// A load that was measured in a part of the run, in milliseconds, with reports of its progress.
    fn measured_load(
        tenant: &str,
        (from_ms, to_ms): (u64, u64),
        per_100_ms: u64,
        request_bytes: u32,
    ) -> Vec<(u64, Report)> {
        let progress = |ms: u64| {
            let (tenant, bytes) = (clip(tenant), per_100_ms * u64::from(request_bytes));
            let (since_ns, until_ns) = (ms * 1_000_000, (ms + 100) * 1_000_000);
            (
                ms + 100,
                Report::Progress(Progress { tenant, since_ns, until_ns, operations: per_100_ms, bytes, max_ns: 1 }),
            )
        };
        let (began_ns, elapsed_ns) = (from_ms * 1_000_000, (to_ms - from_ms) * 1_000_000);
        let reads = per_100_ms * (to_ms - from_ms) / 100;
        let load =
            Load { tenant: clip(tenant), began_ns, elapsed_ns, reads, block_bytes: request_bytes, ..Load::default() };
        (from_ms..to_ms).step_by(100).map(progress).chain([(to_ms, Report::Load(load))]).collect()
    }

    #[test]
    fn rates_are_added_for_the_time_that_the_loads_share() {
        let limited = |a: (u64, u64), b: (u64, u64), size| {
            let reports = [measured_load("a", a, 200, 4096), measured_load("b", b, 100, size)].concat();
            limits(&of_reports("", reports)).unwrap()
        };
        let limit = "Controller disk serves 4000 requests of 4 KiB a second at most, after a burst of 400";
        let together = "From 1.50 to 2.00 s, while its 2 loads were measured together, it served";
        assert_eq!(limited((1_000, 2_000), (1_500, 3_000), 4096), format!("{limit}. {together} 3000.\n"));
        assert_eq!(limited((1_000, 2_000), (1_500, 3_000), 512), format!("{limit}. {together} 3000.\n"));
        assert_eq!(limited((1_000, 2_000), (1_500, 3_000), 16_384), format!("{limit}. {together} 6000.\n"));
        let apart = "Its 2 loads were not measured at the same time, so their rates do not add up";
        assert_eq!(limited((1_000, 2_000), (2_000, 3_000), 4096), format!("{limit}. {apart}.\n"));
        assert_eq!(limits(&of_reports("", measured_load("a", (1_000, 2_000), 200, 4096))), None, "one load says all");
    }
}
