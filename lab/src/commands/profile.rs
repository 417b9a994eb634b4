//! `cargo xtask bench --profile NAME`: instructions of a benchmark, by function and source line.
//!
//! Makes one run with the counter's histogram of program counters. It covers the measured part of the benchmark, from the first
//! marker to the last, without the warm-up. The histogram's sums are compared with the counts by component of the same run, and
//! `cargo xtask test` compares them with those of a run without it.
//!
//! Neighbours: `bench` has the command line and the measurement without a histogram; `counts` the counter; `run` runs the
//! scenario. Left out: the instance of a program that executed an instruction; the copies of a tenant are one component.

mod breakdown;
mod histogram;
mod symbols;

use crate::commands::bench;
use anyhow::{Context, Result, bail, ensure};
use breakdown::{Breakdown, Function, Line, Row};
use capdl::Scenario;
use kernel::Kernel;
use report::Measured;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use symbols::Symbols;
use xtask::destination::{Destination, Format};
use xtask::image::programs::Programs;
use xtask::machine::counts::{self, Instructions, Plugins};
use xtask::out;
use xtask::project::Project;
use xtask::run::{Options, Runner};

/// Rows of each printed list; the JSON has all.
const SHOWN_ROWS: usize = 40;
/// A component with a smaller part of the instructions, in thousandths, is shown only if it was named.
const SHOWN_SHARE: u64 = 10;

/// The profile of one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Profile {
    benchmark: String,
    operations: u64,
    instructions: u64,
    components: Vec<Breakdown>,
}

/// The benchmark with the same counts in every run of the same programs.
const REPEATABLE: &str = "ipc-call";

/// The scenario that measures `name`.
///
/// # Errors
/// No such scenario; the sentence lists the names that exist.
pub(crate) fn scenario(project: &Project, name: &str) -> Result<PathBuf> {
    let mut names = Vec::new();
    for file in bench::measuring(project, "")? {
        let measured = Scenario::load(&file)?.expect.measured;
        if measured.iter().any(|measured| measured == bench::name_now(name)) {
            return Ok(file);
        }
        names.extend(measured);
    }
    bail!("no benchmark is named '{name}': name one of {}", names.join(", "))
}

/// Runs the benchmark in `file` once and prints its instructions by function and line; all rows are also written to `json`.
///
/// # Errors
/// A run that fails, sums that do not agree, or a named component that executed nothing.
pub(crate) fn run(
    runner: &Runner<'_>,
    file: &Path,
    plugins: &Plugins,
    component: Option<&str>,
    json: Option<Destination>,
) -> Result<()> {
    let (measured, histogram) = measure(runner, file, plugins)?;
    let mut profile = profile(runner.project.root(), &measured, &histogram, runner.programs, runner.kernel)?;
    if let Some(component) = component {
        let names: Vec<_> = profile.components.iter().map(|one| one.component.clone()).collect();
        profile.components.retain(|one| one.component == component);
        ensure!(
            !profile.components.is_empty(),
            "no component named '{component}' executed anything: name one of {}",
            names.join(", ")
        );
    }
    json.map(|mut json| json.write_json(Format::Profile, &profile)).transpose()?;
    show(&profile, component.is_some())
}

/// Compares the sums of a profile with the counts of a run without one; returns the differences.
///
/// # Errors
/// As [`run`].
pub(crate) fn check(runner: &Runner<'_>, plugins: &Plugins) -> Result<Vec<String>> {
    let file = scenario(runner.project, REPEATABLE)?;
    let (_, histogram) = measure(runner, &file, plugins)?;
    let (_, folder) = bench::run_once(runner, &file, Options { counter: Some(plugins), ..Options::default() })?;
    let counts = fs::read_to_string(folder.join("counts")).context("the counter wrote nothing")?;
    Ok(differences(&histogram::sums(&histogram)?, &counts::between_markers(&counts)?))
}

fn differences(with: &Instructions, without: &Instructions) -> Vec<String> {
    let names: BTreeSet<_> = with.keys().chain(without.keys()).collect();
    let count = |counts: &Instructions, name: &str| counts.get(name).copied().unwrap_or(0);
    let differ = names.into_iter().filter(|name| count(with, name) != count(without, name));
    differ
        .map(|name| {
            let (with, without) = (count(with, name), count(without, name));
            format!("{name} executed {with} instructions with a histogram, and {without} without")
        })
        .collect()
}

