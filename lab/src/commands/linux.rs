//! `cargo xtask linux`: Linux's driver and tools judge the controller model.
//!
//! Each check boots a guest and runs a job in it (`lab/linux`), on the model and, as a control of the check itself, on QEMU's
//! own controller. The sweep sends the same commands to both and compares their answers. A run's log is in
//! `target/linux/<check>-<device>/`.

mod answers;
mod bench;
mod check;
mod guest;
mod programs;
mod sweep;

pub(crate) use check::{LinuxCheck, all};

use crate::commands::counted::Counted;
use crate::parallel;
use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use guest::Tools;
use std::process::ExitCode;
use std::time::Instant;
use xtask::out;
use xtask::progress::Step;
use xtask::project::Project;
use xtask::setup::{linux_guest, vfio_user};

/// Selection of the checks.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Linux {
    #[command(subcommand)]
    measure: Option<Measure>,
    /// Only the checks whose names contain this
    #[arg(default_value = "")]
    only: String,
    /// All checks, instead of those that `cargo xtask test` runs
    #[arg(long)]
    full: bool,
}

/// Measurements, which run instead of the checks.
#[derive(Debug, Subcommand)]
enum Measure {
    /// Measure Linux beside us: instructions of a read, a noisy neighbour, throughput of the model
    Bench,
}

/// The tools of all guests.
///
/// # Errors
/// One is not installed.
pub(crate) fn tools(project: &Project) -> Result<Tools> {
    let qemu = vfio_user::installed(project)?.context(linux_guest::MISSING)?;
    Ok(Tools { qemu, guest: linux_guest::installed(project)?.context(linux_guest::MISSING)? })
}

/// Runs the checks, two at a time, and prints a line for each.
pub(crate) fn run(project: &Project, linux: &Linux) -> Result<ExitCode> {
    let tools = tools(project)?;
    if let Some(Measure::Bench) = linux.measure {
        bench::run(project, &tools)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut checks = all(project)?;
    checks.retain(|check| (linux.full || !check.is_full()) && check.to_string().contains(&linux.only));
    ensure!(
        !checks.is_empty(),
        "no check has '{}' in its name: leave it out, or add --full for those that the tests leave out",
        linux.only
    );
    out::line(format_args!("Linux {}, QEMU {}", tools.guest.version(), tools.qemu.version()))?;
    let step = Step::new("running Linux");
    let (pairs, alone): (Vec<_>, Vec<_>) = checks.iter().partition(|check| check.may_run_beside());
    let mut failed = 0;
    let timed = |check: &LinuxCheck| {
        let since = Instant::now();
        (check.to_string(), check.run(project, &tools), since.elapsed())
    };
    let mut show = |(name, result, took): (String, Result<Counted>, std::time::Duration)| {
        let counted = result.unwrap_or_else(|error| check::counted(vec![format!("{error:#}")], None));
        failed += usize::from(!counted.failed.is_empty());
        let verdict = if counted.failed.is_empty() { "passed" } else { "FAILED" };
        step.line(&format!("  {verdict}  {name} ({:.1} s)", took.as_secs_f64()));
        counted.failed.iter().for_each(|reason| step.line(&format!("          {reason}")));
        counted.unsteady.iter().for_each(|first| step.line(&format!("          booted twice: {first}")));
    };
    parallel::each(pairs, None, timed, &mut show);
    alone.into_iter().map(timed).for_each(&mut show);
    drop(step);
    out::line(format_args!("{} passed, {failed} failed", checks.len().saturating_sub(failed)))?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
