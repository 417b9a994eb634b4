//! A driver that omits an invalidation would be found: the model omits it instead, and histories must fail.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use sim_smmu::{Faults, Forget, Profile};
use smmu_spec::command::Opcode;

use crate::history::{Counts, Op, op, play, steady_op};

/// Histories within which a defect must be found.
const HISTORIES: usize = 64;

/// Plays histories until one fails. Returns its number, or the counts of all when none did.
fn histories_until_found(forget: Option<Forget>, op: impl Strategy<Value = Op>) -> Result<usize, Counts> {
    let mut runner = TestRunner::deterministic();
    let histories = proptest::collection::vec(op, 40..60);
    let mut all = Counts::default();
    for history in 1..=HISTORIES {
        let ops = histories.new_tree(&mut runner).unwrap().current();
        match play(Profile::Standard, 0, Faults { forget, ..Faults::default() }, &ops) {
            Ok(counts) => all.add(counts),
            Err(_) => return Ok(history),
        }
    }
    Err(all)
}

#[test]
fn every_forgotten_invalidation_is_found() {
    let defects = [
        Forget::Every(Opcode::InvalidateStream),
        Forget::Every(Opcode::InvalidateStreams),
        Forget::Every(Opcode::InvalidateContext),
        Forget::Every(Opcode::InvalidateAsid),
        Forget::Every(Opcode::InvalidateAddress),
        Forget::Every(Opcode::InvalidateAll),
        Forget::Every(Opcode::Sync),
        Forget::StreamGroups,
        Forget::UpperLevels,
    ];
    for defect in defects {
        let found = histories_until_found(Some(defect), steady_op());
        println!("{defect:?}: found in history {found:?}");
        assert!(found.is_ok(), "{defect:?}");
    }
}

#[test]
fn the_same_histories_find_nothing_in_the_driver_as_it_is() {
    let counts = histories_until_found(None, op()).unwrap_err();
    println!("{HISTORIES} histories: {counts:?}");
    // The histories cover what they should.
    assert!(counts.crashes > 20 && counts.faults > 100 && counts.probes > 500_000);
}