/// Runs once: the measurement, and the histogram, whose sums equal the counts of the run.
fn measure(runner: &Runner<'_>, file: &Path, plugins: &Plugins) -> Result<(Measured, String)> {
    let (measured, folder) =
        bench::run_once(runner, file, Options { counter: Some(plugins), histogram: true, ..Options::default() })?;
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path)
            .with_context(|| format!("the counter wrote nothing to {}", runner.project.shown(&path)))
    };
    let (counts, histogram) = (counts::between_markers(&read("counts")?)?, read("histogram")?);
    let different = differences(&histogram::sums(&histogram)?, &counts);
    ensure!(different.is_empty(), "the counter does not agree with itself: {}", different.join("; "));
    Ok((measured, histogram))
}

fn profile(root: &Path, measured: &Measured, histogram: &str, programs: &Programs, kernel: &Kernel) -> Result<Profile> {
    let all = histogram::by_component(histogram)?;
    let kernel = fs::read(&kernel.elf64).with_context(|| format!("cannot read {}", kernel.elf64.display()))?;
    let mut components = Vec::new();
    for (component, addresses) in &all {
        let elf = if component == counts::KERNEL_NAME { Ok(&*kernel) } else { programs.elf(component) };
        let symbols =
            elf.ok().map(|elf| Symbols::of(elf, root)).transpose().with_context(|| format!("of {component}"))?;
        components.push(Breakdown::of(component, addresses, symbols.as_ref())?);
    }
    components.sort_by_key(|one| std::cmp::Reverse(one.instructions));
    let instructions = components.iter().map(|one| one.instructions).sum();
    Ok(Profile { benchmark: measured.name.to_string(), operations: measured.operations, instructions, components })
}

fn show(profile: &Profile, all: bool) -> Result<()> {
    let per_op = |count: u64| count as f64 / profile.operations.max(1) as f64;
    out::line(format_args!(
        "{}: {} operations, {:.1} instructions an operation",
        profile.benchmark,
        profile.operations,
        per_op(profile.instructions)
    ))?;
    let is_shown = |one: &&Breakdown| all || one.instructions * 1000 >= profile.instructions * SHOWN_SHARE;
    for one in profile.components.iter().filter(is_shown) {
        let name = &one.component;
        let title = format!("{name}: {:.1} instructions an operation", per_op(one.instructions));
        out::line(format_args!("\n== {title}"))?;
        let function = |of: &Function| of.function.clone();
        list("by compiled function, with what is inlined into it", &one.outermost, per_op, function)?;
        sum(&one.outermost, per_op)?;
        list("by innermost function, without what is inlined into it", &one.innermost, per_op, function)?;
        sum(&one.innermost, per_op)?;
        list("by function, with what is inlined into it: rows overlap", &one.inclusive, per_op, function)?;
        let line = |of: &Line| format!("{}  {}  in {}", of.place, of.function, of.outermost);
        list("by source line: innermost function, compiled function", &one.lines, per_op, line)?;
        sum(&one.lines, per_op)?;
        if one.own_lines != one.lines {
            list("by source line, with what of Rust's library is inlined there", &one.own_lines, per_op, line)?;
            sum(&one.own_lines, per_op)?;
        }
    }
    Ok(())
}

/// The first rows of a list.
fn list<K>(title: &str, rows: &[Row<K>], per_op: impl Fn(u64) -> f64, text: impl Fn(&K) -> String) -> Result<()> {
    out::line(format_args!("\n{title}"))?;
    let mut shown = rows.iter().take(SHOWN_ROWS);
    shown.try_for_each(|row| out::line(format_args!("{:>10.2}  {}", per_op(row.instructions), text(&row.of))))
}

/// The sum of the rows that are not shown, and of all rows.
fn sum<K>(rows: &[Row<K>], per_op: impl Fn(u64) -> f64) -> Result<()> {
    let sum = |rows: &[Row<K>]| per_op(rows.iter().map(|row| row.instructions).sum());
    if let Some(rest) = rows.get(SHOWN_ROWS..).filter(|rest| !rest.is_empty()) {
        out::line(format_args!("{:>10.2}  ({} more)", sum(rest), rest.len()))?;
    }
    out::line(format_args!("{:>10.2}  sum", sum(rows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_that_only_one_count_has_is_a_difference() {
        let counts = |counts: &[(&str, u64)]| counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let (with, without) = (counts(&[("bench", 5), ("kernel", 7)]), counts(&[("bench", 5), ("console", 1)]));
        assert!(differences(&with, &with).is_empty());
        assert_eq!(
            differences(&with, &without),
            [
                "console executed 0 instructions with a histogram, and 1 without",
                "kernel executed 7 instructions with a histogram, and 0 without"
            ]
        );
    }
}
