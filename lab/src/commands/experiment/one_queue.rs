//! A single queue for two tenants (SEEDS V13): the part of each, policy by policy.
//!
//! The controller serves 40,000 times 4 KiB per second and takes 32 commands at once; the rest waits in its queues. In the first
//! case one tenant is sixteen times as deep as the other, in the second its requests are 32 times as large.

use super::chart::{self, Axis, Line, Panel, Scale};
use super::lab::{Lab, Ran};
use super::one::{Grid, One, Outcome};
use super::way::{self, DEDICATED, ONE_QUEUE, PACED, ROUND_ROBIN, WEIGHTED, Way};
use crate::combinations::{Combinations, Vary, settings};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use xtask::records::rates::{bytes_a_second, iops};
use xtask::reports::figure::short;

pub(crate) const EXPERIMENT: One = One {
    name: "one-queue",
    shows: "V13: what two tenants of one class get out of one line for both, policy by policy",
    on_qemu: false,
    run,
    picture: |data, _| Ok(picture(&data.rows()?)),
};

/// Policies; the thesis's shared queue first.
const WAYS: [Way; 5] = [ONE_QUEUE, ROUND_ROBIN, DEDICATED, WEIGHTED, PACED];
/// Part that the modest tenant must stay below in one queue: otherwise there is no unfairness to cure.
const MOST_PART: f64 = 0.35;
/// Least factor by which a queue pair of its own raises the part of the shallow tenant, against one queue for both.
const LEAST_TIMES: f64 = 3.0;
/// The policies that protect equal tenants from each other.
const CURES: [&str; 2] = [WEIGHTED.name, PACED.name];
/// Least part of the modest tenant under these policies.
const LEAST_PART: f64 = 0.36;

/// The tenants, as in the scenario.
const TENANTS: [&str; 2] = ["deep", "shallow"];

/// Requests of the two tenants.
struct Case {
    name: &'static str,
    /// Bytes per request, and requests in flight.
    greedy: (u32, u16),
    modest: (u32, u16),
}

const CASES: [Case; 2] = [
    Case { name: "deep beside shallow", greedy: (4_096, 128), modest: (4_096, 8) },
    Case { name: "large beside small", greedy: (131_072, 8), modest: (4_096, 8) },
];

/// A point.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    case: &'a str,
    policy: &'a str,
    greedy_iops: f64,
    modest_iops: f64,
    greedy_mib_per_s: f64,
    modest_mib_per_s: f64,
    /// Part of the bytes of both tenants.
    modest_part: f64,
    modest_p99_ms: f64,
}

impl Case {
    fn settings(&self) -> Vec<String> {
        let config = |(tenant, (bytes, depth))| {
            [("block_bytes", bytes), ("depth", u32::from(depth))]
                .map(|(key, value)| format!("tenant.{tenant}.program.config.{key}={value}"))
        };
        TENANTS.into_iter().zip([self.greedy, self.modest]).flat_map(config).collect()
    }
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    // All tenants share the controller's burst at the beginning: it must not fill most of the time.
    let shorter = TENANTS.map(|tenant| format!("tenant.{tenant}.program.config.milliseconds=700"));
    let set = if grid == Grid::Small { settings(shorter)? } else { Vec::new() };
    let cases = Vary::groups("case", CASES.iter().map(|case| (case.name, case.settings())))?;
    let combinations = Combinations::of(&set, &[cases, way::vary(&WAYS, &TENANTS)?])?;
    let rows = lab.rows(&combinations, row)?;
    let misses = rows.iter().filter_map(miss).chain(rows.iter().filter_map(|row| uncured(row, &rows))).collect();
    Outcome::new(&rows, misses)
}

