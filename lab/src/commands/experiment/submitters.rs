//! Throughput against the number of tenants that submit, policy by policy (SEEDS V9, V14).
//!
//! Tenants share queue pairs or have one of their own. Each has few enough requests in flight that one alone does not fill the
//! controller. The simulator has one processor, on which all components run, as the kernel has.

use super::chart::{self, Axis, Line, Panel, Scale};
use super::lab::{Lab, Ran};
use super::one::{Grid, One, Outcome};
use super::way::{self, DEDICATED, ONE_QUEUE, PACED, PER_CORE, POOL_PER_CORE, ROUND_ROBIN, WEIGHTED, Way};
use crate::combinations::Combinations;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use xtask::records::rates::iops;
use xtask::reports::figure::short;

pub(crate) const EXPERIMENT: One = One {
    name: "submitters",
    shows: "V14: requests and bytes a second against the number of tenants, policy by policy",
    on_qemu: false,
    run,
    picture: |data, _| Ok(picture(&data.rows()?)),
};

const WAYS: [Way; 7] = [ONE_QUEUE, PER_CORE, POOL_PER_CORE, ROUND_ROBIN, DEDICATED, WEIGHTED, PACED];
/// Bytes per request.
const SIZES: [u32; 2] = [4_096, 131_072];
/// Least throughput of all tenants together, as a part of the most that fewer tenants reach.
const LEAST_OF_MOST: f64 = 0.8;
/// Least evenness with queue pairs of their own, as a part of the evenness in one line before these.
const LEAST_EVEN: f64 = 0.8;

/// A point.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    block_bytes: u32,
    policy: &'a str,
    tenants: u16,
    iops: f64,
    mib_per_s: f64,
    /// Throughput of the tenant that got the least, divided by that of the tenant that got the most.
    evenness: f64,
    p99_us: f64,
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    let counts = if grid == Grid::Full { "1,2,4,8,16,32,64" } else { "1,16" };
    let sizes = SIZES.map(|bytes| bytes.to_string()).join(",");
    let vary = [
        format!("tenant.tenant.program.config.block_bytes={sizes}").parse()?,
        way::vary(&WAYS, &["tenant"])?,
        format!("tenant.tenant.copies={counts}").parse()?,
    ];
    let combinations = Combinations::of(&[], &vary)?;
    let rows = lab.rows(&combinations, row)?;
    let misses = rows.iter().filter_map(|row| miss(row, &rows)).collect();
    Outcome::new(&rows, misses)
}

fn row<'a>([bytes, policy, tenants]: [&'a str; 3], Ran { results, .. }: &Ran) -> Result<Row<'a>> {
    let block_bytes: u32 = bytes.parse()?;
    let each: Vec<_> = results.tenants.iter().map(iops).collect();
    let all: f64 = each.iter().sum();
    let (least, most) = each.iter().fold((f64::MAX, 0f64), |(least, most), one| (least.min(*one), most.max(*one)));
    let p99_ns = results.tenants.iter().map(|load| load.p99_ns).max().unwrap_or(0);
    Ok(Row {
        block_bytes,
        policy,
        tenants: tenants.parse()?,
        iops: all.round(),
        mib_per_s: (all * f64::from(block_bytes) / f64::from(1 << 20)).round(),
        evenness: (least / most * 100.0).round() / 100.0,
        p99_us: (p99_ns as f64 / 1e3).round(),
    })
}

/// Reports that many tenants get clearly less together than fewer, or some of them clearly less than others.
fn miss(row: &Row, rows: &[Row]) -> Option<String> {
    let alike = |other: &&Row| other.policy == row.policy && other.block_bytes == row.block_bytes;
    let most = rows.iter().filter(alike).filter(|other| other.tenants <= row.tenants).map(|other| other.iops);
    let most = most.fold(0.0, f64::max);
    let Row { policy, tenants, block_bytes, iops, evenness, .. } = row;
    let same = |other: &&Row| other.block_bytes == row.block_bytes && other.tenants == row.tenants;
    let one_line = rows.iter().filter(same).find(|other| other.policy == ROUND_ROBIN.name);
    let even = one_line.map_or(0.0, |one_line| one_line.evenness);
    if WAYS.iter().any(|way| way.name == *policy && way.is_own()) && *evenness < LEAST_EVEN * even {
        return Some(format!(
            "{policy}, {block_bytes} bytes: {tenants} tenants are even to {evenness}, in one line {even}"
        ));
    }
    (*iops < LEAST_OF_MOST * most)
        .then(|| format!("{policy}, {block_bytes} bytes: {tenants} tenants have {iops} IOPS, and fewer have {most}"))
}

fn picture(rows: &[Row]) -> String {
    let panel = |bytes: u32, label: &str, value: fn(&Row) -> f64| Panel {
        title: format!("{} KiB reads", bytes / 1024),
        x: Axis { label: "tenants".into(), write: |value| value.to_string(), scale: Scale::Powers(2.0) },
        y: Axis { label: label.into(), write: short, scale: Scale::Linear },
        lines: WAYS
            .iter()
            .map(|way| Line {
                name: way.name.into(),
                points: rows
                    .iter()
                    .filter(|row| row.policy == way.name && row.block_bytes == bytes)
                    .map(|row| (f64::from(row.tenants), value(row)))
                    .collect(),
            })
            .collect(),
        bounds: Vec::new(),
    };
    let panels = [
        panel(SIZES[0], "IOPS, all tenants", |row| row.iops),
        panel(SIZES[1], "MiB/s, all tenants", |row| row.mib_per_s),
    ];
    let about = "Each tenant with 8 requests in flight, on one processor, in the simulator";
    chart::svg("Throughput against the number of tenants", about, &panels)
}
