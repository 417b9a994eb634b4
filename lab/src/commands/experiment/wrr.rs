//! Parts of three classes that all ask for more than the controller can serve, by the component that weighs them: the
//! controller, the server, or none.
//!
//! The controller of the simulator has weighted round robin with urgent priority class; QEMU's has not. So the figure shows the
//! model's arbitration (`sim/nvme/`), written after the standard, under the server's own settings.

use super::chart::{self, Axis, Line, Panel, Scale};
use super::lab::{Lab, Ran};
use super::one::{Grid, One, Outcome};
use crate::combinations::{Combinations, Vary, settings};
use anyhow::Result;
use report::Load;
use serde::{Deserialize, Serialize};
use xtask::records::rates::iops;
use xtask::reports::figure::short;

pub(crate) const EXPERIMENT: One = One {
    name: "wrr",
    shows: "Priority: what classes of weights 6:3:1 get, weighed by the controller and by the server",
    on_qemu: false,
    run,
    picture: |data, _| Ok(picture(&data.rows()?)),
};

/// The classes, as in the scenario, and their weights.
const CLASSES: [(&str, f64); 3] = [("high", 0.6), ("medium", 0.3), ("low", 0.1)];
/// Largest relative distance of a part from its weight, and of the throughput from that without weights.
const TOLERANCE: f64 = 0.05;

/// Name of the point, `[server] policy`, and the controller's arbitration.
const WEIGHERS: [(&str, &str, &str); 3] = [
    (CONTROLLER, "weighted", "weighted-round-robin"),
    (SERVER, "weighted", "round-robin"),
    (NOBODY, "round-robin", "round-robin"),
];
const CONTROLLER: &str = "the controller";
const SERVER: &str = "the server";
const NOBODY: &str = "nobody";

/// A point.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    weighed_by: &'a str,
    class: &'a str,
    weight: f64,
    part: f64,
    iops: f64,
    total_iops: f64,
    p99_us: f64,
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    let shorter = CLASSES.map(|(class, _)| format!("tenant.{class}.program.config.milliseconds=100"));
    let set = if grid == Grid::Small { settings(shorter)? } else { Vec::new() };
    let weighers = WEIGHERS.map(|(name, policy, arbitration)| {
        let arbitration = format!("controller.disk.model.arbitration={arbitration}");
        (name, vec![format!("server.policy={policy}"), arbitration])
    });
    let combinations = Combinations::of(&set, &[Vary::groups("weighed_by", weighers)?])?;
    let rows: Vec<_> = lab.rows(&combinations, of_run)?.into_iter().flatten().collect();
    Outcome::new(&rows, misses(&rows))
}

fn of_run<'a>([weighed_by]: [&'a str; 1], ran: &Ran) -> Result<Vec<Row<'a>>> {
    let loads = CLASSES.map(|(class, weight)| ran.load(class).map(|load| (class, weight, load)));
    let loads = loads.into_iter().collect::<Result<Vec<_>>>()?;
    let total: f64 = loads.iter().map(|(.., load)| iops(load)).sum();
    let row = |(class, weight, load): (_, _, &Load)| Row {
        weighed_by,
        class,
        weight,
        part: (iops(load) / total * 10_000.0).round() / 10_000.0,
        iops: iops(load).round(),
        total_iops: total.round(),
        p99_us: (load.p99_ns as f64 / 100.0).round() / 10.0,
    };
    Ok(loads.into_iter().map(row).collect())
}

/// Conditions: parts equal the weights, weighing costs no throughput, and without weights the parts are equal, so that weighing
/// has an effect.
fn misses(rows: &[Row]) -> Vec<String> {
    let unweighed = rows.iter().find(|row| row.weighed_by == NOBODY).map_or(0.0, |row| row.total_iops);
    let mut misses = Vec::new();
    for Row { weighed_by, class, weight, part, total_iops, .. } in rows {
        let asked = if *weighed_by == NOBODY { 1.0 / CLASSES.len() as f64 } else { *weight };
        if (part / asked - 1.0).abs() > TOLERANCE {
            misses.push(format!(
                "weighed by {weighed_by}, class {class} has {part} of the work, and its weight is {asked:.3}"
            ));
        }
        if (total_iops / unweighed - 1.0).abs() > TOLERANCE {
            misses.push(format!("weighed by {weighed_by} there are {total_iops} IOPS, and {unweighed} by nobody"));
        }
    }
    misses.dedup();
    misses
}

fn picture(rows: &[Row]) -> String {
    let names = || Scale::Names(WEIGHERS.map(|(name, ..)| name.to_owned()).to_vec());
    let line = |class: &str, value: fn(&Row) -> f64| Line {
        name: format!("class {class}"),
        points: rows
            .iter()
            .filter(|row| row.class == class)
            .enumerate()
            .map(|(index, row)| (index as f64, value(row)))
            .collect(),
    };
    let panel = |title: &str, label: &str, value: fn(&Row) -> f64, bounds| Panel {
        title: title.into(),
        x: Axis { label: "who weighs".into(), write: short, scale: names() },
        y: Axis { label: label.into(), write: short, scale: Scale::Linear },
        lines: CLASSES.iter().map(|(class, _)| line(class, value)).collect(),
        bounds,
    };
    let weights = CLASSES.map(|(class, weight)| (weight * 100.0, format!("weight of {class}"))).to_vec();
    let panels = [
        panel("Parts of the controller's commands", "of a hundred", |row| row.part * 100.0, weights),
        panel("Latency, 99 of 100 requests", "microseconds", |row| row.p99_us, Vec::new()),
    ];
    let about =
        "Weights 6:3:1, each class with 64 reads of 4 KiB in flight, 400,000 commands a second, in the simulator";
    chart::svg("Classes that ask for more than there is", about, &panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(parts: [f64; 3], total_iops: f64) -> Vec<Row<'static>> {
        let of = |weighed_by, parts: [f64; 3], total_iops| {
            CLASSES.into_iter().zip(parts).map(move |((class, weight), part)| Row {
                weighed_by,
                class,
                weight,
                part,
                iops: 0.0,
                total_iops,
                p99_us: 0.0,
            })
        };
        of(CONTROLLER, parts, total_iops).chain(of(NOBODY, [0.33, 0.34, 0.33], 400_000.0)).collect()
    }

    #[test]
    fn parts_and_the_sum_are_held_to_five_of_a_hundred() {
        assert!(misses(&rows([0.61, 0.294, 0.096], 381_000.0)).is_empty());
        let off = misses(&rows([0.6, 0.306, 0.094], 400_000.0));
        assert_eq!(off, ["weighed by the controller, class low has 0.094 of the work, and its weight is 0.100"]);
        let off = misses(&rows([0.6, 0.3, 0.1], 379_000.0));
        assert_eq!(off, ["weighed by the controller there are 379000 IOPS, and 400000 by nobody"]);
    }
}