fn row<'a>([case, policy]: [&'a str; 2], ran: &Ran) -> Result<Row<'a>> {
    let [greedy, modest] = TENANTS.map(|tenant| ran.load(tenant));
    let (greedy, modest) = (greedy?, modest?);
    let mib = |load| bytes_a_second(&ran.results, load) / f64::from(1 << 20);
    let (greedy_mib, modest_mib) = (mib(greedy), mib(modest));
    Ok(Row {
        case,
        policy,
        greedy_iops: iops(greedy).round(),
        modest_iops: iops(modest).round(),
        greedy_mib_per_s: (greedy_mib * 10.0).round() / 10.0,
        modest_mib_per_s: (modest_mib * 10.0).round() / 10.0,
        modest_part: (modest_mib / (greedy_mib + modest_mib) * 1000.0).round() / 1000.0,
        modest_p99_ms: (modest.p99_ns as f64 / 1e3).round() / 1e3,
    })
}

/// Reports a shared queue that is not unfair, or a cure without effect.
fn miss(row: &Row) -> Option<String> {
    let Row { case, policy, modest_part, .. } = row;
    let wrong = if *policy == ONE_QUEUE.name && *modest_part >= MOST_PART {
        "one line is not unfair"
    } else if CURES.contains(policy) && *modest_part < LEAST_PART {
        "it does not cure the one line"
    } else {
        return None;
    };
    Some(format!("{case}, {policy}: {wrong}, the modest one has {modest_part} of the work"))
}

/// Reports that the shallow tenant gains too little from a queue pair of its own. Beside larger requests it gains nothing,
/// because those wait in the controller's own queue; so that case is not judged.
fn uncured(row: &Row, rows: &[Row]) -> Option<String> {
    let of_case = row.case == CASES[0].name && row.policy == DEDICATED.name;
    let shared = rows.iter().find(|other| other.case == row.case && other.policy == ONE_QUEUE.name)?.modest_part;
    (of_case && row.modest_part < LEAST_TIMES * shared).then(|| {
        format!(
            "{}: with a queue pair of its own the modest one has {} of the work, with one for both {shared}",
            row.case, row.modest_part
        )
    })
}

fn picture(rows: &[Row]) -> String {
    let panels = CASES.map(|case| {
        let line = |name: &str, value: fn(&Row) -> f64| Line {
            name: name.into(),
            points: rows
                .iter()
                .filter(|row| row.case == case.name)
                .enumerate()
                .map(|(index, row)| (index as f64, value(row)))
                .collect(),
        };
        let ask = |(bytes, depth): (u32, u16)| format!("{} KiB, {depth} at a time", bytes / 1024);
        Panel {
            title: format!("{}: {}; and {}", case.name, ask(case.greedy), ask(case.modest)),
            x: Axis {
                label: "policy of the server".into(),
                write: short,
                scale: Scale::Names(WAYS.map(|way| way.name.to_owned()).to_vec()),
            },
            y: Axis { label: "MiB/s".into(), write: short, scale: Scale::Linear },
            lines: vec![
                line("who asks for more", |row| row.greedy_mib_per_s),
                line("who asks for less", |row| row.modest_mib_per_s),
            ],
            bounds: Vec::new(),
        }
    });
    let about =
        "Two tenants of one class and weight, in the simulator; the controller serves 40,000 times 4 KiB a second";
    chart::svg("One line for two tenants", about, &panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_of_their_own_must_cure_what_one_for_both_does() {
        let row = |way: Way, modest_part| Row {
            case: CASES[0].name,
            policy: way.name,
            greedy_iops: 0.0,
            modest_iops: 0.0,
            greedy_mib_per_s: 0.0,
            modest_mib_per_s: 0.0,
            modest_part,
            modest_p99_ms: 0.0,
        };
        let cured = |part| {
            let rows = [row(ONE_QUEUE, 0.06), row(DEDICATED, part)];
            rows.iter().find_map(|row| uncured(row, &rows)).is_none()
        };
        assert_eq!((cured(0.18), cured(0.17)), (true, false));
        assert!(miss(&row(ONE_QUEUE, 0.35)).is_some() && miss(&row(WEIGHTED, 0.35)).is_some());
    }
}
