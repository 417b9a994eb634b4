//! A tenant of a running system, as people and programs are shown it.

use blk_api::config::Class;
use blk_api::telemetry::{READS, Session, WRITES};
use serde::Serialize;
use xtask::reports::sheet::{Sheet, Value};
use xtask::telemetry::figures::{self, Direction};
use xtask::telemetry::sample::Sample;

/// A tenant with its figures since the reading before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Tenant {
    pub(crate) tenant: String,
    pub(crate) server: String,
    pub(crate) is_open: bool,
    /// The class; none before the session was first opened.
    pub(crate) class: Option<&'static str>,
    /// Seconds of the machine's clock that the figures are of; 0 if there are none yet.
    pub(crate) seconds: f64,
    pub(crate) read: Flow,
    pub(crate) write: Flow,
    /// Reads and writes together.
    pub(crate) both: Flow,
    /// The part of the time in which the scheduling policy withheld the tenant's turn.
    pub(crate) held_back: f64,
    /// Entries on its ring.
    pub(crate) in_ring: u32,
    /// The tenant's commands at the controller.
    pub(crate) in_device: u32,
    pub(crate) queue_pairs: u32,
    /// Sums since the session was opened.
    pub(crate) sums: Sums,
}

/// A direction's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Flow {
    pub(crate) requests_per_second: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    /// The longest in the last twentieth of a second.
    pub(crate) peak_ns: u64,
}

/// Sums of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) commands: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) errors: u64,
    pub(crate) not_installed: u64,
    pub(crate) forbidden: u64,
}

impl Flow {
    fn of(direction: Direction, seconds: f64) -> Self {
        let [p50_ns, p99_ns, p999_ns] = direction.percentiles;
        Self {
            requests_per_second: direction.rate(seconds),
            bytes_per_second: direction.bandwidth(seconds),
            p50_ns,
            p99_ns,
            p999_ns,
            peak_ns: direction.peak,
        }
    }
}

impl Sums {
    const fn of(session: &Session) -> Self {
        let sums = &session.sums;
        Self {
            requests: sums.requests,
            refused: sums.refused,
            commands: sums.commands,
            read_bytes: sums.read_bytes,
            written_bytes: sums.written_bytes,
            errors: sums.errors,
            not_installed: sums.not_installed,
            forbidden: sums.forbidden,
        }
    }
}

impl Tenant {
    /// The tenant of this name from one reading to the next.
    pub(crate) fn between(before: &Sample, now: &Sample, server: &str, tenant: &str) -> Self {
        let page = now.tenants.get(tenant).map_or_else(Session::default, |(_, session)| *session);
        let figures = figures::between(before, now, tenant);
        let (seconds, held_back) = figures.as_ref().map_or((0.0, 0.0), |one| (one.seconds, one.held_back));
        let flow = |direction: usize| {
            figures.as_ref().map_or_else(Flow::default, |figures| Flow::of(figures.directions[direction], seconds))
        };
        let both = figures.as_ref().map_or_else(Flow::default, |figures| Flow::of(figures.both, seconds));
        let class = Class::from_number(page.class).filter(|_| page.openings > 0);
        Self {
            tenant: tenant.into(),
            server: server.into(),
            is_open: page.is_open != 0,
            class: class.map(Class::name),
            seconds,
            read: flow(READS),
            write: flow(WRITES),
            both,
            held_back,
            in_ring: page.in_ring,
            in_device: page.in_device,
            queue_pairs: page.queue_pairs,
            sums: Sums::of(&page),
        }
    }
}

/// Headings of a tenant's row.
pub(crate) const COLUMNS: [&str; 11] =
    ["tenant", "class", "IOPS", "MB/s", "p50 \u{b5}s", "p99 \u{b5}s", "p99.9", "peak \u{b5}s", "ring", "dev", "held"];

/// The row of a tenant, for [`COLUMNS`]: reads and writes together, its entries on the ring, its commands at the device, and the part of
/// the time for which it was held back. Figures that there are not yet are dashes.
pub(crate) fn row(tenant: &Tenant) -> [String; 11] {
    let known = |text: String| if tenant.seconds > 0.0 { text } else { "-".to_owned() };
    let latency = |ns: u64| if ns > 0 { format!("{:.0}", ns as f64 / 1e3) } else { "-".to_owned() };
    let both = &tenant.both;
    let class = if tenant.is_open { tenant.class.unwrap_or("-") } else { "closed" };
    [
        tenant.tenant.clone(),
        class.to_owned(),
        known(format!("{:.0}", both.requests_per_second)),
        known(format!("{:.1}", both.bytes_per_second / 1e6)),
        latency(both.p50_ns),
        latency(both.p99_ns),
        latency(both.p999_ns),
        latency(both.peak_ns),
        tenant.in_ring.to_string(),
        tenant.in_device.to_string(),
        known(format!("{:.0}%", tenant.held_back * 100.0)),
    ]
}

/// A table of tenants.
pub(crate) fn table(tenants: &[Tenant], columns: usize) -> String {
    let mut sheet = Sheet::new(COLUMNS);
    for tenant in tenants {
        let [name, class, numbers @ ..] = row(tenant);
        sheet.row([Value::Word(name), Value::Word(class)].into_iter().chain(numbers.map(Value::Number)));
    }
    sheet.fit(columns)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use blk_api::telemetry::Server;

    /// A tenant that read `reads` blocks in a second, each in `ns`.
    pub(crate) fn tenant(name: &str, reads: u32, ns: u64) -> Tenant {
        let sample = |reads, written_at| {
            let mut sample = Sample::default();
            sample.servers.insert("disk".into(), Server { ticks_per_second: 1_000_000_000, ..Server::default() });
            let mut session =
                Session { openings: 1, is_open: 1, class: 1, written_at, in_device: 8, ..Session::default() };
            session.latencies[READS].record(ns, reads);
            session.sums.read_bytes = 4096 * u64::from(reads);
            sample.tenants.insert(name.into(), ("disk".into(), session));
            sample
        };
        Tenant::between(&sample(0, 0), &sample(reads, 1_000_000_000), "disk", name)
    }

    #[test]
    fn a_row_has_rates_and_latencies() {
        let row = row(&tenant("alice", 1000, 100_000));
        assert_eq!(row[..5], ["alice", "high", "1000", "4.1", "106"]);
        assert_eq!(row[8..], ["0", "8", "0%"]);
    }

    #[test]
    fn a_tenant_without_figures_has_dashes() {
        let nobody = Tenant::between(&Sample::default(), &Sample::default(), "disk", "bob");
        assert_eq!(row(&nobody), ["bob", "closed", "-", "-", "-", "-", "-", "-", "0", "0", "-"]);
        assert!(table(&[nobody], 80).contains("bob"));
    }
}
