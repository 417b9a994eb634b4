//! Any history of operations, deaths and starts opens exactly the pages of the plain map, at every moment.

use proptest::prelude::*;
use sim_smmu::{Faults, Profile};

use crate::history::{Op, op, play};

fn history() -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(op(), 1..60)
}

fn check(profile: Profile, seed: u64, faults: Faults, ops: &[Op]) -> Result<(), TestCaseError> {
    play(profile, seed, faults, ops).map(drop).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn devices_reach_what_they_were_given_and_nothing_else(ops in history()) {
        check(Profile::Standard, 0, Faults::default(), &ops)?;
    }

    #[test]
    fn so_it_is_on_an_smmu_that_cannot_abort_while_off(ops in history()) {
        check(Profile::Qemu72, 0, Faults::default(), &ops)?;
    }

    #[test]
    fn so_it_is_on_one_that_is_slow(ops in history(), seed: u64, max_delay_reads in 1..20u32) {
        check(Profile::Standard, seed, Faults { max_delay_reads, ..Faults::default() }, &ops)?;
    }

    #[test]
    fn so_it_is_on_one_that_refuses_commands_now_and_then(ops in history(), seed: u64) {
        let faults = Faults { max_delay_reads: 2, command_errors_per_million: 30_000, ..Faults::default() };
        check(Profile::Qemu72, seed, faults, &ops)?;
    }
}
