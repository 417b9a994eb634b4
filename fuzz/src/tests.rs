use super::*;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kept").join(target.name)
}

/// The kept inputs of a target, by file name.
fn kept(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = folder(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut kept: Vec<_> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap()))
        .collect();
    kept.sort();
    kept
}

#[test]
fn every_kept_input_and_every_seed_holds_the_law() {
    for target in TARGETS {
        let seeds = (target.seeds)().into_iter().enumerate().map(|(number, seed)| (format!("seed {number}"), seed));
        for (name, input) in seeds.chain(kept(target)) {
            let held = catch_unwind(AssertUnwindSafe(|| (target.law)(&input, Subject::Real)));
            assert!(held.is_ok(), "{} {name}: see above", target.name);
        }
    }
}

/// A search without an engine would not find most defects, so each target keeps an input named `planted` that reaches its own.
#[test]
fn every_law_notices_its_planted_defect() {
    for target in TARGETS {
        let kept = kept(target);
        let planted: Vec<_> = kept.iter().filter(|(name, _)| name.starts_with("planted")).collect();
        assert!(!planted.is_empty(), "{} keeps no input that reaches its planted defect", target.name);
        for (name, input) in planted {
            let held = catch_unwind(AssertUnwindSafe(|| (target.law)(input, Subject::Planted)));
            assert!(held.is_err(), "{} {name}: the planted defect was not noticed", target.name);
        }
    }
}

#[test]
fn every_target_is_a_program_of_its_name() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    let mut found: Vec<_> = std::fs::read_dir(programs)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let mut targets: Vec<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    found.sort();
    targets.sort();
    assert_eq!(found, targets);
}

/// A step of the completions' law, as the target reads it: a client's, whose entries are mostly sound or nearly, or the
/// controller's.
fn step_of_completions() -> impl Strategy<Value = Vec<u8>> {
    let near = prop_oneof![0..50u64, any::<u64>()].prop_map(u64::to_le_bytes);
    let offset = prop_oneof![0..256u32 << 10, any::<u32>()].prop_map(u32::to_le_bytes);
    let nearly = (0..7u8, near, any::<[u8; 2]>(), offset, 0..3u8);
    let step = prop_oneof![
        1 => any::<[u8; 64]>().prop_map(|slot| [&[0], &slot[..]].concat()),
        4 => nearly.prop_map(|(code, lba, blocks, at, count)| [&[1, code], &lba[..], &blocks, &at, &[count]].concat()),
        3 => any::<[u8; 3]>().prop_map(|request| [&[2], &request[..]].concat()),
        1 => any::<[u8; 4]>().prop_map(|tail| [&[3], &tail[..]].concat()),
        1 => (0..40u8).prop_map(|head| vec![4, head, 0, 0, 0]),
        4 => (0..9u8).prop_map(|count| vec![5, count]),
        1 => any::<[u8; 18]>().prop_map(|posted| [&[6], &posted[..]].concat()),
        2 => Just(vec![7]),
        2 => any::<[u8; 2]>().prop_map(|call| [&[8], &call[..]].concat()),
        1 => Just(vec![9]),
    ];
    (0..2u8, step).prop_map(|(session, step)| [&[session], &step[..]].concat())
}

/// A step of the law of virtual functions' drivers: claims, vectors, starts and releases, deaths, and time that passes.
fn step_of_virtual_functions() -> impl Strategy<Value = Vec<u8>> {
    let driver = || 0..4u8;
    prop_oneof![
        3 => driver().prop_map(|driver| vec![driver, 0]),
        1 => (driver(), any::<[u8; 2]>()).prop_map(|(driver, [at, by])| vec![driver, 1, at, by, 0, 0, 0, 0]),
        2 => (driver(), 0..6u8).prop_map(|(driver, vector)| vec![driver, 2, vector, 7, 0, 0, 0, 0, 0, 0, 0]),
        4 => (driver(), 0..3u8).prop_map(|(driver, label)| vec![driver, 3, label]),
        1 => (driver(), any::<[u8; 75]>()).prop_map(|(driver, words)| [&[driver, 4], &words[..]].concat()),
        4 => (0..2u8, prop::sample::select(vec![0, 2, 2, 2, 2, 3])).prop_map(|(driver, total)| vec![driver, 5, total]),
        2 => driver().prop_map(|driver| vec![driver, 6]),
        4 => prop::sample::select(vec![1u8, 12, 25, 25, 250]).prop_map(|time| vec![0, 7, time]),
        2 => any::<[u8; 2]>().prop_map(|[label, number]| vec![0, 8, label, number % 2]),
        1 => any::<[u8; 2]>().prop_map(|[driver, kind]| vec![driver, 9, kind]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_on_a_ring_and_no_completion_move_data_elsewhere(
        polled: bool,
        steps in prop::collection::vec(step_of_completions(), 1..60),
    ) {
        (nvme::completions::TARGET.law)(&[&[u8::from(polled)], &steps.concat()[..]].concat(), Subject::Real);
    }

    #[test]
    fn any_calls_of_an_administrator_hold_the_law(input in prop::collection::vec(any::<u8>(), 0..400)) {
        (nvme::administration::TARGET.law)(&input, Subject::Real);
    }

    #[test]
    fn virtual_functions_stay_apart(steps in prop::collection::vec(step_of_virtual_functions(), 0..60)) {
        let first = (pci::calls::TARGET.seeds)()[0][0];
        (pci::calls::TARGET.law)(&[&[first], &steps.concat()[..]].concat(), Subject::Real);
    }
}
