//! `cargo xtask soak`: simulates random systems, loads and faults until stopped.

use crate::arguments;
use crate::out;
use crate::progress::Step;
use crate::project::{Project, write_whole};
use crate::run::simulate::{RunInput, Simulated, simulate};
use crate::run::sweep::{self, Failure, Kinds};
use anyhow::{Context, Result};
use capdl::Scenario;
use clap::Args;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Arguments of the soak.
#[derive(Debug, Args)]
pub(crate) struct Soak {
    /// Minutes after which it ends; without it, it runs until interrupted
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::minutes)]
    minutes: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = arguments::seed)]
    from: u64,
    /// Seeds after which it ends
    #[arg(long, allow_negative_numbers = true, value_parser = |text: &str| arguments::whole(text, 1..=u64::MAX))]
    count: Option<u64>,
    /// Runs at a time; as many as there are processors without it
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::jobs)]
    jobs: Option<NonZeroUsize>,
}

impl Soak {
    /// The seeds of the soak.
    ///
    /// # Errors
    /// No seeds.
    fn seeds(&self) -> Result<Range<u64>> {
        let Self { minutes: _, from, count, jobs: _ } = *self;
        let end = count.map_or(Some(u64::MAX), |count| from.checked_add(count));
        let seeds = end.map(|end| from..end).filter(|seeds| !seeds.is_empty());
        seeds.with_context(|| format!("there are not so many seeds from {from} on: lower --from or --count"))
    }
}

/// Seeds between two checks of the time limit.
const BATCH: u64 = 32;

/// Runs the soak; the exit code says whether all runs passed.
pub(crate) fn run(project: &Project, soak: &Soak) -> Result<ExitCode> {
    let seeds = soak.seeds()?;
    let end = soak.minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let step = Step::new("soaking");
    let mut kinds = Kinds::default();
    let (mut next, mut runs, mut failed, mut commands) = (seeds.start, 0, 0, 0);
    while next < seeds.end && end.is_none_or(|end| Instant::now() < end) {
        let batch = next..seeds.end.min(next.saturating_add(BATCH));
        next = batch.end;
        let swept = sweep::sweep(batch, soak.jobs, one, |_| {});
        runs += swept.runs;
        failed += swept.failures.len() as u64;
        commands += swept.commands;
        swept.failures.iter().try_for_each(|failure| report(project, failure, kinds.add(failure)))?;
        step.tick(&format!("{runs} runs, {failed} failed, {commands} commands"));
    }
    drop(step);
    kinds.lines().iter().try_for_each(|kind| out::line(format_args!("{kind}")))?;
    out::line(format_args!("{} of {runs} runs passed, {commands} commands in all", runs - failed))?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The run of a seed, which determines its system, its faults and all random choices.
pub(crate) fn one(seed: u64) -> Result<Simulated> {
    let scenario = Scenario::parse(&sim::soak::scenario(seed), &format!("the scenario of seed {seed}"))?;
    simulate(RunInput { scenario: &scenario, seed, disk: None, show: None, step: None, folder: None })
}

/// Writes the scenario of a failed run to a file, and prints how to repeat and keep it. `first` is another seed that failed so.
fn report(project: &Project, failure: &Failure, first: Option<u64>) -> Result<()> {
    let Failure { seed, reasons } = failure;
    let file = project.target_folder("soak")?.join(format!("{seed}.toml"));
    write_whole(&file, sim::soak::scenario(*seed).as_bytes())?;
    if let Some(first) = first {
        let shown = project.shown(&file);
        return out::line(format_args!("FAIL  seed {seed}: as seed {first}; its scenario is {shown}"));
    }
    out::line(format_args!("FAIL  seed {seed}"))?;
    reasons.iter().try_for_each(|reason| out::line(format_args!("      {reason}")))?;
    let shown = project.shown(&file);
    out::line(format_args!("      repeat it with: cargo xtask sim {shown}"))?;
    out::line(format_args!(
        "      keep it as a test: cp {shown} scenarios/found/NAME.toml; name and describe there what was wrong"
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(from: u64, count: Option<u64>) -> Result<Range<u64>, String> {
        Soak { minutes: None, from, count, jobs: None }.seeds().map_err(|error| error.to_string())
    }

    #[test]
    fn a_soak_without_a_run_is_refused() {
        assert_eq!(seeds(7, Some(2)), Ok(7..9));
        assert_eq!(seeds(7, None), Ok(7..u64::MAX));
        assert_eq!(seeds(u64::MAX - 2, Some(2)), Ok(u64::MAX - 2..u64::MAX));
        for count in [None, Some(1)] {
            let error = seeds(u64::MAX, count).unwrap_err();
            assert!(error.contains("lower --from"), "{error}");
        }
    }
}
