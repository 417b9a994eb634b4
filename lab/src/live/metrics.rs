//! The telemetry of a system in OpenMetrics (version 1.0.0), for Prometheus and its kin.
//!
//! The metrics are sums, never rates. A new incarnation of the server, or a new opening of the session, sets a sum to 0. Readers of
//! counters take that for a reset. Times are in seconds, and latencies have a bucket for each power of two of the clock's
//! ticks, whose bounds do not depend on the values.

use blk_api::telemetry::{READS, Server, Session, WRITES};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeSet;
use std::fmt;
use telemetry::histogram;
use xtask::telemetry::sample::Sample;

/// Buckets of a histogram in one bucket of the metrics, and the first of them.
const IN_ONE: usize = 8;
const FIRST: usize = 64;

/// Content type of the text, and of that of [`classic`].
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(crate) const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether a reader who accepts these content types wants the form before OpenMetrics.
pub(crate) fn is_classic(accepts: &str) -> bool {
    accepts.contains("text/plain") && !accepts.contains("openmetrics")
}

/// The text in Prometheus's form before OpenMetrics: a counter's family has the name of its samples, units and an end are unknown.
pub(crate) fn classic(text: &str) -> String {
    let counters: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let line = |line: &str| {
        let described =
            ["# HELP ", "# TYPE "].into_iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?.split_once(' ')?)));
        match described {
            Some((kind, (name, rest))) if counters.contains(name) => Some(format!("{kind}{name}_total {rest}\n")),
            _ if line.starts_with("# UNIT ") || line == "# EOF" => None,
            _ => Some(format!("{line}\n")),
        }
    };
    text.lines().filter_map(line).collect()
}

/// The text.
///
/// # Errors
/// None occurs: a string takes all text.
pub(crate) fn text(sample: &Sample) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("capnvme");
    registry.register_collector(Box::new(System(sample.clone())));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct System(Sample);

/// A sum of a session: its name, its help, its unit, and the value.
type Sum = (&'static str, &'static str, Option<Unit>, fn(&Session) -> u64);

const SUMS: [Sum; 7] = [
    ("requests", "Requests taken from the tenant's ring", None, |one| one.sums.requests),
    ("refused_requests", "Requests refused by a check", None, |one| one.sums.refused),
    ("commands", "Commands submitted to the controller", None, |one| one.sums.commands),
    ("errors", "Commands that the controller failed", None, |one| one.sums.errors),
    ("forbidden_requests", "Requests without the right to their blocks", None, |one| one.sums.forbidden),
    ("missed_requests", "Requests without a record of their blocks", None, |one| one.sums.not_installed),
    ("notifications", "Signals to the tenant's client", None, |one| one.sums.notifications),
];

/// A value of a session that goes up and down.
type Gauge = (&'static str, &'static str, fn(&Session) -> u64);

const GAUGES: [Gauge; 4] = [
    ("session_open", "1 while the session is open", |one| one.is_open.into()),
    ("ring_entries", "Entries on the tenant's ring", |one| one.in_ring.into()),
    ("device_commands", "The tenant's commands at the controller", |one| one.in_device.into()),
    ("queue_pairs", "Queue pairs that the tenant's commands go to", |one| one.queue_pairs.into()),
];

/// A value of a server: its name, its help, its type, and the value.
type Value = (&'static str, &'static str, MetricType, fn(&Server) -> u64);

const OF_SERVERS: [Value; 5] = [
    ("server_wake_ups", "Events that the server waited for in the kernel", MetricType::Counter, |one| one.wake_ups),
    ("server_passes", "Passes of the server over its ready sessions", MetricType::Counter, |one| one.passes),
    ("controller_faults", "Faults after which a part of the controller was recreated", MetricType::Counter, |one| {
        one.faults
    }),
    ("controller_up", "1 while the controller takes commands", MetricType::Gauge, |one| one.is_up.into()),
    ("open_sessions", "Sessions that are open", MetricType::Gauge, |one| one.open_sessions.into()),
];

impl Collector for System {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, unit, value) in &SUMS {
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
            self.each_session(|labels, session, _| counter(&mut family.encode_family(&labels)?, value(session)))?;
        }
        for (name, help, value) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            self.each_session(|labels, session, _| family.encode_family(&labels)?.encode_gauge(&value(session)))?;
        }
        let (help, unit) = ("Time in which the scheduling policy withheld the tenant's turn", Some(&Unit::Seconds));
        let mut family = encoder.encode_descriptor("held_back", help, unit, MetricType::Counter)?;
        self.each_session(|labels, session, server| {
            let seconds = seconds(session.held_back, server);
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&seconds, None)
        })?;
        let (help, unit) = ("Bytes read and written", Some(&Unit::Bytes));
        let mut family = encoder.encode_descriptor("transferred", help, unit, MetricType::Counter)?;
        self.each_direction(|labels, session, _, direction| {
            let bytes = [session.sums.read_bytes, session.sums.written_bytes][direction];
            counter(&mut family.encode_family(&labels)?, bytes)
        })?;
        let (help, unit) = ("From the taking of a request to its answer", Some(&Unit::Seconds));
        let mut family = encoder.encode_descriptor("latency", help, unit, MetricType::Histogram)?;
        self.each_direction(|labels, session, server, direction| {
            let buckets = buckets(session, server, direction);
            let count = buckets.iter().map(|(_, count)| count).sum();
            let sum = seconds(session.latency_sums[direction], server);
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        })?;
        for (name, help, metric, value) in OF_SERVERS {
            let mut family = encoder.encode_descriptor(name, help, None, metric)?;
            for (server, page) in &self.0.servers {
                let labels = [("server", server.as_str())];
                let mut one = family.encode_family(&labels)?;
                match metric {
                    MetricType::Counter => counter(&mut one, value(page))?,
                    _ => one.encode_gauge(&value(page))?,
                }
            }
        }
        Ok(())
    }
}

