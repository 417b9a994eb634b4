//! `cargo xtask bench`: measures the cost of operations in instructions.
//!
//! Every scenario that expects a measurement is run with the counter (`counts`), and on QEMU's own controllers with time going by
//! instructions (`-icount`). Between two waits for the device the machine does the same in every run. Two numbers depend on when QEMU's other
//! thread does the transfer: how often a polling loop polls meanwhile, and how many timer ticks an idle processor takes. So each
//! benchmark is run three times, and the median run is reported, with all its waiting. The fewest instructions are judged
//! ([`gates`]).

mod gates;

pub(crate) use gates::{GATES, Gate, name_now};

use crate::commands::counted::Counted;
use crate::commands::{bench_sim, profile};
use crate::model;
use anyhow::{Context, Error, Result, bail, ensure};
use capdl::Scenario;
use clap::Args;
use gates::{Judged, judged_against, missed_by};
use kernel::Arch;
use report::Measured;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xtask::destination::{Destination, Format};
use xtask::image::programs;
use xtask::machine::counts::{self, Instructions, Plugins};
use xtask::out;
use xtask::progress::Step;
use xtask::project::Project;
use xtask::reports::sheet::Sheet;
use xtask::run::{Device, Options, Runner, suits};
use xtask::setup::chosen_kernel::{self, ChosenKernel};
use xtask::setup::packages::Consent;
use xtask::setup::vfio_user;

/// Arguments of the measurement.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Only the benchmarks whose names contain this
    #[arg(default_value = "")]
    only: String,
    /// The architecture: x86_64 or aarch64
    #[arg(long, default_value = "x86_64")]
    arch: String,
    #[command(flatten)]
    kernel: ChosenKernel,
    /// Write the numbers as JSON, too: a file is replaced as a whole, a link's target too, a device or pipe is written to
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show this benchmark's instructions by function and source line
    #[arg(long, value_name = "NAME", conflicts_with = "only")]
    profile: Option<String>,
    /// With --profile: only this component, such as nvme-server, bench or kernel
    #[arg(long, value_name = "NAME", requires = "profile")]
    component: Option<String>,
    /// Measure the simulator and the data path's pieces on the build machine instead
    #[arg(long, conflicts_with_all = ["only", "json", "arch", "kernel", "profile"])]
    sim: bool,
    /// Install missing packages through sudo without asking
    #[arg(long)]
    yes: bool,
}

/// All benchmarks.
#[derive(Debug, Serialize)]
struct Benchmarks {
    benchmarks: Vec<Benchmark>,
}

/// A benchmark's numbers.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Benchmark {
    name: String,
    instructions_per_op: f64,
    doorbells_per_op: f64,
    by_component: BTreeMap<String, f64>,
    /// Fewest and most instructions of all runs, for the printed table.
    #[serde(skip)]
    spread: (f64, f64),
}

/// Runs of each benchmark; odd, for a median.
const RUNS: usize = 3;
/// Runs of a benchmark in a test, at most: the test repeats it until a run is within the gate.
const MOST_RUNS: usize = 12;

