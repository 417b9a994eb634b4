//! Cost of a lookup in the extent table, against the number of records in it (SEEDS M3, M5).
//!
//! Valgrind's callgrind counts the instructions of the call alone; times are the build machine's, of the same program without
//! Valgrind. Blocks are drawn at random over all records of one session. No scenario runs, so there are no settings to combine.

use super::chart::{self, Axis, Line, Panel, Scale};
use super::lab::Lab;
use super::one::{Grid, One, Outcome};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xtask::cargo::cargo_in;
use xtask::reports::figure::short;

pub(crate) const EXPERIMENT: One = One {
    name: "lookup",
    shows: "M3: instructions and time of a lookup in the extent table, against its records",
    on_qemu: false,
    run,
    picture: |data, _| Ok(picture(&data.rows()?)),
};

/// Instructions per lookup at any number of records, at most.
const MOST_INSTRUCTIONS: f64 = 150.0;
/// Nanoseconds per lookup among `MOST_RECORDS` records, at most. The time depends on the machine, so only the whole experiment
/// judges it, and no test.
const MOST_NS: f64 = 60.0;
const MOST_RECORDS: u64 = 16_384;

/// Counted lookups, and timed lookups.
const COUNTED: &str = "100000";
const TIMED: &str = "1000000";

/// Repetitions of the timing; the best one counts, because other work on the machine only adds time.
const TIMES: u32 = 7;

/// A point.
#[derive(Serialize, Deserialize)]
struct Row {
    records: u64,
    instructions: f64,
    nanoseconds: f64,
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    let program = build(lab)?;
    let sizes: &[u64] = match grid {
        Grid::Full => &[1, 4, 16, 64, 256, 1_024, 4_096, 16_384],
        Grid::Small => &[16, 16_384],
    };
    let rows: Vec<_> = sizes.iter().map(|records| point(lab, &program, *records)).collect::<Result<_>>()?;
    let misses = rows.iter().flat_map(|row| misses(row, grid)).collect();
    Outcome::new(&rows, misses)
}

fn picture(rows: &[Row]) -> String {
    let panel = |title: &str, label: &str, bound: f64, value: fn(&Row) -> f64| Panel {
        title: title.into(),
        x: Axis { label: "records of the session".into(), write: |value| value.to_string(), scale: Scale::Powers(4.0) },
        y: Axis { label: label.into(), write: short, scale: Scale::Linear },
        lines: vec![Line {
            name: "blocks without pattern".into(),
            points: rows.iter().map(|row| (row.records as f64, value(row))).collect(),
        }],
        bounds: vec![(bound, format!("at most {bound}"))],
    };
    let panels = [
        panel("By callgrind, the same everywhere", "instructions a lookup", MOST_INSTRUCTIONS, |row| row.instructions),
        panel("On the machine that drew this, best of seven", "nanoseconds a lookup", MOST_NS, |row| row.nanoseconds),
    ];
    chart::svg("Looking up an extent", "One session's records, 8 blocks each, a gap between each two", &panels)
}

/// Costs above their limits.
fn misses(Row { records, instructions, nanoseconds }: &Row, grid: Grid) -> Vec<String> {
    let mut misses = Vec::new();
    if *instructions > MOST_INSTRUCTIONS {
        misses
            .push(format!("{instructions} instructions among {records} records, and {MOST_INSTRUCTIONS} are allowed"));
    }
    if grid == Grid::Full && *records == MOST_RECORDS && *nanoseconds > MOST_NS {
        misses.push(format!("{nanoseconds} ns among {records} records, and {MOST_NS} are allowed, on a quiet machine"));
    }
    misses
}

/// Builds the program, and checks that Valgrind is installed.
fn build(lab: &Lab<'_>) -> Result<PathBuf> {
    let found = Command::new("valgrind").arg("--version").output();
    ensure!(
        found.is_ok_and(|output| output.status.success()),
        "valgrind is not there: `cargo xtask setup` installs it"
    );
    lab.say("building");
    let mut cargo = cargo_in(lab.project().root());
    cargo.args(["build", "--release", "--quiet", "-p", "extent-table", "--bin", "lookups", "--target-dir"]);
    let target = lab.project().path("target");
    finished(cargo.arg(&target))?;
    Ok(target.join("release/lookups"))
}

fn point(lab: &Lab<'_>, program: &Path, records: u64) -> Result<Row> {
    lab.say(&format!("{records} records"));
    let records_text = records.to_string();
    let counts = lab.folder().join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--toggle-collect=lookups::locate"]);
    valgrind.arg(format!("--callgrind-out-file={}", counts.display())).arg(program).args([&records_text, COUNTED]);
    let said = finished(&mut valgrind)?;
    let collected =
        after(&String::from_utf8_lossy(&said.stderr), "Collected :").context("callgrind counted nothing")?;
    let mut nanoseconds = f64::INFINITY;
    for _ in 0..TIMES {
        let said = finished(Command::new(program).args([&records_text, TIMED]))?;
        let each = after(&String::from_utf8_lossy(&said.stdout), "each takes").context("lookups timed nothing")?;
        nanoseconds = nanoseconds.min(each);
    }
    let lookups: f64 = COUNTED.parse()?;
    Ok(Row { records, instructions: (collected / lookups * 10.0).round() / 10.0, nanoseconds })
}

/// The number after `word`.
fn after(text: &str, word: &str) -> Option<f64> {
    text.split_once(word)?.1.split_whitespace().next()?.parse().ok()
}

/// Output of a command that must succeed.
fn finished(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_judged_by_the_benchmark_alone() {
        let row = |instructions, nanoseconds| Row { records: MOST_RECORDS, instructions, nanoseconds };
        assert_eq!((misses(&row(142.0, 60.1), Grid::Full).len(), misses(&row(142.0, 60.1), Grid::Small).len()), (1, 0));
        assert_eq!((misses(&row(151.0, 60.0), Grid::Full).len(), misses(&row(151.0, 60.0), Grid::Small).len()), (1, 1));
    }

    #[test]
    fn numbers_are_found_after_their_words() {
        assert_eq!(after("==7== Collected : 14200000\n", "Collected :"), Some(14_200_000.0));
        assert_eq!(after("each takes 31.5 ns\n", "each takes"), Some(31.5));
        assert_eq!(after("nothing", "each takes"), None);
    }
}
