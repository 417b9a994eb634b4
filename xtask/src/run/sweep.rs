//! Many simulated runs, several at a time. Each has a thread of its own and shares nothing, so their number and order do not
//! change any result.

use crate::run::simulate::Simulated;
use anyhow::Result;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

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
    done: impl Fn(u64) + Sync,
) -> Sweep {
    let jobs = jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let next = AtomicU64::new(seeds.start);
    let sum = Mutex::new(Sweep::default());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    // The end may be the greatest number, so never go beyond it.
                    let following = |seed: u64| seed.checked_add(1).filter(|following| *following <= seeds.end);
                    let Ok(seed) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, following) else { return };
                    let outcome = run(seed);
                    let mut sum = sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    sum.add(seed, outcome);
                    done(sum.runs);
                }
            });
        }
    });
    let mut sum = sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
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
