//! Bandwidth, latency and bandwidth for each second of the processor's time against the size of requests, for each way to await
//! their completions (SEEDS M6), through the NVMe server's rings and on a function of the tenant's own.
//!
//! The processor is busy whenever it is not idle, for whichever component: an NVMe server that wakes, a supervisor that keeps
//! alarms and a client that polls all count. Each path has other tenants and ways, and so combinations of its own. Left out:
//! QEMU, whose emulated time says nothing about either measure.

use super::chart::{self, Axis, Line, Panel, Scale};
use super::lab::{Lab, Measured};
use super::one::{Grid, One, Outcome};
use crate::combinations::{Combinations, Vary, settings};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use xtask::reports::figure::short;

pub(crate) const EXPERIMENT: One = One {
    name: "completion",
    shows: "M6: bandwidth and bandwidth for the processor's time by size of requests and by way to await completions",
    on_qemu: false,
    run,
    picture: |data, _| Ok(picture(&data.rows()?)),
};

/// The paths: those of the tenants of the same names in the scenario, and that of the second without interrupts, whose queue pair
/// has no vector.
const PATHS: [&str; 3] = [SERVER, FUNCTION, NO_VECTOR];
const SERVER: &str = "server";
const FUNCTION: &str = "function";
const NO_VECTOR: &str = "function without interrupts";
/// The ways that a program can name, and the one that chooses among them.
const WAYS: [&str; 4] = ["interrupt", "polled", "sleep-then-poll", AUTOMATIC];
const AUTOMATIC: &str = "automatic";
const BYTES: [u32; 6] = [512, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 512 << 10];
const DEPTHS: [u32; 2] = [1, 8];
/// Panels of a row in the picture.
const MEASURES: usize = 3;
/// Bytes of a measurement, and its fewest and most requests.
const TOTAL_BYTES: u32 = 256 << 20;
const OPERATIONS: std::ops::RangeInclusive<u32> = 1_000..=4_000;
/// The least part of the best way's bandwidth that automatic must have, in both measures.
const LEAST: f64 = 0.95;

/// A point.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    path: &'a str,
    depth: u32,
    bytes: u32,
    way: &'a str,
    mb_per_s: f64,
    /// Mean: depth times time, by requests.
    latency_us: f64,
    /// Of the processor, for each request.
    busy_us: f64,
    mb_per_busy_s: f64,
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    let paths = PATHS.into_iter().map(|path| Ok((path, combinations(path, grid)?))).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for (path, combinations) in &paths {
        rows.extend(lab.rows(combinations, |[depth, bytes, way], ran| {
            Ok(Row::new(path, depth.parse()?, bytes.parse()?, way).with(ran.measured()?))
        })?);
    }
    let misses = misses(&rows);
    Outcome::new(&rows, misses)
}

/// The combinations of a path. The other tenant is left out.
fn combinations(path: &str, grid: Grid) -> Result<Combinations> {
    let (sizes, depths) = match grid {
        Grid::Full => (&BYTES[..], "1,8"),
        Grid::Small => (&BYTES[BYTES.len() - 1..], "1"),
    };
    let (tenant, other) = if path == SERVER { (SERVER, FUNCTION) } else { (FUNCTION, SERVER) };
    let config = format!("tenant.{tenant}.program.config");
    let requests = |bytes: u32| {
        vec![format!("{config}.block_bytes={bytes}"), format!("{config}.operations={}", operations(bytes))]
    };
    let (mut set, mut ways) = (vec![format!("tenant.{other}=none")], &WAYS[..]);
    if path == NO_VECTOR {
        set.push(format!("tenant.{tenant}.completion=polled"));
        ways = &WAYS[1..];
    }
    let vary = [
        format!("{config}.depth={depths}").parse()?,
        Vary::groups("bytes", sizes.iter().map(|bytes| (bytes, requests(*bytes))))?,
        format!("{config}.completion={}", ways.join(",")).parse()?,
    ];
    Combinations::of(&settings(set)?, &vary)
}

/// Requests of a measurement.
fn operations(bytes: u32) -> u32 {
    (TOTAL_BYTES / bytes).clamp(*OPERATIONS.start(), *OPERATIONS.end())
}

impl<'a> Row<'a> {
    /// A point that is not measured yet.
    const fn new(path: &'a str, depth: u32, bytes: u32, way: &'a str) -> Self {
        Self { path, depth, bytes, way, mb_per_s: 0.0, latency_us: 0.0, busy_us: 0.0, mb_per_busy_s: 0.0 }
    }

