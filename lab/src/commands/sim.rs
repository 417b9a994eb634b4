//! `cargo xtask sim`: simulates a scenario, once or with many seeds.

use crate::seeds::{self, Failure, Kinds, Tally};
use crate::simulate::{self, RunInput, Simulated, simulate, suits};
use anyhow::{Context, Result, ensure};
use capdl::{Arch, KernelKind, Scenario, ThreadOrder};
use clap::Args;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use xtask::arguments::{self, Length, Settings};
use xtask::commands::demo::Demo;
use xtask::destination::{Destination, Format};
use xtask::image::own;
use xtask::out;
use xtask::progress::Step;
use xtask::project::Project;
use xtask::records::decode::{Filter, Level};
use xtask::reports::count::count;
use xtask::reports::wrap::wrapped;
use xtask::reports::{run_page, table, timeline};
use xtask::run::interrupted::{Going, Left};
use xtask::run::{files, folder, options};

/// Arguments of the simulator.
#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// The scenario: a name in scenarios/, or a TOML file
    scenario: String,
    #[command(flatten)]
    settings: Settings,
    /// Seed of all random choices: the same seed gives the same run; the scenario's own without it
    #[arg(long, conflicts_with = "seeds", allow_negative_numbers = true, value_parser = arguments::seed)]
    seed: Option<u64>,
    /// Many runs, one for each seed from A up to and without B
    #[arg(long, value_name = "A..B", allow_hyphen_values = true, value_parser = arguments::range)]
    seeds: Option<Range<u64>>,
    /// The architecture: x86_64 or aarch64; the scenario's without it
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    /// Order of ready threads of one priority: drawn, or sel4 as the kernel queues them; the scenario's without it
    #[arg(long, value_name = "ORDER")]
    order: Option<ThreadOrder>,
    /// The kernel: corrected, the project's own, or stock, a released seL4 without its corrections; the scenario's without it
    #[arg(long, value_name = "KERNEL")]
    kernel: Option<KernelKind>,
    /// Runs at a time; as many as there are processors without it
    #[arg(long, requires = "seeds", allow_negative_numbers = true, value_parser = arguments::jobs)]
    jobs: Option<NonZeroUsize>,
    /// Show log lines: LEVEL, or COMPONENT=LEVEL; several with commas
    #[arg(long, value_name = "FILTER", conflicts_with = "seeds")]
    log: Vec<String>,
    /// Pace the run, so that others can watch it (`top`, `ctl`); the scenario needs [telemetry]
    #[arg(long, conflicts_with = "seeds")]
    live: bool,
    /// Seconds of virtual time in a second of a run with --live
    #[arg(long, value_name = "X", requires = "live", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    #[command(flatten)]
    length: Length,
    /// Write the results as JSON, too: a file is replaced as a whole, a link's target too, a device or pipe is written to
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    json: Option<PathBuf>,
}

/// Simulates; the exit code says whether all runs passed.
pub(crate) fn run(project: &Project, sim: &Sim) -> Result<ExitCode> {
    let file = project.scenario(&sim.scenario)?;
    let mut scenario = Scenario::load_with(&file, sim.arch, &sim.settings.set)?;
    suits(&scenario, &sim.scenario)?;
    if simulate::is_missing(&scenario) {
        return with_own(project, &scenario);
    }
    ensure!(
        !sim.live || scenario.is_live(),
        "the scenario '{}' has no [telemetry], so there is nothing to watch: add the line [telemetry] to it",
        sim.scenario
    );
    if sim.live {
        let longer = sim.length.settings(&scenario)?;
        scenario = Scenario::load_with(&file, sim.arch, &[longer, sim.settings.set.clone()].concat())?;
    }
    scenario.machine.thread_order = sim.order.unwrap_or(scenario.machine.thread_order);
    scenario.machine.kernel = sim.kernel.unwrap_or(scenario.machine.kernel);
    let filter = Filter::parse(&sim.log, Level::Off)?.of_scenario(&scenario)?;
    let json = sim.json.as_deref().map(Destination::open).transpose()?;
    match &sim.seeds {
        Some(seeds) => {
            let order = sim.order.map(|order| format!(" --order {order}")).unwrap_or_default();
            let kernel = sim.kernel.map(|kernel| format!(" --kernel {kernel}")).unwrap_or_default();
            let arch = sim.arch.map(|arch| format!(" --arch {arch}")).unwrap_or_default();
            let set = options("--set", &sim.settings.set);
            many(&format!("{}{set}{arch}{order}{kernel}", sim.scenario), &scenario, seeds.clone(), sim.jobs)
        }
        None => {
            let show = (!sim.log.is_empty()).then_some(&filter);
            let seed = sim.seed.unwrap_or(scenario.seed);
            let speed = sim.live.then_some(sim.speed);
            once(project, &sim.scenario, RunInput { seed, show, speed, ..RunInput::of(&scenario) }, json)
        }
    }
}

