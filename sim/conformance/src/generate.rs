//! Generated sequences: a seed always gives the same calls.
//!
//! The generator keeps a rough picture of the slots (`picture`), so that most calls make sense. A good part of them are
//! wrong on purpose: empty and full slots, other kinds, other depths, missing rights, addresses that are not aligned or
//! taken. The generator avoids calls that end a sequence early on both sides: the root thread must not wait for a message
//! that never comes, lose the capabilities it depends on, or fault.

mod invocations;
mod ipc;
mod picture;

use crate::script::{Script, Topic};
use picture::Random;

/// The sequence of `seed`: odd seeds mix IPC in, even ones are invocations of the root thread alone.
#[must_use]
pub fn script(seed: u64) -> Script {
    let random = Random::new(seed);
    if seed.is_multiple_of(2) {
        let mut script = Script::new(Topic::Invocations, format!("seed {seed}"));
        invocations::fill(&mut script, &random);
        script
    } else {
        let mut script = Script::new(Topic::Ipc, format!("seed {seed}"));
        ipc::fill(&mut script, &random);
        script
    }
}

/// The sequences of `seeds`.
#[must_use]
pub fn scripts(seeds: core::ops::Range<u64>) -> Vec<Script> {
    seeds.map(script).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;
    use crate::script::KERNELS;

    #[test]
    fn a_seed_gives_the_same_sequence_and_the_same_journal() {
        for seed in 0..20 {
            assert_eq!(script(seed), script(seed));
            assert_eq!(model::run(&script(seed)), model::run(&script(seed)), "seed {seed}");
        }
        assert_ne!(script(2).threads, script(4).threads);
    }

    #[test]
    fn every_sequence_ends_on_the_model() {
        let of = |(arch, rules)| (0..200).map(move |seed| (seed, script(seed).on(arch).under(rules)));
        for (seed, script) in KERNELS.into_iter().flat_map(of) {
            let journal = model::run(&script).unwrap_or_else(|stuck| panic!("seed {seed}: {stuck:?}"));
            let root = journal.iter().filter(|entry| entry.thread == 0).count();
            let calls = script.threads[0].iter().filter(|op| **op != crate::Op::Nothing).count();
            assert_eq!(root, calls, "seed {seed}: the root thread has finished");
        }
    }

    /// A generator that is always refused, or never, tests little.
    #[test]
    fn a_good_part_of_the_calls_is_done_and_a_good_part_refused() {
        let entries = (0..100).flat_map(|seed| model::run(&script(seed)).unwrap());
        let (refused, all) = entries.fold((0, 0), |(refused, all), entry| {
            (refused + u32::from(matches!(entry.answer, crate::Answer::Refused(_))), all + 1)
        });
        assert!(refused * 5 > all && refused * 3 < all * 2, "{refused} of {all} refused");
    }
}
