//! `cargo xtask sweep`: simulates a scenario with all combinations of values of some keys, and draws the measurements.
//!
//! A sweep leaves a line of JSON for each run ([`record`]), a table as CSV and figures as SVG ([`report`]), and a page ([`page`]). Runs are numbered, so that
//! parts of a sweep can be made on several machines and their lines be put together. Left out: QEMU, whose times are not repeatable.

mod page;
mod record;
mod report;

use crate::combinations::{Combinations, Vary};
use crate::lines::{self, Lines};
use crate::parallel;
use crate::part::Part;
use crate::schema;
use crate::simulate::{self, RunInput, simulate, suits};
use anyhow::{Context, Result, ensure};
use capdl::scenario::Setting;
use clap::Args;
use record::Record;
use report::Plot;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use xtask::arguments;
use xtask::out;
use xtask::progress::Step;
use xtask::project::Project;
use xtask::run::interrupted::{Going, Left};
use xtask::run::{numbered_folder, shell_word};

/// Folder of the sweeps without `--out`, below `target/`.
const SWEEPS: &str = "sweeps";

/// Gaps among the runs of merged files that are listed.
const MOST_GAPS: usize = 5;

/// Arguments of a sweep.
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    /// The scenario: a name in scenarios/, or a TOML file; none with --merge
    #[arg(required_unless_present = "merge", conflicts_with = "merge")]
    scenario: Option<String>,
    /// Change the value of a key of the scenario in all runs, as in tenant.alice.class=high; repeat the option for several
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "merge")]
    set: Vec<Setting>,
    /// A key and the values that it takes in turn; several of the option make all combinations
    #[arg(long, value_name = "KEY=V1,V2", required_unless_present = "merge", conflicts_with = "merge")]
    vary: Vec<Vary>,
    /// A figure over a varied key: y is iops, bandwidth, p50, p99, p999, max or errors; repeat the option for several
    #[arg(long, value_name = "x=KEY,y=WHAT")]
    plot: Vec<Plot>,
    /// The runs from number A up to and without B alone, counted from 0
    #[arg(long, value_name = "A..B", allow_hyphen_values = true, value_parser = arguments::range, conflicts_with = "merge")]
    runs: Option<Range<u64>>,
    /// The K-th of N nearly equal parts of the runs, from 0
    #[arg(long, value_name = "K/N", allow_hyphen_values = true, conflicts_with_all = ["runs", "merge"])]
    part: Option<Part>,
    /// Runs at a time; as many as there are processors without it
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::jobs)]
    jobs: Option<NonZeroUsize>,
    /// Folder of the table and the figures; a new one in target/sweeps/ without it
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// File of the runs, a line of JSON each; runs.jsonl in the folder without it
    #[arg(long, value_name = "FILE", conflicts_with = "merge")]
    json: Option<PathBuf>,
    /// Make the runs that the file of the runs lacks
    #[arg(long, conflicts_with = "merge")]
    resume: bool,
    /// Make the table and the figures of these files of runs, and run nothing
    #[arg(long, value_name = "FILE", num_args = 1..)]
    merge: Vec<PathBuf>,
}

/// The schema of a line.
pub(crate) fn schema() -> Value {
    schema::of_lines::<Record>()
}

