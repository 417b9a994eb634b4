//! `cargo xtask bench --sim`: the speed of the simulator, and the time that parts of the data path take on the build machine.
//!
//! Both are optimized builds of their own, made by cargo. The simulator's time is the processor time of its one thread, as Linux
//! counts it. It excludes other work on the build machine, except for the effects of shared caches and memory. So the fastest of
//! several runs counts.

use crate::simulate::{RunInput, simulate};
use anyhow::{Context, Result, bail, ensure};
use capdl::Scenario;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use xtask::cargo::{self, cargo_in};
use xtask::out;
use xtask::progress::Step;
use xtask::project::Project;

/// The scenario that is simulated.
const SCENARIO: &str = "sim/speed.toml";
/// Runs, of which the fastest counts.
const RUNS: u64 = 3;
/// File in which Linux reports this thread's processor time, in nanoseconds, before other numbers.
const PROCESSOR_TIME: &str = "/proc/thread-self/schedstat";
/// Required speed: simulated requests per second of one processor.
const REACH: f64 = 450_000.0;
/// Environment variable that marks the optimized program.
const INNER: &str = "CAPNVME_BENCH_SIM";

/// Measures; the exit code says whether the required speed is reached.
pub(crate) fn run(project: &Project) -> Result<ExitCode> {
    if std::env::var_os(INNER).is_some() {
        return speed(project);
    }
    {
        let step = Step::new("building the simulator, optimized");
        // The program is looked up there afterwards, whatever the environment says.
        let folder = project.path("target");
        let build = ["build", "--profile", "sim", "--package", "lab", "--target-dir"];
        cargo::build(cargo_in(project.root()).args(build).arg(folder), "the simulator", &step)?;
    }
    let program = project.path("target/sim/lab");
    let measured = Command::new(&program).args(["bench", "--sim"]).env(INNER, "1").status();
    let reached = measured.with_context(|| format!("cannot run {}", project.shown(&program)))?.success();
    let pieces = ["--package", "blk-api", "--bench", "data_path", "--package", "nvme-driver", "--bench", "prp"];
    let pieces = cargo_in(project.root()).args(["bench", "--quiet"]).args(pieces).status();
    if !pieces.context("cannot run cargo")?.success() {
        bail!("the benchmark of the data path's pieces failed: see above");
    }
    Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Simulates the scenario and prints the speed.
fn speed(project: &Project) -> Result<ExitCode> {
    let scenario = Scenario::load(project.path(SCENARIO))?;
    let mut best = 0.0f64;
    for seed in 1..=RUNS {
        let (since, begun) = (processor_time()?, Instant::now());
        let simulated = simulate(RunInput { seed, ..RunInput::of(&scenario) })?;
        let (seconds, elapsed) = ((processor_time()? - since).as_secs_f64(), begun.elapsed().as_secs_f64());
        ensure!(simulated.results.passed, "the simulated run failed: {}", simulated.results.reasons.join("; "));
        let commands = simulated.account.commands;
        let rate = commands as f64 / seconds;
        out::line(format_args!(
            "seed {seed}: {commands} commands in {seconds:.2} s of a processor ({elapsed:.2} s by the clock)"
        ))?;
        best = best.max(rate);
    }
    out::line(format_args!("simulated 4 KiB requests a second, with checkers, at best: {best:.0} (goal: {REACH:.0})"))?;
    Ok(if best >= REACH { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Processor time of this thread so far.
fn processor_time() -> Result<Duration> {
    let reported = std::fs::read_to_string(PROCESSOR_TIME).context(PROCESSOR_TIME)?;
    let ns = reported.split_whitespace().next().and_then(|ns| ns.parse().ok());
    ns.map(Duration::from_nanos).with_context(|| format!("{PROCESSOR_TIME} says {reported:?}"))
}
