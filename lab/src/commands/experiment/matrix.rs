//! A tenant of class high beside neighbours of class low that do every kind of work, under `paced`, round robin and dedicated.
//!
//! The scheduler runs alone, on models of controllers that have the simulator's timing and constants: the whole system would take hours.
//! So there are no scenarios and no settings to combine. The example `matrix` of the scheduler measures the cells (`nvme-server/scheduler/tests/device/matrix.rs`).

use super::chart::{self, Axis, Line, Panel, Scale};
use super::data::Data;
use super::lab::Lab;
use super::one::{Grid, One, Outcome};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use xtask::cargo::cargo_in;
use xtask::reports::figure::short;

pub(crate) const EXPERIMENT: One = One {
    name: "matrix",
    shows: "Priority: what every kind of neighbour leaves of a higher class's latency, device by device",
    on_qemu: false,
    run,
    picture: |data, _| Ok(picture(&data.rows()?)),
};

/// The neighbours of the small grid, and the controller.
const FEW: [&str; 2] = ["1", "openexpress"];
/// Tolerance for p99 and for throughput: cells are short, and the places of requests are drawn.
const LATER: f64 = 1.1;
const LESS: f64 = 0.95;

/// The work of the neighbours, in the order of the figure.
const WORK: [&str; 6] = ["read", "write", "mixed", "zeroes", "discard", "flush"];
const COLUMNS: usize = 3;

/// A cell.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    device: &'a str,
    neighbours: u32,
    work: &'a str,
    /// KiB of a request, 0 for a flush.
    kib: u32,
    load: &'a str,
    alone_iops: f64,
    alone_p99_us: f64,
    paced_iops: f64,
    paced_p99_us: f64,
    /// Units of 4 KiB that the neighbours submit a second, or flushes.
    paced_rest: f64,
    round_robin_iops: f64,
    round_robin_p99_us: f64,
    round_robin_rest: f64,
    dedicated_iops: f64,
    dedicated_p99_us: f64,
    dedicated_rest: f64,
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    lab.say("measuring");
    let mut cargo = cargo_in(lab.project().root());
    cargo.args(["run", "--quiet", "-p", "scheduler", "--example", "matrix", "--target-dir"]);
    cargo.arg(lab.project().path("target"));
    if grid == Grid::Full {
        cargo.arg("--release");
    } else {
        cargo.arg("--").args(FEW);
    }
    let output = cargo.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "the matrix failed: {}", String::from_utf8_lossy(&output.stderr));
    let data = Data::of(&output.stdout)?;
    let rows: Vec<Row<'_>> = data.rows()?;
    let misses = rows.iter().filter_map(miss).collect();
    Outcome::new(&rows, misses)
}

/// The promise: under `paced` a class has no less than under round robin and dedicated.
fn miss(row: &Row<'_>) -> Option<String> {
    let p99_us = row.round_robin_p99_us.min(row.dedicated_p99_us).max(row.alone_p99_us);
    let iops = row.round_robin_iops.max(row.dedicated_iops);
    let (is_later, is_less) = (row.paced_p99_us > LATER * p99_us, row.paced_iops < LESS * iops);
    let Row { device, neighbours, work, kib, load, paced_p99_us, paced_iops, .. } = row;
    (is_later || is_less).then(|| {
        format!(
            "{device}, {neighbours} {load} neighbours, {work} of {kib} KiB: {paced_p99_us} us and {paced_iops} IOPS under \
             paced, {p99_us} and {iops} otherwise"
        )
    })
}

fn picture(rows: &[Row<'_>]) -> String {
    let mut devices: Vec<_> = rows.iter().map(|row| row.device).collect();
    devices.dedup();
    let line = |device: &str, name: &str, value: fn(&Row<'_>) -> f64| {
        let times = |row: &Row<'_>| ((value(row) / row.alone_p99_us) * 100.0).round() / 100.0;
        let of_work = |(place, work): (usize, &&str)| {
            let mut all: Vec<_> =
                rows.iter().filter(|row| row.device == device && row.work == *work).map(times).collect();
            all.sort_by(f64::total_cmp);
            all.dedup();
            all.into_iter().map(move |times| (place as f64, times)).collect::<Vec<_>>()
        };
        Line { name: name.into(), points: WORK.iter().enumerate().flat_map(of_work).collect() }
    };
    let panel = |device: &&str| Panel {
        title: (*device).into(),
        x: Axis {
            label: "work of the neighbours".into(),
            write: short,
            scale: Scale::Names(WORK.map(str::to_owned).to_vec()),
        },
        y: Axis { label: "p99, times that alone".into(), write: short, scale: Scale::Powers(10.0) },
        lines: vec![
            line(device, "paced", |row| row.paced_p99_us),
            line(device, "round robin", |row| row.round_robin_p99_us),
            line(device, "dedicated", |row| row.dedicated_p99_us),
        ],
        bounds: Vec::new(),
    };
    let panels: Vec<_> = devices.iter().map(panel).collect();
    let about = "A tenant of class high with four reads of 4 KiB in flight; a point is a cell: 1 to 31 neighbours of class low, 4 to 512 \
                 KiB, one or 32 requests each";
    chart::svg_in_rows("A class beside every kind of neighbour", about, &panels, COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(paced_p99_us: f64, paced_iops: f64) -> Row<'static> {
        Row {
            device: "flash",
            neighbours: 7,
            work: "write",
            kib: 4,
            load: "waiting",
            alone_iops: 77_000.0,
            alone_p99_us: 90.0,
            paced_iops,
            paced_p99_us,
            paced_rest: 0.0,
            round_robin_iops: 70_000.0,
            round_robin_p99_us: 200.0,
            round_robin_rest: 0.0,
            dedicated_iops: 60_000.0,
            dedicated_p99_us: 300.0,
            dedicated_rest: 0.0,
        }
    }

    #[test]
    fn paced_is_held_to_the_better_of_the_others() {
        assert_eq!(miss(&row(220.0, 66_500.0)), None);
        assert!(miss(&row(221.0, 70_000.0)).is_some_and(|miss| miss.contains("7 waiting neighbours, write of 4 KiB")));
        assert!(miss(&row(100.0, 66_400.0)).is_some());
    }
}
