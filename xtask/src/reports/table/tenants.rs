//! The table of tenants' loads.
//!
//! A load's rate and latencies are those of its measured part, which its own row names. Loads are measured at different times, so rates
//! of several rows do not add up; `limits` adds them for the time that they share.

use super::parts::{Part, began_ns, micros, size};
use crate::records::rates::{bytes_a_second, iops, measured};
use crate::records::results::Results;
use crate::records::timeline::What;
use crate::reports::sheet::{Sheet, Value};
use report::Load;

/// Classes, the most urgent first.
const CLASSES: [&str; 4] = ["urgent", "high", "medium", "low"];

/// Loads, the most urgent first. Times count from the zero of the run's times.
pub(super) fn tenants(results: &Results) -> Option<Part> {
    let mut sheet = Sheet::new([
        "tenant",
        "class",
        "queue pairs",
        "depth",
        "request",
        "session s",
        "measured from s",
        "to s",
        "reads",
        "writes",
        "IOPS",
        "MB/s",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "verified",
        "forbidden",
    ]);
    let mut loads: Vec<&Load> = results.tenants.iter().collect();
    loads.sort_by_key(|load| CLASSES.iter().position(|class| load.class == *class));
    for load in loads {
        let time = |ns| Value::Number(seconds(results, ns));
        let (from_ns, to_ns) = measured(load);
        sheet.row([
            Value::Word(load.tenant.to_string()),
            Value::Word(classes(results, load)),
            Value::Number(load.queue_pairs.to_string()),
            Value::Number(load.depth.to_string()),
            Value::Number(size(u64::from(load.block_bytes))),
            time(session_ns(results, load)),
            time(from_ns),
            time(to_ns),
            Value::Number(load.reads.to_string()),
            Value::Number(load.writes.to_string()),
            Value::Number(whole_iops(load)),
            Value::Number(format!("{:.1}", bytes_a_second(results, load) / 1e6)),
            Value::Number(micros(load.p50_ns)),
            Value::Number(micros(load.p99_ns)),
            Value::Number(micros(load.p999_ns)),
            Value::Number(micros(load.max_ns)),
            Value::Number(size(load.verified_bytes)),
            Value::Number(load.forbidden.to_string()),
        ]);
    }
    (!sheet.is_empty()).then_some(Part::Table("Tenants", sheet))
}

/// Seconds from the zero of the run's times.
pub(super) fn seconds(results: &Results, at_ns: u64) -> String {
    format!("{:.2}", at_ns.saturating_sub(began_ns(results)) as f64 / 1e9)
}

/// Whole requests per second in the measured part.
pub(super) fn whole_iops(load: &Load) -> String {
    iops(load).floor().to_string()
}

/// Time at which the load's session was opened, or its component was started where no server opens one.
fn session_ns(results: &Results, load: &Load) -> u64 {
    let tenant = load.tenant.as_str();
    let incarnations = results.timeline.incarnations_of(tenant);
    let start =
        incarnations.iter().rfind(|(since, _)| *since <= load.began_ns).map_or(load.began_ns, |(since, _)| *since);
    let opened = results.timeline.events_of(tenant).into_iter().filter(|event| event.what == What::Opened);
    opened.map(|event| event.at_ns).find(|at_ns| (start..=load.began_ns).contains(at_ns)).unwrap_or(start)
}

/// The class at the start, and each later one until the load's end with its time.
fn classes(results: &Results, load: &Load) -> String {
    let mut words = load.class.to_string();
    for (index, change) in results.changes.iter().enumerate().filter(|(_, change)| change.tenant == load.tenant) {
        let since_ns = change.at_ns.saturating_add(change.took_ns);
        let class = results.planned(index).and_then(|planned| planned.class).filter(|_| since_ns <= measured(load).1);
        let later = class.map(|class| format!(", {} from {} s", class.name(), seconds(results, since_ns)));
        words.push_str(&later.unwrap_or_default());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::results::tests::of_reports;
    use report::{Change, Changed, Progress, Report, clip};

    fn load(began_ms: u64, elapsed_ms: u64) -> Load {
        let (tenant, class) = (clip("a"), clip("high"));
        let (began_ns, elapsed_ns) = (began_ms * 1_000_000, elapsed_ms * 1_000_000);
        Load { tenant, class, block_bytes: 4096, reads: 1_000, began_ns, elapsed_ns, ..Load::default() }
    }

    #[test]
    fn a_class_that_changed_is_shown_as_it_was_over_time() {
        let change = |at_ms: u64| {
            let (policy, tenant, what) = (clip("policy"), clip("a"), Changed::Entitled);
            Report::Change(Change { policy, tenant, what, at_ns: at_ms * 1_000_000, took_ns: 0 })
        };
        let scenario = "[[change]]\nafter_ms = 100\ntenant = \"a\"\nclass = \"low\"\n\
            [[change]]\nafter_ms = 200\ntenant = \"a\"\nweight = 2\n[[change]]\nafter_ms = 300\ntenant = \"a\"\nclass = \"high\"\n";
        let results = of_reports(scenario, [(2_000, change(2_000)), (2_500, change(2_500)), (4_000, change(4_000))]);
        assert_eq!(classes(&results, &load(1_000, 2_000)), "high, low from 2.00 s");
        assert_eq!(classes(&results, &load(1_000, 3_000)), "high, low from 2.00 s, high from 4.00 s");
    }

    #[test]
    fn a_load_has_the_times_of_its_session_and_of_its_measured_part() {
        let opened = |at_ms| (at_ms, Report::Opened { tenant: clip("a"), pages_left: 9, io_tables_left: 9 });
        let progress = |since_ms: u64, bytes| {
            let (since_ns, until_ns) = (since_ms * 1_000_000, (since_ms + 100) * 1_000_000);
            (
                since_ms + 100,
                Report::Progress(Progress { tenant: clip("a"), since_ns, until_ns, operations: 10, bytes, max_ns: 1 }),
            )
        };
        let started = crate::records::timeline::tests::started("a");
        let results =
            of_reports("", [(100, started), opened(150), progress(900, 1), progress(1_000, 81_920), opened(1_500)]);
        let load = load(1_000, 500);
        assert_eq!(session_ns(&results, &load), 150_000_000);
        assert_eq!((iops(&load), bytes_a_second(&results, &load)), (2_000.0, 2_000.0 * 8192.0));
        let alone = of_reports("", []);
        assert_eq!((session_ns(&alone, &load), bytes_a_second(&alone, &load)), (1_000_000_000, 2_000.0 * 4096.0));
    }
}
