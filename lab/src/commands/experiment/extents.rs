//! Throughput against the number of a tenant's extents, up to twice the table's records (SEEDS M5).
//!
//! The extents lie one after the other, as those of a file that was written in order. With merging, their records become one.
//! Without it, the table is full at as many extents as it has records, and each further read costs a question to the policy
//! component and a second attempt. A third line has extents with gaps between them, which cannot be merged. A list of extents follows
//! from their number and the gap, so each line has combinations of its own.

use super::chart::{self, Axis, Line, Panel, Scale};
use super::lab::{Lab, Ran};
use super::one::{Grid, One, Outcome};
use crate::combinations::{Combinations, Vary, settings};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use xtask::records::rates::iops;
use xtask::reports::figure::short;

pub(crate) const EXPERIMENT: One = One {
    name: "extents",
    shows: "M5: throughput against the number of a tenant's extents, with and without merging of records",
    on_qemu: false,
    run,
    picture: |data, _| Ok(picture(&data.rows()?)),
};

/// Records of the table, as in the scenario.
const RECORDS: i64 = 1_024;
/// Blocks of an extent: as much as a request.
const BLOCKS: i64 = 8;
/// Least throughput with merging, as a part of the best with other numbers of extents.
const LEAST_KEPT: f64 = 0.95;
/// Most throughput without merging at twice as many extents as the table has records, as a part of the best.
const MOST_LEFT: f64 = 0.85;

/// Layouts of the extents, with and without merging.
const KINDS: [Kind; 3] = [
    Kind { name: "touching, merged", merging: true, gap: 0 },
    Kind { name: "touching, not merged", merging: false, gap: 0 },
    Kind { name: "apart", merging: true, gap: BLOCKS },
];

struct Kind {
    name: &'static str,
    merging: bool,
    /// Blocks between an extent and the next one.
    gap: i64,
}

/// A point.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    kind: &'a str,
    extents: i64,
    of_table: f64,
    iops: f64,
    p50_us: f64,
    p99_us: f64,
    /// Requests that found no record, per hundred.
    missed_percent: f64,
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    let eighths: &[i64] = match grid {
        Grid::Full => &[1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 14, 16],
        Grid::Small => &[4, 16],
    };
    let mut rows = Vec::new();
    for kind in &KINDS {
        let set = settings([format!("server.merging={}", kind.merging)])?;
        let extents = eighths.iter().map(|eighth| RECORDS / 8 * eighth).map(|count| (count, vec![kind.extents(count)]));
        let combinations = Combinations::of(&set, &[Vary::groups("extents", extents)?])?;
        rows.extend(lab.rows(&combinations, |[extents], ran| row(kind, extents.parse()?, ran))?);
    }
    let misses = misses(&rows);
    Outcome::new(&rows, misses)
}

impl Kind {
    /// Setting of so many extents.
    fn extents(&self, count: i64) -> String {
        let extent = |index| format!("{{ first = {}, blocks = {BLOCKS} }}", index * (BLOCKS + self.gap));
        format!("tenant.tenant.extents=[{}]", (0..count).map(extent).collect::<Vec<_>>().join(", "))
    }
}

fn row(kind: &Kind, extents: i64, ran: &Ran) -> Result<Row<'static>> {
    let load = ran.load("tenant")?;
    let session = ran.results.sessions.iter().find(|session| session.tenant == "tenant");
    let (missed, requests) = session.map_or((0, 1), |session| (session.not_installed, session.requests));
    Ok(Row {
        kind: kind.name,
        extents,
        of_table: extents as f64 / RECORDS as f64,
        iops: iops(load).round(),
        p50_us: (load.p50_ns as f64 / 100.0).round() / 10.0,
        p99_us: (load.p99_ns as f64 / 100.0).round() / 10.0,
        missed_percent: (missed as f64 / requests.max(1) as f64 * 1_000.0).round() / 10.0,
    })
}

/// Conditions: throughput with merging stays flat; extents that cannot be merged lose throughput beyond the table's records,
/// otherwise merging would have nothing to gain.
fn misses(rows: &[Row]) -> Vec<String> {
    let kept = |row: &Row| {
        let most = rows.iter().filter(|other| other.kind == row.kind).map(|other| other.iops).fold(0.0, f64::max);
        row.iops / most
    };
    let fallen = rows.iter().filter(|row| row.kind == KINDS[0].name && kept(row) < LEAST_KEPT);
    let fallen = fallen.map(|row| format!("{} merged extents cost throughput: {} IOPS", row.extents, row.iops));
    let twice = rows.iter().filter(|row| row.kind != KINDS[0].name && row.of_table >= 2.0 && kept(row) > MOST_LEFT);
    let unmerged = twice.map(|row| format!("{} extents, {}, cost nothing: {} IOPS", row.extents, row.kind, row.iops));
    fallen.chain(unmerged).collect()
}

fn picture(rows: &[Row]) -> String {
    let panel = |title: &str, label: &str, value: fn(&Row) -> f64| Panel {
        title: title.into(),
        x: Axis { label: "extents, of the table's records".into(), write: short, scale: Scale::Linear },
        y: Axis { label: label.into(), write: short, scale: Scale::Linear },
        lines: KINDS
            .iter()
            .map(|kind| Line {
                name: kind.name.into(),
                points: rows.iter().filter(|row| row.kind == kind.name).map(|row| (row.of_table, value(row))).collect(),
            })
            .collect(),
        bounds: Vec::new(),
    };
    let panels = [
        panel("Throughput", "4 KiB reads a second", |row| row.iops),
        panel("Requests that found no record", "of a hundred", |row| row.missed_percent),
    ];
    let about = "4 KiB reads at random places, 16 at a time, a table of 1,024 records, in the simulator";
    chart::svg("More extents than the table has records", about, &panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_has_a_point_when_merging_keeps_more() {
        let row = |kind: usize, of_table, iops| {
            let kind = KINDS[kind].name;
            Row { kind, extents: 1, of_table, iops, p50_us: 0.0, p99_us: 0.0, missed_percent: 0.0 }
        };
        let rows = |merged, unmerged, apart| {
            let less = [row(0, 0.5, 100.0), row(1, 0.5, 100.0), row(2, 0.5, 100.0)];
            less.into_iter().chain([row(0, 2.0, merged), row(1, 2.0, unmerged), row(2, 2.0, apart)]).collect::<Vec<_>>()
        };
        assert!(misses(&rows(95.0, 85.0, 85.0)).is_empty());
        assert_eq!(misses(&rows(94.0, 70.0, 70.0)), ["1 merged extents cost throughput: 94 IOPS"]);
        assert_eq!(misses(&rows(99.0, 86.0, 86.0)).len(), 2);
    }
}
