//! A noisy neighbour beside a tenant of a higher class, policy by policy.
//!
//! The controller serves 4,000 times 4 KiB per second after a burst, on QEMU and in the simulator. The victim waits a millisecond
//! between its reads: without that wait, the limit alone would hold it back.

use super::chart::{self, Axis, Line, Panel, Scale};
use super::lab::{Lab, Ran};
use super::one::{Grid, One, Outcome, World};
use crate::combinations::{Combinations, Vary, settings};
use anyhow::{Context, Result};
use kernel::Arch;
use report::Load;
use serde::{Deserialize, Serialize};
use xtask::records::rates::{iops, iops_between, time_of};
use xtask::reports::figure::short;

pub(crate) const EXPERIMENT: One = One {
    name: "neighbour",
    shows: "Priority: latency of a tenant of class high beside a noisy one of class low, policy by policy",
    on_qemu: true,
    run,
    picture: |data, world| Ok(picture(&data.rows()?, world)),
};

/// Latencies that the victim must reach under the last policy, in milliseconds.
const REACH_MS: [f64; 3] = [0.17, 0.9, 2.0];
/// Least throughput of both together, in commands of 4 KiB per second: the limit less a twentieth.
const LEAST_TOTAL: f64 = 0.95 * 4_000.0;
/// Most throughput in the victim's four seconds: the limit and one burst, and a hundredth for requests in flight at the ends.
const MOST_TOTAL: f64 = 1.01 * (4_000.0 + 400.0 / 4.0);
/// Least ratio of the victim's median to its median alone, where nothing holds the neighbour back: without it there is no problem
/// to solve.
const LEAST_RATIO: f64 = 20.0;
/// Policies; the last one must reach the latencies.
const POLICIES: [&str; 5] = ["round-robin", "dedicated", "weighted", DEVICE_DIRECT, "paced"];
/// The policy that needs a controller that weighs queues; QEMU's does not.
const DEVICE_DIRECT: &str = "device-direct";
const NEIGHBOURS: [u32; 2] = [4_096, 131_072];
const NEIGHBOUR_BYTES: &str = "tenant.neighbour.program.config.block_bytes";

/// A point.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    /// Empty if the victim runs alone.
    neighbour_bytes: Option<u32>,
    policy: &'a str,
    victim_p50_ms: f64,
    victim_p99_ms: f64,
    victim_p999_ms: f64,
    victim_max_ms: f64,
    /// Median latency, divided by that of the victim alone.
    ratio: f64,
    victim_iops: f64,
    /// In the victim's time: requests in flight at its end take up to a second more.
    neighbour_iops: f64,
    /// Of both tenants in that time, in units of 4 KiB.
    total_4k_iops: f64,
}

impl Row<'_> {
    const fn percentiles(&self) -> [f64; 3] {
        [self.victim_p50_ms, self.victim_p99_ms, self.victim_p999_ms]
    }
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    let last = POLICIES[POLICIES.len() - 1];
    let world: &[&str] = match lab.world() {
        World::Qemu(_) => &["controller.disk.model.media=open-express"],
        World::Simulator => &[],
    };
    let alone = [&["server.policy=paced", "tenant.neighbour=none"], world].concat();
    let victim = |[]: [&str; 0], ran: &Ran| Ok(ran.load("victim")?.clone());
    let alone = lab.rows(&Combinations::of(&settings(alone)?, &[])?, victim)?;
    let alone = alone.first().context("the victim did not run alone")?;
    // The fewest points that show the effect: nothing held back, and paced.
    let is_shown = |policy: &&str| grid == Grid::Full || *policy == POLICIES[0] || *policy == last;
    let can_run = |policy: &&str| *policy != DEVICE_DIRECT || lab.world() == World::Simulator;
    let policies = POLICIES.into_iter().filter(is_shown).filter(can_run);
    let vary = [
        format!("{NEIGHBOUR_BYTES}={}", NEIGHBOURS.map(|bytes| bytes.to_string()).join(",")).parse()?,
        Vary::groups("policy", policies.map(|policy| (policy, under(policy))))?,
    ];
    let beside = |[bytes, policy]: [_; 2], ran: &Ran| {
        let neighbour = iops_between(&ran.results, "neighbour", time_of(&ran.results, "victim")?);
        Ok(row(policy, Some(bytes.parse()?), ran.load("victim")?, neighbour, alone.p50_ns))
    };
    let combinations = Combinations::of(&settings(world)?, &vary)?;
    let mut rows = vec![row(last, None, alone, 0.0, alone.p50_ns)];
    rows.extend(lab.rows(&combinations, beside)?);
    let misses =
        rows.iter().filter(|row| row.neighbour_bytes.is_some()).flat_map(|row| misses(row, lab.world())).collect();
    Outcome::new(&rows, misses)
}

