//! Laws for any sequence of invocations and system calls, checked on random ones. Each step checks its own law, and the
//! whole kernel is checked after it.

mod act;
mod law;
mod step;
mod world;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sim_kernel::{Kernel, Rules};
use std::collections::BTreeMap;
use step::{Step, step};
use world::World;

const STEPS: usize = 150;

/// Runs a sequence and returns its visible effects.
fn run(rules: Rules, steps: &[(u8, Step)], check: impl Fn(&Kernel, &Step)) -> Vec<String> {
    let mut world = World::new(rules);
    let mut reported = Vec::new();
    for (choice, step) in steps {
        let actor = world.actor(*choice);
        let result = world.act(actor, step);
        check(&world.machine.kernel, step);
        reported.push(format!("{actor:?} {result:?} {:?}", world.machine.kernel.current()));
        world.check_delivery(actor);
    }
    reported.push(format!("{:?}", world.machine.kernel.cspace(world.machine.me)));
    reported
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_kernel_stays_consistent(steps in prop::collection::vec(step(), 1..STEPS)) {
        for rules in [Rules::CORRECTED, Rules::STOCK] {
            run(rules, &steps, |kernel, step| {
                let checked = kernel.check_invariants();
                assert!(checked.is_ok(), "{checked:?} after {step:?}");
            });
        }
    }

    #[test]
    fn the_same_calls_give_the_same_kernel(steps in prop::collection::vec(step(), 1..STEPS)) {
        for rules in [Rules::CORRECTED, Rules::STOCK] {
            prop_assert_eq!(run(rules, &steps, |_, _| {}), run(rules, &steps, |_, _| {}));
        }
    }
}

/// The sequences would show nothing if most of their steps were refused.
#[test]
fn sequences_do_every_kind_of_step() {
    for rules in [Rules::CORRECTED, Rules::STOCK] {
        let mut runner = TestRunner::deterministic();
        let mut done = BTreeMap::<String, u32>::new();
        for _ in 0..200 {
            let steps = prop::collection::vec(step(), STEPS).new_tree(&mut runner).unwrap().current();
            let mut world = World::new(rules);
            for (choice, step) in &steps {
                let actor = world.actor(*choice);
                let name = format!("{step:?}").split(['(', ' ']).next().unwrap_or_default().to_owned();
                *done.entry(name).or_default() += u32::from(world.act(actor, step).is_ok());
            }
        }
        assert!(done.values().all(|count| *count > 10), "{rules:?}: {done:?}");
    }
}