/// A speed on the command line.
fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed: &f64| (0.001..=1000.0).contains(speed));
    speed.ok_or_else(|| "write a number from 0.001 to 1000".into())
}

/// Runs this command again, by a simulator with the user's own programs that the scenario names.
pub(crate) fn with_own(project: &Project, scenario: &Scenario) -> Result<ExitCode> {
    let simulator = own::simulator(project, scenario)?;
    let mut command = own::command(project, &simulator);
    let status =
        command.args(std::env::args_os().skip(1)).status().context("cannot run the simulator that was built")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a demonstration in the simulator.
///
/// # Errors
/// Arguments that do not fit the scenario.
pub(crate) fn demo(project: &Project, demo: &Demo) -> Result<ExitCode> {
    let scenario = demo.load(project)?;
    if simulate::is_missing(&scenario) {
        return with_own(project, &scenario);
    }
    let mut ready = demo.ready(scenario)?;
    let json = ready.json.take();
    let seed = demo.seed.unwrap_or(ready.scenario.seed);
    let (disk, show) = (ready.disk.as_ref(), ready.show());
    let input = RunInput { seed, disk, show, ..RunInput::of(&ready.scenario) };
    once(project, &demo.scenario, input, json)
}

/// Runs the scenario once and prints the results. `named` is its name or file, as a command takes it.
fn once(project: &Project, named: &str, input: RunInput<'_>, json: Option<Destination>) -> Result<ExitCode> {
    let RunInput { scenario, seed, .. } = input;
    suits(scenario, named)?;
    let folder = folder(project, &scenario.name)?;
    let simulated = {
        let _going = Going::on(Left::Nothing { shown: project.shown(&folder), folder: folder.clone() });
        let step = Step::new(format!("simulating '{}' with seed {seed}", scenario.name));
        simulate(RunInput { folder: Some(&folder), step: Some(&step), ..input })?
    };
    let Simulated { mut results, account } = simulated;
    results.folder = project.shown(&folder);
    timeline::write(&results, &folder, json.as_ref())?;
    run_page::write(project, &folder, scenario, &results, &arguments::typed())?;
    results.files = files(project, &folder);
    json.map(|mut json| json.write_json(Format::Run, &results)).transpose()?;
    let sentences = out::sentence_columns(io::stdout());
    out::line(format_args!("{}", table::render(&results, out::columns(), sentences)))?;
    let seed = format!(
        "Seed {seed}: {:.6} s of virtual time, {}, trace {:016x}",
        account.now_ns as f64 / 1e9,
        count(account.commands, "command"),
        account.trace_hash
    );
    out::line(format_args!("{}", wrapped(&seed, sentences)))?;
    Ok(if results.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn many(name: &str, scenario: &Scenario, seeds: Range<u64>, jobs: Option<NonZeroUsize>) -> Result<ExitCode> {
    let all = seeds.end - seeds.start;
    let step = Step::new(format!("simulating '{name}' with {}", count(all, "seed")));
    let going = Going::on(Left::Said(so_far(&Tally::default(), all)));
    let Tally { runs, commands, failures } = seeds::each(
        seeds,
        jobs,
        |seed| simulate(RunInput { seed, ..RunInput::of(scenario) }),
        |tally| {
            step.tick(&format!("{} of {all}", tally.runs));
            going.say(so_far(tally, all));
        },
    );
    drop((step, going));
    let mut kinds = Kinds::default();
    for failure in &failures {
        let Failure { seed, reasons } = failure;
        if let Some(first) = kinds.add(failure) {
            out::line(format_args!("FAIL  seed {seed}: as seed {first}"))?;
            continue;
        }
        out::line(format_args!("FAIL  seed {seed}"))?;
        reasons.iter().try_for_each(|reason| out::line(format_args!("      {reason}")))?;
        out::line(format_args!("      repeat it with: cargo xtask sim {name} --seed {seed}"))?;
    }
    kinds.lines().iter().try_for_each(|kind| out::line(format_args!("{kind}")))?;
    let passed = runs - failures.len() as u64;
    out::line(format_args!("{passed} of {} passed, {} in all", count(runs, "run"), count(commands, "command")))?;
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sentence about `count` runs that are interrupted: how many are over, and how many failed.
fn so_far(tally: &Tally, count: u64) -> String {
    let first = tally.failures.iter().map(|failure| failure.seed).min();
    let failed = first.map(|seed| format!(", {} failed, such as that of seed {seed}", tally.failures.len()));
    format!("{} of {count} runs are over{}; no file stays", tally.runs, failed.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_seeds_name_one_that_failed() {
        let failures = [7, 3].map(|seed| Failure { seed, reasons: Vec::new() }).to_vec();
        let tally = Tally { runs: 5, commands: 0, failures };
        assert_eq!(so_far(&tally, 9), "5 of 9 runs are over, 2 failed, such as that of seed 3; no file stays");
        assert_eq!(so_far(&Tally::default(), 9), "0 of 9 runs are over; no file stays");
    }
}