/// Runs or merges; the exit code says whether every run is there and passed.
pub(crate) fn run(project: &Project, sweep: &Sweep) -> Result<ExitCode> {
    let Some(named) = &sweep.scenario else { return merge(project, sweep) };
    let file = project.scenario(named)?;
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", project.shown(&file)))?;
    let combinations = Combinations::of(&sweep.set, &sweep.vary)?;
    let keys = combinations.keys();
    let asked = match &sweep.runs {
        None => sweep.part.map_or(0..combinations.count(), |part| part.of(&(0..combinations.count()))),
        Some(runs) => {
            let count = combinations.count();
            ensure!(runs.end <= count, "there are {count} runs: write --runs with a second number up to {count}");
            runs.clone()
        }
    };
    // Refuse wrong figures and combinations before any run.
    let names = |number| combinations.values(number).into_iter().map(|(key, value)| (key, value.to_owned())).collect();
    sweep.plot.iter().try_for_each(|plot| plot.check(&keys, asked.clone().map(names)))?;
    let first = combinations.load(&file, asked.start)?;
    if simulate::is_missing(&first) {
        return super::sim::with_own(project, &first);
    }
    for number in asked.clone() {
        suits(&combinations.load(&file, number)?, named)?;
    }
    let id = id(&text, &combinations);
    let folder = match &sweep.out {
        Some(folder) => folder.clone(),
        None => numbered_folder(project, SWEEPS, &first.name, usize::MAX)?,
    };
    let path = sweep.json.clone().unwrap_or_else(|| folder.join("runs.jsonl"));
    if !sweep.resume && !path.exists() {
        report::refuse_taken(&folder)?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", project.shown(&folder)))?;
    let (mut lines, done) = if sweep.resume { Lines::resume(&path)? } else { (Lines::create(&path)?, Vec::new()) };
    let is_same = done.iter().all(|record: &Record| record.sweep == id);
    ensure!(is_same, "{} has runs of another sweep or scenario: name another file or folder", path.display());
    let mut records: BTreeMap<u64, Record> = done.into_iter().map(|record| (record.run, record)).collect();
    let left: Vec<_> = asked.clone().filter(|number| !records.contains_key(number)).collect();
    if !left.is_empty() {
        let shown = shell_word(&project.shown(&path));
        let step = Step::new(format!("sweeping '{}': {} runs, a line each in {shown}", first.name, left.len()));
        let of = left.len();
        // A folder that was made for this sweep is named in its file's name.
        let again = if sweep.json.is_some() || sweep.out.is_some() { "" } else { &format!(", --json {shown}") };
        let so_far = |finished| {
            format!(
                "{finished} of {of} runs are over, and their lines stay in {shown}: go on with the same arguments{again} and --resume"
            )
        };
        let going = Going::on(Left::Said(so_far(0)));
        let mut finished = 0_usize;
        let work = |number| record_of((&file, &project.shown(&file)), &combinations, &id, number);
        parallel::try_each(left, sweep.jobs, work, |record: Record| {
            // The run may be that of another text.
            let is_same = fs::read_to_string(&file).is_ok_and(|now| now == text);
            ensure!(is_same, "{} has changed meanwhile: sweep it again", project.shown(&file));
            lines.add(&record)?;
            finished += 1;
            step.tick(&format!("{finished} of {of}"));
            going.say(so_far(finished));
            records.insert(record.run, record);
            Ok(())
        })?;
    }
    records.retain(|number, _| asked.contains(number));
    finish(project, &folder, &records.into_values().collect::<Vec<_>>(), &sweep.plot, asked.end - asked.start)
}

/// Makes the table and the figures of other sweeps' lines.
fn merge(project: &Project, sweep: &Sweep) -> Result<ExitCode> {
    let mut records: BTreeMap<u64, Record> = BTreeMap::new();
    for path in &sweep.merge {
        for record in lines::read::<Record>(path)? {
            let (run, shown) = (record.run, path.display());
            ensure!(record.is_possible(), "{shown} has a run {run} that no sweep writes: make it again");
            let is_same = records.values().next().is_none_or(|known| known.is_of_one_sweep(&record));
            ensure!(is_same, "{shown} has runs of another sweep: merge those of one");
            let known = records.entry(run).or_insert_with(|| record.clone());
            ensure!(
                *known == record,
                "run {run} has two results, one of them in {shown}: make both with the same source"
            );
        }
    }
    let first = records.values().next().context("the files have no run: name others")?;
    let (of, keys) = (first.of, first.varied.iter().map(|one| one.key.clone()).collect::<Vec<_>>());
    sweep.plot.iter().try_for_each(|plot| plot.check(&keys, records.values().map(Record::pairs)))?;
    let folder = match &sweep.out {
        Some(folder) => folder.clone(),
        None => numbered_folder(project, SWEEPS, &first.scenario, usize::MAX)?,
    };
    report::refuse_taken(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", project.shown(&folder)))?;
    let missing = missing(&records);
    let result = finish(project, &folder, &records.into_values().collect::<Vec<_>>(), &sweep.plot, of)?;
    missing.iter().try_for_each(|one| out::line(format_args!("{one}")))?;
    Ok(result)
}

/// A line for each of the first gaps among the runs of a sweep, with the command that makes its runs.
fn missing(records: &BTreeMap<u64, Record>) -> Vec<String> {
    let Some((_, first)) = records.first_key_value() else { return Vec::new() };
    let ends = records.keys().copied().chain([first.of]);
    let begins = [0].into_iter().chain(records.keys().map(|number| number + 1));
    let gaps = begins.zip(ends).map(|(begin, end)| begin..end).filter(|gap| !gap.is_empty());
    let line = |gap: Range<u64>| {
        let command = first.sweep_command();
        let (begin, end) = (gap.start, gap.end);
        let which = match end - begin {
            1 => format!("run {begin} is missing: make it"),
            _ => format!("runs {begin} to {} are missing: make them", end - 1),
        };
        format!("{which} with {command} --runs {begin}..{end} --json FILE")
    };
    let count = gaps.clone().count();
    let more = (count > MOST_GAPS).then(|| format!("{} gaps more: make these runs and merge again", count - MOST_GAPS));
    gaps.take(MOST_GAPS).map(line).chain(more).collect()
}

/// Writes the table, the figures and the page, and prints what failed.
fn finish(project: &Project, folder: &Path, records: &[Record], plots: &[Plot], of: u64) -> Result<ExitCode> {
    let files = report::write(folder, records, plots, of)?;
    let (mut failed, mut not_promised) = (0, 0);
    for record in records.iter().filter(|record| !record.passed) {
        let (count, word) = match record.not_promised.as_slice() {
            [] => (&mut failed, "FAIL"),
            _ => (&mut not_promised, "NOT PROMISED"),
        };
        *count += 1;
        out::line(format_args!("{word}  run {}: {}", record.run, record.combination()))?;
        record.reasons.iter().try_for_each(|reason| out::line(format_args!("      {reason}")))?;
        out::line(format_args!("      repeat it with: {}", record.command()))?;
    }
    let passed = records.len() - failed - not_promised;
    let others = if not_promised == 0 { String::new() } else { format!(", {not_promised} not promised") };
    out::line(format_args!("{passed} of {of} runs passed{others}"))?;
    files.iter().try_for_each(|file| out::line(format_args!("{}", project.shown(file))))?;
    Ok(if (passed + not_promised) as u64 == of { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes a run of the scenario in a file, which messages show otherwise. A run that cannot be made is one that failed.
fn record_of((file, shown): (&Path, &str), combinations: &Combinations, id: &str, number: u64) -> Record {
    let mut record = Record::new(id, number, combinations);
    record.file = shown.to_owned();
    let simulated = combinations.load(file, number).and_then(|scenario| {
        record.scenario.clone_from(&scenario.name);
        record.seed = scenario.seed;
        Ok((simulate(RunInput::of(&scenario))?, scenario))
    });
    match simulated {
        Ok((simulated, scenario)) => record.take(&scenario, simulated.results),
        Err(error) => record.reasons.push(format!("{error:#}")),
    }
    record
}

/// Names a sweep by all that determines its runs, but the source.
fn id(text: &str, combinations: &Combinations) -> String {
    let mut hash = Sha256::new();
    hash.update(text);
    hash.update(combinations.to_string());
    xtask::records::results::hex(&hash.finalize()).chars().take(16).collect()
}

#[cfg(test)]
mod tests;
