//! A noisy neighbour beside a tenant of a higher class, policy by policy (issue: priority that holds; FACTS-NVME, noisy
//! neighbour).
//!
//! The controller serves 4,000 times 4 KiB a second after a burst, on QEMU and in the simulator. The victim thinks for a
//! millisecond between its reads, as one that asked at once again would be held back by the limit alone.

use super::chart::{self, Axis, Line, Panel, Scale};
use super::lab::{Lab, iops, load};
use super::variant::Variant;
use super::{Grid, One, Outcome, World};
use crate::figure::short;
use anyhow::Result;
use report::Load;
use serde::Serialize;

pub(crate) const EXPERIMENT: One = One {
    name: "neighbour",
    shows: "Priority: latency of a tenant of class high beside a noisy one of class low, policy by policy",
    on_qemu: true,
    run,
};

/// What the victim must reach under the last policy, in milliseconds.
const REACH_MS: [f64; 3] = [0.17, 0.9, 2.0];
/// And both together, in commands of 4 KiB a second: the limit, less a twentieth.
const LEAST_TOTAL: f64 = 0.95 * 4_000.0;
/// Policies, the one that must reach it last.
const POLICIES: [&str; 4] = ["round-robin", "dedicated", "weighted", "paced"];
const NEIGHBOURS: [u32; 2] = [4_096, 131_072];

/// A point.
#[derive(Serialize)]
struct Row {
    /// Empty for the victim alone.
    neighbour_bytes: Option<u32>,
    policy: &'static str,
    victim_p50_ms: f64,
    victim_p99_ms: f64,
    victim_p999_ms: f64,
    victim_max_ms: f64,
    /// Against the victim alone, of the medians.
    ratio: f64,
    victim_iops: f64,
    neighbour_iops: f64,
    /// Of both, in 4 KiB.
    total_4k_iops: f64,
}

impl Row {
    const fn percentiles(&self) -> [f64; 3] {
        [self.victim_p50_ms, self.victim_p99_ms, self.victim_p999_ms]
    }
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    let base = base(lab, grid)?;
    let last = POLICIES[POLICIES.len() - 1];
    let alone =
        lab.run("alone", &base.clone().with("server.policy", last)?.keeping_tenants(|name| name == "victim"))?;
    let alone_ns = load(&alone, "victim")?.p50_ns;
    let mut rows = vec![row(last, None, load(&alone, "victim")?, None, alone_ns)];
    let policies = if grid == Grid::Full { &POLICIES[..] } else { &POLICIES[POLICIES.len() - 1..] };
    for bytes in NEIGHBOURS {
        for policy in policies {
            let variant = base.clone().with("server.policy", *policy)?.with("expect.unfair", *policy != last)?;
            let variant = variant.with("tenant/neighbour.workload.bench.block_bytes", i64::from(bytes))?;
            let results = lab.run(&format!("{policy}-{}k", bytes / 1024), &variant)?;
            let (victim, neighbour) = (load(&results, "victim")?, load(&results, "neighbour")?);
            rows.push(row(policy, Some(bytes), victim, Some(neighbour), alone_ns));
        }
    }
    let misses = rows.iter().filter(|row| row.policy == last && row.neighbour_bytes.is_some()).flat_map(misses);
    let misses = misses.collect();
    Outcome::new(&rows, picture(lab, &rows)?, misses)
}

/// The scenario, as this world and grid have it.
fn base(lab: &Lab<'_>, grid: Grid) -> Result<Variant> {
    let mut base = Variant::of(lab.project(), "neighbour")?;
    if lab.world() == World::Qemu {
        base = base.with("controller/disk.model.media", "open-express")?;
    }
    if grid == Grid::Small {
        for tenant in ["victim", "neighbour"] {
            base = base.with(&format!("tenant/{tenant}.workload.bench.milliseconds"), 4_000)?;
        }
    }
    Ok(base)
}

fn row(policy: &'static str, bytes: Option<u32>, victim: &Load, neighbour: Option<&Load>, alone_ns: u64) -> Row {
    let ms = |ns: u64| rounded(ns as f64 / 1e6, 1_000.0);
    let neighbour = neighbour.map_or(0.0, iops);
    let total = iops(victim) + neighbour * f64::from(bytes.unwrap_or(0)) / 4096.0;
    Row {
        neighbour_bytes: bytes,
        policy,
        victim_p50_ms: ms(victim.p50_ns),
        victim_p99_ms: ms(victim.p99_ns),
        victim_p999_ms: ms(victim.p999_ns),
        victim_max_ms: ms(victim.max_ns),
        ratio: rounded(victim.p50_ns as f64 / alone_ns.max(1) as f64, 100.0),
        victim_iops: iops(victim).round(),
        neighbour_iops: neighbour.round(),
        total_4k_iops: total.round(),
    }
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

/// What the victim or both should have reached and did not.
fn misses(row: &Row) -> Vec<String> {
    let (policy, size) = (row.policy, row.neighbour_bytes.unwrap_or(0) / 1024);
    let mut misses = Vec::new();
    for ((is, most), name) in row.percentiles().into_iter().zip(REACH_MS).zip(["p50", "p99", "p99.9"]) {
        if is > most {
            misses.push(format!("{policy} beside {size} KiB: the victim's {name} is {is} ms, and {most} is asked for"));
        }
    }
    if row.total_4k_iops < LEAST_TOTAL {
        let total = row.total_4k_iops;
        misses
            .push(format!("{policy} beside {size} KiB: {total} IOPS of 4 KiB in all, and {LEAST_TOTAL} are asked for"));
    }
    misses
}

/// What is asked for, as a line.
fn asked() -> Line {
    let points = REACH_MS.into_iter().enumerate().map(|(index, ms)| (index as f64, ms)).collect();
    Line { name: "asked for, at most".into(), points }
}

fn picture(lab: &Lab<'_>, rows: &[Row]) -> Result<String> {
    let panels = NEIGHBOURS.map(|bytes| {
        let of_panel = || rows.iter().filter(move |row| row.neighbour_bytes.is_none_or(|one| one == bytes));
        let line = |row: &Row| Line {
            name: if row.neighbour_bytes.is_none() { "victim alone".into() } else { row.policy.into() },
            points: row.percentiles().into_iter().enumerate().map(|(index, ms)| (index as f64, ms)).collect(),
        };
        Panel {
            title: format!("beside {} KiB reads, 128 at a time", bytes / 1024),
            x: Axis {
                label: "the victim's latency".into(),
                write: short,
                scale: Scale::Names(["p50", "p99", "p99.9"].map(str::to_owned).to_vec()),
            },
            y: Axis { label: "ms".into(), write: |value| value.to_string(), scale: Scale::Powers(10.0) },
            lines: of_panel().map(line).chain([asked()]).collect(),
            bounds: Vec::new(),
        }
    });
    let world = if lab.world() == World::Qemu { "on seL4 in QEMU" } else { "in the simulator" };
    let about =
        format!("4 KiB reads one at a time, class high, {world}; the controller serves 4,000 times 4 KiB a second");
    chart::svg("A tenant beside a noisy neighbour", &about, &panels)
}
