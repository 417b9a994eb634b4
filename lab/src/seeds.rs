//! Simulated runs of many seeds, several at a time. Each has a thread of its own and shares nothing, so their number and order do not
//! change any result.

use crate::parallel;
use crate::simulate::Simulated;
use anyhow::Result;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroUsize;
use std::ops::Range;
use xtask::judges::causes;

/// Results of the runs.
#[derive(Debug, Default)]
pub(crate) struct Tally {
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
    /// The run's seed.
    pub(crate) seed: u64,
    /// Why.
    pub(crate) reasons: Vec<String>,
}

/// Makes a run of each seed, `jobs` at a time; without `jobs`, as many as there are processors. Calls `done` with the results so
/// far when a run is over.
pub(crate) fn each(
    seeds: Range<u64>,
    jobs: Option<NonZeroUsize>,
    run: impl Fn(u64) -> Result<Simulated> + Sync,
    mut done: impl FnMut(&Tally),
) -> Tally {
    let mut tally = Tally::default();
    parallel::each(
        seeds,
        jobs,
        |seed| (seed, run(seed)),
        |(seed, outcome)| {
            tally.add(seed, outcome);
            done(&tally);
        },
    );
    tally.failures.sort_by_key(|failure| failure.seed);
    tally
}

/// Kinds of failure so far, by their causes without numbers.
#[derive(Debug, Default)]
pub(crate) struct Kinds(BTreeMap<String, Kind>);

/// A kind of failure.
#[derive(Debug)]
struct Kind {
    /// The first seed that had it.
    seed: u64,
    /// The cause as that seed has it.
    cause: String,
    /// Other seeds that had it.
    more: u64,
}

impl Kinds {
    /// Adds a failure; returns the first seed that failed so, if there was one.
    pub(crate) fn add(&mut self, failure: &Failure) -> Option<u64> {
        let cause = causes::first(&failure.reasons);
        match self.0.entry(causes::kind(cause)) {
            Entry::Vacant(free) => {
                free.insert(Kind { seed: failure.seed, cause: cause.trim().to_owned(), more: 0 });
                None
            }
            Entry::Occupied(mut known) => {
                let kind = known.get_mut();
                kind.more += 1;
                Some(kind.seed)
            }
        }
    }

    /// A line for each kind, the most frequent first.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut kinds: Vec<_> = self.0.values().collect();
        kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.more), kind.seed));
        let line = |Kind { seed, cause, more }: &Kind| match more {
            0 => format!("seed {seed}: {cause}"),
            _ => format!("seed {seed} and {more} more: {cause}"),
        };
        kinds.into_iter().map(line).collect()
    }
}

impl Tally {
    /// Adds a run.
    pub(crate) fn add(&mut self, seed: u64, outcome: Result<Simulated>) {
        self.runs += 1;
        match outcome {
            Ok(Simulated { results, account }) => {
                self.commands += account.commands;
                if results.failed() {
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
    fn failures_are_grouped_by_their_first_cause() {
        let failure = |seed, reason: &str| Failure { seed, reasons: vec![reason.to_owned()] };
        let mut kinds = Kinds::default();
        assert_eq!(kinds.add(&failure(3, "alice: block 7 is wrong")), None);
        assert_eq!(kinds.add(&failure(4, "bob has not finished")), None);
        assert_eq!(kinds.add(&failure(8, "alice: block 90 is wrong")), Some(3));
        assert_eq!(kinds.lines(), ["seed 3 and 1 more: alice: block 7 is wrong", "seed 4: bob has not finished"]);
    }

    #[test]
    fn a_range_at_the_end_of_all_numbers_ends() {
        let jobs = NonZeroUsize::new(3);
        let seeds = u64::MAX - 2..u64::MAX;
        let tally = each(seeds.clone(), jobs, |seed| bail!("seed {seed}"), |tally| assert!(tally.runs <= 2));
        assert_eq!(tally.failures.iter().map(|failure| failure.seed).collect::<Vec<_>>(), seeds.collect::<Vec<_>>());
        assert_eq!(each(5..5, jobs, |seed| bail!("seed {seed}"), |_| {}).runs, 0);
    }
}
