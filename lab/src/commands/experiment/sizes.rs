//! Parts of the device for tenants with requests of different sizes, policy by policy.
//!
//! The controller serves a fixed number of 4 KiB units per second whatever the sizes of commands, so bytes measure its time. It
//! weighs queues for device-direct, which needs that; under every other policy it does not, and a tenant's queue pairs are alike.

use super::chart::{self, Axis, Line, Panel, Scale};
use super::lab::{Lab, Ran};
use super::one::{Grid, One, Outcome};
use crate::combinations::{Combinations, Vary};
use anyhow::Result;
use report::Load;
use serde::{Deserialize, Serialize};
use xtask::records::rates::bytes_a_second;
use xtask::reports::figure::short;

pub(crate) const EXPERIMENT: One = One {
    name: "sizes",
    shows: "Equal parts: what tenants with requests of 4, 16 and 128 KiB get of the device, policy by policy",
    on_qemu: false,
    run,
    picture: |data, _| Ok(picture(&data.rows()?)),
};

const POLICIES: [&str; 5] = ["round-robin", "dedicated", "weighted", "paced", DEVICE_DIRECT];
const DEVICE_DIRECT: &str = "device-direct";
/// The tenants, as in the scenario, and KiB of their requests.
const TENANTS: [(&str, u32); 3] = [("small", 4), ("middle", 16), ("large", 128)];
/// Largest distance of a part from a third under device-direct, relative to that third.
const TOLERANCE: f64 = 0.05;
/// Least ratio of the large requests' throughput to that of the small ones where no policy shares by size: otherwise there is no
/// unfairness to cure.
const LEAST_RATIO: f64 = 8.0;

/// A point.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    policy: &'a str,
    request_kib: u32,
    /// Part of the bytes of all three tenants.
    part: f64,
    mb_per_s: f64,
    p99_ms: f64,
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    let shown = POLICIES.iter().filter(|policy| grid == Grid::Full || [POLICIES[0], DEVICE_DIRECT].contains(policy));
    let policies = shown.map(|policy| {
        let arbitration = if *policy == DEVICE_DIRECT { "weighted-round-robin" } else { "round-robin" };
        let arbitration = format!("controller.disk.model.arbitration={arbitration}");
        (policy, vec![arbitration, format!("server.policy={policy}")])
    });
    let combinations = Combinations::of(&[], &[Vary::groups("policy", policies)?])?;
    let rows: Vec<_> = lab.rows(&combinations, of_run)?.into_iter().flatten().collect();
    Outcome::new(&rows, misses(&rows))
}

fn of_run<'a>([policy]: [&'a str; 1], ran: &Ran) -> Result<Vec<Row<'a>>> {
    let bytes = |(tenant, kib)| ran.load(tenant).map(|load| (kib, bytes_a_second(&ran.results, load), load));
    let loads = TENANTS.into_iter().map(bytes).collect::<Result<Vec<_>>>()?;
    let all: f64 = loads.iter().map(|(_, bytes, _)| bytes).sum();
    let row = |(request_kib, bytes, load): (u32, f64, &Load)| Row {
        policy,
        request_kib,
        part: (bytes / all * 10_000.0).round() / 10_000.0,
        mb_per_s: (bytes / 1e5).round() / 10.0,
        p99_ms: (load.p99_ns as f64 / 1e4).round() / 100.0,
    };
    Ok(loads.into_iter().map(row).collect())
}

fn misses(rows: &[Row]) -> Vec<String> {
    let even = 1.0 / TENANTS.len() as f64;
    let of = |policy: &'static str| rows.iter().filter(move |row| row.policy == policy);
    let uneven = of(DEVICE_DIRECT).filter(|row| (row.part / even - 1.0).abs() > TOLERANCE);
    let mut misses: Vec<_> = uneven
        .map(|row| format!("{DEVICE_DIRECT}: requests of {} KiB get {} of the device", row.request_kib, row.part))
        .collect();
    let parts: Vec<_> = of(POLICIES[0]).map(|row| row.part).collect();
    if let [small, .., large] = parts.as_slice()
        && *large < LEAST_RATIO * small
    {
        misses.push(format!("{}: large requests get {large} and small ones {small}, so nothing is shown", POLICIES[0]));
    }
    misses
}

fn picture(rows: &[Row]) -> String {
    let policies: Vec<_> = POLICIES.into_iter().filter(|policy| rows.iter().any(|row| row.policy == *policy)).collect();
    let line = |kib: u32, value: fn(&Row) -> f64| Line {
        name: format!("{kib} KiB"),
        points: rows
            .iter()
            .filter(|row| row.request_kib == kib)
            .enumerate()
            .map(|(index, row)| (index as f64, value(row)))
            .collect(),
    };
    let panel = |title: &str, label: &str, scale, value: fn(&Row) -> f64, bounds| Panel {
        title: title.into(),
        x: Axis {
            label: "policy".into(),
            write: short,
            scale: Scale::Names(policies.iter().map(|policy| (*policy).to_owned()).collect()),
        },
        y: Axis { label: label.into(), write: short, scale },
        lines: TENANTS.iter().map(|(_, kib)| line(*kib, value)).collect(),
        bounds,
    };
    let third = vec![(100.0 / TENANTS.len() as f64, "a third".to_owned())];
    let panels = [
        panel("Parts of the device", "of a hundred", Scale::Linear, |row| row.part * 100.0, third),
        panel("Latency, 99 of 100 requests", "ms", Scale::Powers(10.0), |row| row.p99_ms, Vec::new()),
    ];
    let about = "256 KiB to 2 MiB in flight each; the controller serves 40,000 times 4 KiB a second, in the simulator";
    chart::svg("Tenants with requests of different sizes", about, &panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(policy: &'static str, parts: [f64; 3]) -> Vec<Row<'static>> {
        let row = |((_, request_kib), part)| Row { policy, request_kib, part, mb_per_s: 0.0, p99_ms: 0.0 };
        TENANTS.into_iter().zip(parts).map(row).collect()
    }

    #[test]
    fn device_direct_is_held_to_a_third_each() {
        assert!(misses(&rows(DEVICE_DIRECT, [0.32, 0.34, 0.34])).is_empty());
        assert_eq!(misses(&rows(DEVICE_DIRECT, [0.31, 0.345, 0.345])).len(), 1);
        assert!(misses(&rows("round-robin", [0.03, 0.11, 0.86])).is_empty());
        assert_eq!(misses(&rows("round-robin", [0.3, 0.3, 0.4])).len(), 1);
    }
}
