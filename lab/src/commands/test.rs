//! `cargo xtask test`: runs every test, and reports how many passed.
//!
//! The tests are:
//!
//! - the tests of the build machine, and the parts of `cargo xtask check`;
//! - the commands' answers to bad input;
//! - every scenario in the simulator, most of those that QEMU runs on AArch64 there too, and those that the soak found;
//! - a few points of every experiment, seeds of the soak, and ten seconds of every fuzz target;
//! - every scenario on QEMU, a run that hangs, and the root task without fault injection;
//! - parts of a soak and a sweep by GNU parallel and Slurm, where these are installed;
//! - Linux on the controller model, see `cargo xtask linux`;
//! - the model of the kernel against the kernel, and each correction of the kernel;
//! - some scenarios on a seL4 that the user installed, where `--kernel` or a variable names one.
//!
//! Each test counts as one line, passed or failed with its reason; the last line has the sums. Rows that were not judged and tests that
//! passed only when they were repeated are listed before it. `--quick` runs the tests that take little time.

mod case;
mod running;
mod selection;
mod tally;
mod units;

use crate::commands::linux;
use anyhow::Result;
use case::{Demand, TestCase};
use clap::Args;
use running::Ground;
use selection::{Names, Scope, chosen};
use std::path::PathBuf;
use std::process::ExitCode;
use tally::Tally;
use xtask::destination::Destination;
use xtask::judges::times::NotJudged;
use xtask::project::Project;
use xtask::setup::chosen_kernel::ChosenKernel;
use xtask::setup::packages::Consent;

/// Selection of the tests.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Only the tests whose names contain this
    #[arg(default_value = "")]
    only: String,
    /// Only quick parts: unit tests, check, each scenario once in the simulator, the demo on QEMU
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    kernel: ChosenKernel,
    /// Fail if a time or rate was not judged because this machine was too slow; scenarios that have some run alone
    #[arg(long)]
    strict: bool,
    /// Write the results to this file, too, as JUnit's XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Install missing packages through sudo without asking
    #[arg(long)]
    yes: bool,
}

/// Runs the selected tests; a failure does not stop the others.
pub(crate) fn run(project: &Project, test: &Test, program: clap::Command) -> Result<ExitCode> {
    // Report a name without tests, or a file that cannot be written, before any long step.
    let scope = if test.quick { Scope::Quick } else { Scope::Whole };
    let cases = chosen(&Names::of(project, &test.kernel)?, linux::all(project)?, scope, &test.only)?;
    let junit = test.junit.as_deref().map(Destination::open).transpose()?;
    let consent = if test.yes { Consent::Given } else { Consent::NotAsked };
    let ground = Ground::prepare(project, consent, &test.kernel, &cases, NotJudged::of(test.strict), program)?;
    let tally = Tally::default();
    let with = |demand: Demand, cases: Vec<TestCase>| -> (Vec<TestCase>, Vec<TestCase>) {
        cases.into_iter().partition(|case| case.demand(project) == demand)
    };
    let (alone, others) = with(Demand::All, cases);
    let (without_runs, others) = with(Demand::NoRuns, others);
    let (mut quiet, others) = with(Demand::Quiet, others);
    let (counted, others) = with(Demand::Counted, others);
    let (patient, mut others) = with(Demand::Patient, others);
    // A build does not keep all processors busy all the time, and a run of QEMU takes one: they go together.
    others.sort_by_key(|case| case.demand(project) == Demand::Processor);
    // Where every time must be judged, no other run takes a processor.
    let judged_alone = if test.strict { std::mem::take(&mut quiet) } else { Vec::new() };
    let one = |case: &TestCase| tally.run(case, || ground.run(case));
    let run = |case: &TestCase| ground.run(case);
    tally.run_beside(patient, run, || {
        tally.run_pairs(others, run)?;
        tally.run_pairs(quiet, run)?;
        judged_alone.iter().chain(&counted).try_for_each(one)?;
        tally.run_pairs(without_runs, run)
    })?;
    alone.iter().try_for_each(one)?;
    tally.report()?;
    junit.map(|mut file| file.write(tally.junit()?.as_bytes())).transpose()?;
    Ok(if tally.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