type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

impl System {
    fn each_session(&self, mut encode: impl FnMut(Labels<'_, 2>, &Session, &Server) -> fmt::Result) -> fmt::Result {
        for (tenant, (server, session)) in &self.0.tenants {
            let Some(page) = self.0.servers.get(server) else { continue };
            encode([("server", server), ("tenant", tenant)], session, page)?;
        }
        Ok(())
    }

    fn each_direction(
        &self,
        mut encode: impl FnMut(Labels<'_, 3>, &Session, &Server, usize) -> fmt::Result,
    ) -> fmt::Result {
        self.each_session(|[server, tenant], session, page| {
            encode([server, tenant, ("direction", "read")], session, page, READS)?;
            encode([server, tenant, ("direction", "write")], session, page, WRITES)
        })
    }
}

fn counter(encoder: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn seconds(ticks: u64, server: &Server) -> f64 {
    ticks as f64 / server.ticks_per_second.max(1) as f64
}

/// Upper bounds in seconds, and counts. The last one takes all that is larger.
fn buckets(session: &Session, server: &Server, direction: usize) -> Vec<(f64, u64)> {
    let counts = session.latencies[direction].counts();
    let count = |from: usize, to: usize| counts[from..to].iter().copied().map(u64::from).sum();
    let mut buckets = vec![(seconds(histogram::least(FIRST), server), count(0, FIRST))];
    for from in (FIRST..histogram::BUCKETS).step_by(IN_ONE) {
        let to = from + IN_ONE;
        let is_last = to == histogram::BUCKETS;
        let bound = if is_last { f64::INFINITY } else { seconds(histogram::least(to), server) };
        buckets.push((bound, count(from, to)));
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        let mut sample = Sample::default();
        let server = Server { ticks_per_second: 1_000_000_000, is_up: 1, passes: 9, ..Server::default() };
        sample.servers.insert("nvme-server".into(), server);
        let mut session = Session { is_open: 1, held_back: 500_000_000, ..Session::default() };
        session.sums.requests = 3;
        session.sums.read_bytes = 8192;
        session.latencies[READS].record(100_000, 2);
        session.latencies[READS].record(u64::MAX, 1);
        session.latency_sums[READS] = 200_000;
        sample.tenants.insert("alice".into(), ("nvme-server".into(), session));
        sample
    }

    #[test]
    fn metrics_have_their_units_and_end_as_the_standard_wants() {
        let text = text(&sample()).unwrap();
        let has = |line: &str| assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        has("# TYPE capnvme_requests counter");
        has(r#"capnvme_requests_total{server="nvme-server",tenant="alice"} 3"#);
        has("# UNIT capnvme_held_back_seconds seconds");
        has(r#"capnvme_held_back_seconds_total{server="nvme-server",tenant="alice"} 0.5"#);
        has(r#"capnvme_transferred_bytes_total{server="nvme-server",tenant="alice",direction="read"} 8192"#);
        has(r#"capnvme_latency_seconds_sum{server="nvme-server",tenant="alice",direction="read"} 0.0002"#);
        has(r#"capnvme_latency_seconds_count{server="nvme-server",tenant="alice",direction="read"} 3"#);
        has(r#"capnvme_server_passes_total{server="nvme-server"} 9"#);
        has(r#"capnvme_controller_up{server="nvme-server"} 1"#);
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn older_readers_get_the_form_that_they_know() {
        let text = classic(&text(&sample()).unwrap());
        for line in [
            "# TYPE capnvme_requests_total counter",
            "# TYPE capnvme_controller_up gauge",
            "# TYPE capnvme_latency_seconds histogram",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
        assert!(
            is_classic("text/plain")
                && !is_classic("*/*")
                && !is_classic("application/openmetrics-text, text/plain;q=0.5")
        );
    }

    #[test]
    fn buckets_are_cumulative_and_the_last_takes_all() {
        let text = text(&sample()).unwrap();
        let counts: Vec<u64> = text
            .lines()
            .filter(|line| line.contains("latency_seconds_bucket") && line.contains(r#"direction="read""#))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
            .collect();
        assert!(counts.is_sorted() && counts.contains(&2), "{counts:?}");
        assert_eq!((counts.len(), counts.last()), (25, Some(&3)));
        assert!(text.contains(r#"le="+Inf""#));
    }
}