/// Settings of this policy.
fn under(policy: &str) -> Vec<String> {
    let unfair = policy != POLICIES[POLICIES.len() - 1];
    let mut settings = vec![format!("server.policy={policy}"), format!("expect.unfair={unfair}")];
    if policy == DEVICE_DIRECT {
        settings.push("controller.disk.model.arbitration=weighted-round-robin".into());
        settings.extend(["victim", "neighbour"].map(|tenant| format!("tenant.{tenant}.queue_pairs=3")));
    }
    settings
}

fn row<'a>(policy: &'a str, bytes: Option<u32>, victim: &Load, neighbour: f64, alone_ns: u64) -> Row<'a> {
    let ms = |ns: u64| rounded(ns as f64 / 1e6, 1_000.0);
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

/// Requirements that the victim or both tenants miss, and impossible values.
fn misses(row: &Row, world: World) -> Vec<String> {
    let Row { policy, ratio, total_4k_iops: total, .. } = row;
    let size = row.neighbour_bytes.unwrap_or(0) / 1024;
    let mut misses = Vec::new();
    // QEMU's throttle starts with the machine, and its clock differs from the machine's.
    if world == World::Simulator && *total > MOST_TOTAL {
        misses.push(format!(
            "{policy} beside {size} KiB: {total} IOPS of 4 KiB in all, and the controller has {MOST_TOTAL}"
        ));
    }
    if ["round-robin", "dedicated"].contains(policy) && *ratio < LEAST_RATIO {
        misses.push(format!(
            "{policy} beside {size} KiB: the victim's median is {ratio} times that alone, so nothing is shown"
        ));
    }
    if *policy != POLICIES[POLICIES.len() - 1] {
        return misses;
    }
    for ((is, most), name) in row.percentiles().into_iter().zip(REACH_MS).zip(["p50", "p99", "p99.9"]) {
        if is > most {
            misses.push(format!("{policy} beside {size} KiB: the victim's {name} is {is} ms, and the goal is {most}"));
        }
    }
    if *total < LEAST_TOTAL {
        misses.push(format!("{policy} beside {size} KiB: {total} IOPS of 4 KiB in all, and the goal is {LEAST_TOTAL}"));
    }
    misses
}

/// The required latencies, as a line of the chart.
fn asked() -> Line {
    let points = REACH_MS.into_iter().enumerate().map(|(index, ms)| (index as f64, ms)).collect();
    Line { name: "goal, at most".into(), points }
}

fn picture(rows: &[Row<'_>], world: World) -> String {
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
    let world = match world {
        World::Simulator => "in the simulator",
        World::Qemu(Arch::X86_64) => "on seL4 in QEMU",
        World::Qemu(Arch::Aarch64) => "on seL4 for AArch64 in QEMU",
    };
    let about =
        format!("4 KiB reads one at a time, class high, {world}; the controller serves 4,000 times 4 KiB a second");
    chart::svg("A tenant beside a noisy neighbour", &about, &panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_has_a_point_when_paced_cures_the_neighbour() {
        let row = |policy, p50_ms, ratio, total_4k_iops| Row {
            neighbour_bytes: Some(4096),
            policy,
            victim_p50_ms: p50_ms,
            victim_p99_ms: 0.5,
            victim_p999_ms: 0.5,
            victim_max_ms: 0.5,
            ratio,
            victim_iops: 0.0,
            neighbour_iops: 0.0,
            total_4k_iops,
        };
        let missed = |row| misses(&row, World::Simulator).len();
        assert_eq!((missed(row("paced", 0.17, 1.0, 4_100.0)), missed(row("paced", 0.18, 1.0, 3_799.0))), (0, 2));
        assert_eq!((missed(row("paced", 0.17, 1.0, 4_243.0)), missed(row("round-robin", 32.0, 19.0, 4_000.0))), (1, 1));
    }
}
