//! `cargo xtask fuzz`: coverage-guided search for inputs that violate a law.
//!
//! The targets and their laws are in `fuzz/`; the engine is libFuzzer, from the crate `libfuzzer-sys`. Stable Rust builds it: the
//! coverage is a pass of LLVM, and no sanitizer is used. A finding is a panic, a broken law, or an input that takes too long or
//! too much memory. It is minimized and kept as a file below `target/fuzz/`.
//!
//! A run starts from the target's seeds and the kept inputs in `fuzz/kept/TARGET/`, and uses nothing of earlier runs. So the same
//! program, seed and number of inputs try the same inputs. Left out: the laws themselves.

mod engine;
mod shown;

pub(crate) use engine::{Searched, Subject};

use crate::parallel;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use engine::{Engine, Search};
use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;
use xtask::arguments;
use xtask::destination::{Destination, Format};
use xtask::out;
use xtask::progress::Step;
use xtask::project::Project;

/// Arguments of the fuzzers.
#[derive(Debug, Args)]
pub(crate) struct Fuzz {
    /// The target, or `list` for all there are; every target without it
    target: Option<String>,
    /// Minutes for each target
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = arguments::minutes)]
    minutes: u64,
    /// Seed of the choice of inputs
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = |text: &str| arguments::whole(text, 1..=u32::MAX))]
    seed: u32,
    /// Targets at a time; as many as there are processors without it
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::jobs)]
    jobs: Option<NonZeroUsize>,
    /// Try this one input instead of searching
    #[arg(long, requires = "target", conflicts_with_all = ["minutes", "seed", "jobs", "json"])]
    input: Option<PathBuf>,
    /// Search for the planted defect of each target, to test the search
    #[arg(long)]
    planted: bool,
    /// Write the results to this file, too, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// The target's name.
    pub(crate) name: String,
    /// Subject of the target, in one line.
    pub(crate) about: String,
}

/// Searches; the exit code says whether no law was broken (or, with planted defects, whether each was found).
pub(crate) fn run(project: &Project, fuzz: &Fuzz) -> Result<ExitCode> {
    let targets = targets(project)?;
    if fuzz.target.as_deref() == Some("list") {
        shown::list(&targets)?;
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(&targets, fuzz.target.as_deref())?;
    let json = fuzz.json.as_deref().map(Destination::open).transpose()?;
    let subject = if fuzz.planted { Subject::Planted } else { Subject::Real };
    if let (Some(input), [target]) = (&fuzz.input, chosen.as_slice()) {
        ensure!(input.is_file(), "the input {} is no file: name one", input.display());
        return Engine::build(project, &chosen)?.try_one(target, input, subject);
    }
    let searched = search(project, &chosen, Duration::from_secs(fuzz.minutes * 60), fuzz.seed, fuzz.jobs, subject)?;
    out::line(format_args!("{}", shown::table(&searched).fit(out::columns())))?;
    json.map(|mut json| json.write_json(Format::Fuzz, &searched)).transpose()?;
    let mut passed = true;
    for one in &searched {
        let reasons = violations(one, subject);
        passed &= reasons.is_empty();
        reasons.iter().try_for_each(|reason| out::line(format_args!("FAIL  {}: {reason}", one.target)))?;
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every target, by name.
///
/// # Errors
/// A folder of targets that cannot be read.
pub(crate) fn targets(project: &Project) -> Result<Vec<Target>> {
    let folder = project.path("fuzz/targets");
    let unreadable = || format!("cannot read the folder {}", project.shown(&folder));
    let mut targets = Vec::new();
    for entry in fs::read_dir(&folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        let Some(name) = path.file_stem().filter(|_| path.extension().is_some_and(|ending| ending == "rs")) else {
            continue;
        };
        let text = fs::read_to_string(&path).with_context(unreadable)?;
        let about = text.lines().find_map(|line| line.strip_prefix("//! ")).unwrap_or_default();
        targets
            .push(Target { name: name.to_string_lossy().into_owned(), about: about.trim_end_matches('.').to_owned() });
    }
    targets.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(targets)
}

fn chosen(targets: &[Target], named: Option<&str>) -> Result<Vec<Target>> {
    let Some(named) = named else { return Ok(targets.to_vec()) };
    let Some(target) = targets.iter().find(|target| target.name == named) else {
        let names: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
        bail!("there is no fuzz target '{named}': name one of {}, or list for what they are", names.join(", "));
    };
    Ok(vec![target.clone()])
}

/// Searches with each of `targets` for `time`, several at a time.
///
/// # Errors
/// Targets that cannot be built or run. A finding is not an error.
pub(crate) fn search(
    project: &Project,
    targets: &[Target],
    time: Duration,
    seed: u32,
    jobs: Option<NonZeroUsize>,
    subject: Subject,
) -> Result<Vec<Searched>> {
    let engine = Engine::build(project, targets)?;
    let step = Step::new(format!("fuzzing {} for {} s each", count(targets.len()), time.as_secs()));
    let progress: Mutex<Vec<String>> = Mutex::new(vec![String::new(); targets.len()]);
    let show = |number: usize, text: String| {
        let Ok(mut progress) = progress.lock() else { return };
        if let Some(place) = progress.get_mut(number) {
            *place = text;
        }
        step.tick(&progress.iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(", "));
    };
    let work = |(number, target): (usize, &Target)| {
        let search = Search { target, time, seed, subject };
        let outcome = engine.search(&search, |runs| show(number, format!("{} {runs}", target.name)));
        show(number, String::new());
        (number, outcome)
    };
    let mut searched = Vec::new();
    parallel::each((0..).zip(targets), jobs, work, |outcome| searched.push(outcome));
    searched.sort_by_key(|(number, _)| *number);
    searched.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Reasons for failing a search, one sentence each.
pub(crate) fn violations(searched: &Searched, subject: Subject) -> Vec<String> {
    let Searched { target, seed, finding, .. } = searched;
    match (finding, subject) {
        (None, Subject::Real) | (Some(_), Subject::Planted) => vec![],
        (None, Subject::Planted) => vec![format!("the planted defect was not found with seed {seed}")],
        (Some(finding), Subject::Real) => vec![format!(
            "{}; repeat it with: cargo xtask fuzz {target} --input {}; keep it as a test: cp {1} fuzz/kept/{target}/NAME",
            finding.what, finding.input
        )],
    }
}

fn count(targets: usize) -> String {
    if targets == 1 { "1 target".to_owned() } else { format!("{targets} targets") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> Project {
        Project::here().unwrap()
    }

    #[test]
    fn every_target_says_what_it_fuzzes() {
        let targets = targets(&project()).unwrap();
        assert!(targets.len() >= 9, "{targets:?}");
        assert!(targets.iter().all(|target| target.about.len() > 10), "{targets:?}");
    }

    #[test]
    fn a_target_that_is_not_there_is_answered_with_those_that_are() {
        let targets = targets(&project()).unwrap();
        let error = chosen(&targets, Some("dor")).unwrap_err().to_string();
        assert!(error.contains("'dor'") && error.contains("door"), "{error}");
        assert_eq!(chosen(&targets, Some("door")).unwrap().len(), 1);
        assert_eq!(chosen(&targets, None).unwrap().len(), targets.len());
    }
}