    fn with(self, Measured { ns, busy_ns }: Measured) -> Self {
        let requests = f64::from(operations(self.bytes));
        // Bytes a nanosecond are 1000 MB a second.
        let rate = |ns: u64| round(f64::from(self.bytes) * requests * 1e3 / ns.max(1) as f64, 10.0);
        Self {
            mb_per_s: rate(ns),
            latency_us: round(ns as f64 * f64::from(self.depth) / requests / 1e3, 100.0),
            busy_us: round(busy_ns as f64 / requests / 1e3, 1000.0),
            mb_per_busy_s: rate(busy_ns),
            ..self
        }
    }

    fn is_beside(&self, other: &Row<'_>) -> bool {
        (self.path, self.depth, self.bytes) == (other.path, other.depth, other.bytes)
    }
}

fn round(value: f64, by: f64) -> f64 {
    (value * by).round() / by
}

/// Condition: in both measures, automatic has almost what the best way has that a program could name.
fn misses(rows: &[Row]) -> Vec<String> {
    let of = |automatic: &Row, name: &str, value: fn(&Row) -> f64| {
        let others = rows.iter().filter(|row| row.way != AUTOMATIC && row.is_beside(automatic));
        let best = others.max_by(|one, other| value(one).total_cmp(&value(other)))?;
        let part = value(automatic) / value(best);
        let Row { path, depth, bytes, .. } = automatic;
        (part < LEAST).then(|| {
            format!(
                "{path}, depth {depth}, {bytes} bytes: automatic has {:.0} % of the {name} of {}",
                part * 100.0,
                best.way
            )
        })
    };
    let automatic = || rows.iter().filter(|row| row.way == AUTOMATIC);
    let bandwidth = automatic().filter_map(|row| of(row, "bandwidth", |row| row.mb_per_s));
    let busy = automatic().filter_map(|row| of(row, "bandwidth for the processor's time", |row| row.mb_per_busy_s));
    bandwidth.chain(busy).collect()
}

fn picture(rows: &[Row]) -> String {
    let panel = |path: &str, title: &str, label: &str, value: fn(&Row) -> f64| Panel {
        title: format!("{title}, {path}"),
        x: Axis { label: "bytes of a request".into(), write: short, scale: Scale::Powers(2.0) },
        y: Axis { label: label.into(), write: short, scale: Scale::Powers(10.0) },
        lines: DEPTHS.iter().flat_map(|depth| WAYS.map(|way| line(rows, path, *depth, way, value))).collect(),
        bounds: Vec::new(),
    };
    let panels: [[Panel; MEASURES]; PATHS.len()] = PATHS.map(|path| {
        [
            panel(path, "Bandwidth", "MB a second", |row| row.mb_per_s),
            panel(path, "Latency", "us, mean", |row| row.latency_us),
            panel(path, "Bandwidth for the processor's time", "MB for a busy second", |row| row.mb_per_busy_s),
        ]
    });
    let about = "random reads before phase change memory, through the NVMe server or on a function of the tenant's own, \
                 in the simulator";
    chart::svg_in_rows("Ways to await completions", about, panels.as_flattened(), MEASURES)
}

fn line(rows: &[Row], path: &str, depth: u32, way: &str, value: fn(&Row) -> f64) -> Line {
    let own = rows.iter().filter(|row| row.path == path && row.depth == depth && row.way == way);
    Line { name: format!("{way}, depth {depth}"), points: own.map(|row| (f64::from(row.bytes), value(row))).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: [(f64, f64); 4]) -> Vec<Row<'static>> {
        let row = |(way, (mb_per_s, mb_per_busy_s))| Row { mb_per_s, mb_per_busy_s, ..Row::new("server", 1, 512, way) };
        WAYS.into_iter().zip(values).map(row).collect()
    }

    #[test]
    fn automatic_is_held_to_the_best_in_both_measures() {
        assert!(misses(&rows([(96.0, 100.0), (100.0, 20.0), (90.0, 50.0), (95.0, 96.0)])).is_empty());
        assert_eq!(
            misses(&rows([(96.0, 100.0), (100.0, 20.0), (90.0, 50.0), (94.0, 80.0)])),
            [
                "server, depth 1, 512 bytes: automatic has 94 % of the bandwidth of polled",
                "server, depth 1, 512 bytes: automatic has 80 % of the bandwidth for the processor's time of interrupt"
            ]
        );
    }

    #[test]
    fn measures_follow_from_time_and_busy_time() {
        let measured = Measured { ns: 1_000_000, busy_ns: 256_000 };
        let row = Row::new("server", 8, 4096, "polled").with(measured);
        assert_eq!((row.mb_per_s, row.mb_per_busy_s), (16_384.0, 64_000.0));
        assert_eq!((row.latency_us, row.busy_us), (2.0, 0.064));
    }
}