/// Runs the benchmarks; fails when one does not reach its gate.
pub(crate) fn run(project: &Project, bench: &Bench) -> Result<ExitCode> {
    if bench.sim {
        return bench_sim::run(project);
    }
    // Report wrong arguments before any long step.
    let arch: Arch = bench.arch.parse().map_err(Error::msg)?;
    let scenarios = match &bench.profile {
        Some(name) => vec![profile::scenario(project, name)?],
        None => measuring(project, &bench.only)?,
    };
    let mut json = bench.json.as_deref().map(Destination::open).transpose()?;
    let consent = if bench.yes { Consent::Given } else { Consent::NotAsked };
    let kernel = chosen_kernel::prepare(project, consent, &bench.kernel.options(arch)?)?;
    for file in &scenarios {
        chosen_kernel::suits(&kernel, &Scenario::load(file)?)?;
    }
    let programs = programs::build(project, &kernel, "info", None)?;
    let plugins = Plugins::compile(project)?;
    let runner = model::runner(project, &kernel, &programs);
    if bench.profile.is_some() {
        let component = bench.component.as_deref();
        scenarios.iter().try_for_each(|file| profile::run(&runner, file, &plugins, component, json.take()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = Benchmarks { benchmarks: Vec::new() };
    for file in &scenarios {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(why) = cannot_run(project, file, arch)? {
            out::note(format_args!("'{name}' is left out: {why}"));
            continue;
        }
        let _step = Step::new(format!("measuring '{name}'"));
        all.benchmarks.push(measure(&runner, file, &plugins)?);
    }
    let written = Benchmarks { benchmarks: gates::with_former_names(&all.benchmarks) };
    json.map(|mut json| json.write_json(Format::Benchmarks, &written)).transpose()?;
    let judged = Judged::of(&kernel);
    out::line(format_args!("{}", table(judged, &all.benchmarks).fit(out::columns())))?;
    let missed = missed(judged, &all.benchmarks);
    missed.iter().try_for_each(|sentence| out::line(format_args!("FAIL {sentence}")))?;
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Files of the scenarios that measure something and have `only` in their names.
pub(crate) fn measuring(project: &Project, only: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for name in project.scenarios()? {
        let file = project.scenario(&name)?;
        let scenario = Scenario::load(&file)?;
        if scenario.expect.measured.iter().any(|measured| measured.contains(only)) {
            files.push(file);
        }
    }
    ensure!(!files.is_empty(), "no scenario measures anything named like '{only}'");
    Ok(files)
}

/// Measurements so far in a run of the tests: some benchmarks are judged against others.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Vec<(Arch, Benchmark)>>);

impl Known {
    /// Measures the scenario in `file` and the benchmarks it is judged against, unless they are known. It fails by the gates that
    /// it misses, and is unsteady if the first measurement alone misses some.
    pub(crate) fn check(&self, runner: &Runner<'_>, file: &Path, plugins: &Plugins) -> Result<Counted> {
        let arch = runner.kernel.arch;
        let names = Scenario::load(file)?.expect.measured;
        let known = self.of(arch).into_iter().find(|known| names.contains(&known.name));
        let first = known.map_or_else(|| measure_once(runner, file, plugins), Ok)?;
        for other in judged_against(&first.name) {
            if !self.has(arch, other) {
                for file in measuring(runner.project, other)? {
                    self.add(arch, measure_once(runner, &file, plugins)?);
                }
            }
        }
        let known = self.of(arch);
        let mut runs = vec![first];
        let mut unsteady = None;
        loop {
            let own = middle(runs.clone())?;
            let missed = missed_by(Judged::of(runner.kernel), &own, &known);
            if missed.is_empty() || runs.len() >= MOST_RUNS {
                self.add(arch, own);
                return Ok(match missed.is_empty() {
                    true => Counted { unsteady, ..Counted::one() },
                    false => Counted { failed: missed, ..Counted::default() },
                });
            }
            unsteady.get_or_insert_with(|| missed.join("; "));
            // Take the fewest of more runs: on a busy build machine the batches of the first runs may have been small.
            runs.push(measure_once(runner, file, plugins)?);
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<(Arch, Benchmark)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, arch: Arch, benchmark: Benchmark) {
        self.all().push((arch, benchmark));
    }

    fn has(&self, arch: Arch, name: &str) -> bool {
        self.all().iter().any(|(of, known)| *of == arch && known.name == name)
    }

    /// Measurements of an architecture.
    fn of(&self, arch: Arch) -> Vec<Benchmark> {
        self.all().iter().filter(|(of, _)| *of == arch).map(|(_, known)| known.clone()).collect()
    }
}

/// The median run of [`RUNS`].
fn measure(runner: &Runner<'_>, file: &Path, plugins: &Plugins) -> Result<Benchmark> {
    let runs: Result<Vec<_>> = (0..RUNS).map(|_| measure_once(runner, file, plugins)).collect();
    middle(runs?)
}

fn middle(mut runs: Vec<Benchmark>) -> Result<Benchmark> {
    runs.sort_by(|one, other| one.instructions_per_op.total_cmp(&other.instructions_per_op));
    let least = runs.first().context("nothing was run")?.instructions_per_op;
    let most = runs.last().context("nothing was run")?.instructions_per_op;
    let middle = runs.swap_remove(runs.len() / 2);
    Ok(Benchmark { spread: (least, most), ..middle })
}

fn measure_once(runner: &Runner<'_>, file: &Path, plugins: &Plugins) -> Result<Benchmark> {
    let (measured, folder) = run_once(runner, file, Options { counter: Some(plugins), ..Options::default() })?;
    let counts = folder.join("counts");
    let text = std::fs::read_to_string(&counts)
        .with_context(|| format!("the counter wrote nothing to {}", runner.project.shown(&counts)))?;
    benchmark(&measured, &counts::between_markers(&text)?)
}

/// Runs the benchmark in `file`; returns the measurement and the run's folder.
pub(crate) fn run_once(runner: &Runner<'_>, file: &Path, options: Options<'_>) -> Result<(Measured, PathBuf)> {
    let options = Options { device: device_of(&Scenario::load(file)?), ..options };
    let results = runner.run(file, options)?;
    if !results.passed {
        bail!("'{}' failed: {}; the log is {}/log", results.scenario, results.reasons.join("; "), results.folder);
    }
    Ok((together(&results.measured)?, runner.project.path(&results.folder)))
}

/// The controllers that a benchmark is run on: QEMU's own, where they have what it needs.
fn device_of(scenario: &Scenario) -> Device {
    if scenario.is_simulators_alone() { Device::Model } else { Device::Qemu }
}

/// Why a benchmark cannot be run here, if it cannot.
fn cannot_run(project: &Project, file: &Path, arch: Arch) -> Result<Option<String>> {
    let scenario = Scenario::load(file)?;
    if device_of(&scenario) == Device::Qemu {
        return Ok(None);
    }
    if let Err(error) = suits(&scenario, &scenario.name, arch, Device::Model) {
        return Ok(Some(error.to_string()));
    }
    Ok(vfio_user::installed(project)?.is_none().then(|| vfio_user::MISSING.to_owned()))
}

/// Sum of several components that measured at the same time, under one name.
fn together(all: &[Measured]) -> Result<Measured> {
    let [first, others @ ..] = all else { bail!("nothing was measured") };
    ensure!(others.iter().all(|other| other.name == first.name), "several measured different things at the same time");
    Ok(others.iter().fold(first.clone(), |sum, other| Measured {
        operations: sum.operations + other.operations,
        doorbells: sum.doorbells + other.doorbells,
        ..sum
    }))
}

fn benchmark(measured: &Measured, instructions: &Instructions) -> Result<Benchmark> {
    ensure!(measured.operations > 0, "'{}' measured no operation", measured.name);
    let per_op = |count: u64| (count as f64 / measured.operations as f64 * 1000.0).round() / 1000.0;
    Ok(Benchmark {
        name: measured.name.to_string(),
        instructions_per_op: per_op(instructions.values().sum()),
        doorbells_per_op: per_op(measured.doorbells),
        by_component: instructions.iter().map(|(name, count)| (name.clone(), per_op(*count))).collect(),
        spread: (per_op(instructions.values().sum()), per_op(instructions.values().sum())),
    })
}

fn missed(judged: Judged, benchmarks: &[Benchmark]) -> Vec<String> {
    benchmarks.iter().flat_map(|one| missed_by(judged, one, benchmarks)).collect()
}

fn table(judged: Judged, benchmarks: &[Benchmark]) -> Sheet {
    let mut components: Vec<&str> =
        benchmarks.iter().flat_map(|one| one.by_component.keys().map(String::as_str)).collect();
    components.sort_unstable();
    components.dedup();
    let first = ["instructions an operation", "in all", "fewest to most"];
    let mut sheet = Sheet::new(first.iter().chain(&components).chain(&["doorbells", "at most", "goal"]).copied());
    for one in benchmarks {
        let parts = components.iter().map(|name| one.by_component.get(*name).copied().unwrap_or(0.0));
        let (least, most) = one.spread;
        let in_all = [format!("{:.0}", one.instructions_per_op), format!("{least:.0} to {most:.0}")];
        let numbers = in_all.into_iter().chain(parts.map(|number| format!("{number:.0}")));
        let whole = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.0}"));
        let most = whole(judged.most(&one.name));
        let goal = whole(judged.goal(&one.name));
        sheet.numbers(&one.name, numbers.chain([format!("{:.3}", one.doorbells_per_op), most, goal]));
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(operations: u64) -> Measured {
        Measured { name: report::clip("read-4k-qd32-polled"), operations, doorbells: 50 }
    }

    fn instructions() -> Instructions {
        [("kernel".to_owned(), 100_000), ("bench".to_owned(), 70_000)].into()
    }

    #[test]
    fn the_json_has_the_agreed_names() {
        let benchmarks = vec![benchmark(&measured(1000), &instructions()).unwrap()];
        let text = serde_json::to_string(&Benchmarks { benchmarks }).unwrap();
        assert_eq!(
            text,
            r#"{"benchmarks":[{"name":"read-4k-qd32-polled","instructions_per_op":170.0,"doorbells_per_op":0.05,"by_component":{"bench":70.0,"kernel":100.0}}]}"#
        );
    }

    #[test]
    fn the_run_in_the_middle_counts_and_the_others_are_its_spread() {
        let run = |operations| benchmark(&measured(operations), &instructions()).unwrap();
        let middle = middle(vec![run(100), run(1000), run(500)]).unwrap();
        assert_eq!((middle.instructions_per_op, middle.spread), (340.0, (170.0, 1700.0)));
        assert!(super::middle(Vec::new()).is_err());
    }

    #[test]
    fn operations_under_one_name_are_added() {
        let other = Measured { name: report::clip("another"), ..measured(1) };
        assert_eq!(together(&[measured(3), measured(4)]).unwrap().operations, 7);
        assert!(together(&[measured(3), other]).is_err());
        assert!(together(&[]).is_err());
    }

    #[test]
    fn no_operations_are_an_error_and_no_number() {
        assert!(benchmark(&measured(0), &instructions()).is_err());
    }
}
