use super::*;
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
