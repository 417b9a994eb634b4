//! Many simulated runs, several at a time. Each has a thread of its own and shares nothing, so their number and order do not
//! change any result.

use crate::parallel;
use crate::run::simulate::Simulated;
use anyhow::Result;
use std::num::NonZeroUsize;
use std::ops::Range;

/// Results of the runs.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Runs that were made.
    pub(crate) runs: u64,
    /// Commands that controllers completed in these runs.
    pub(crate) commands: u64,
    /// Runs that did not pass, by seed.
    pub(crate) failures: Vec<Failure>,
}

/// A run that did not pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// Its seed.
    pub(crate) seed: u64,
    /// Why.
    pub(crate) reasons: Vec<String>,
}

/// Makes a run of each seed, `jobs` at a time; without `jobs`, as many as there are processors. Calls `done` with the number of
/// finished runs.
pub(crate) fn sweep(
    seeds: Range<u64>,
    jobs: Option<NonZeroUsize>,
    run: impl Fn(u64) -> Result<Simulated> + Sync,
    mut done: impl FnMut(u64),
) -> Sweep {
    let mut sum = Sweep::default();
    parallel::each(
        seeds,
        jobs,
        |seed| (seed, run(seed)),
        |(seed, outcome)| {
            sum.add(seed, outcome);
            done(sum.runs);
        },
    );
    sum.failures.sort_by_key(|failure| failure.seed);
    sum
}

impl Sweep {
    /// Adds a run.
    pub(crate) fn add(&mut self, seed: u64, outcome: Result<Simulated>) {
        self.runs += 1;
        match outcome {
            Ok(Simulated { results, account }) => {
                self.commands += account.commands;
                if !results.passed {
                    self.failures.push(Failure { seed, reasons: results.reasons });
                }
            }
            Err(error) => self.failures.push(Failure { seed, reasons: vec![format!("{error:#}")] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn a_range_at_the_end_of_all_numbers_ends() {
        let jobs = NonZeroUsize::new(3);
        let seeds = u64::MAX - 2..u64::MAX;
        let swept = sweep(seeds.clone(), jobs, |seed| bail!("seed {seed}"), |runs| assert!(runs <= 2));
        assert_eq!(swept.failures.iter().map(|failure| failure.seed).collect::<Vec<_>>(), seeds.collect::<Vec<_>>());
        assert_eq!(sweep(5..5, jobs, |seed| bail!("seed {seed}"), |_| {}).runs, 0);
    }
}
