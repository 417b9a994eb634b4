//! `cargo xtask soak`: simulates random systems, loads and faults until stopped.
//!
//! A soak is a range of seeds, and leaves a line of JSON for each. So parts of it can be made on several machines, be killed at any time
//! and be resumed, and their lines be put together. Each part first runs a canary, which must fail ([`sim::soak::CANARY`]).

use crate::lines::{self, Line, Lines};
use crate::parallel;
use crate::part::Part;
use crate::schema;
use crate::seeds::{Failure, Kinds};
use crate::simulate::{RunInput, Simulated, simulate};
use anyhow::{Context, Result, ensure};
use capdl::Scenario;
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::Checker;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use xtask::arguments;
use xtask::out;
use xtask::progress::Step;
use xtask::project::{Project, write_whole};
use xtask::reports::run_page;
use xtask::run::interrupted::{Going, Left};
use xtask::run::shell_word;

/// Arguments of the soak.
#[derive(Debug, Args)]
pub(crate) struct Soak {
    /// Minutes after which it ends; without it, it runs until interrupted
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::minutes)]
    minutes: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = arguments::seed)]
    from: u64,
    /// Seeds after which it ends
    #[arg(long, allow_negative_numbers = true, value_parser = |text: &str| arguments::whole(text, 1..=u64::MAX))]
    count: Option<u64>,
    /// The K-th of N nearly equal parts of the seeds, from 0
    #[arg(long, value_name = "K/N", requires = "count", allow_hyphen_values = true)]
    part: Option<Part>,
    /// Runs at a time; as many as there are processors without it
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::jobs)]
    jobs: Option<NonZeroUsize>,
    /// Write a line of JSON for each seed to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Make the seeds that the file of --json lacks
    #[arg(long, requires = "json")]
    resume: bool,
    /// Sum up these files of lines, which must have all seeds of a range, of --count if it is given, and run nothing
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["minutes", "part", "jobs", "json", "resume"])]
    merge: Vec<PathBuf>,
}

impl Soak {
    /// The seeds of the soak, of all its parts.
    ///
    /// # Errors
    /// No seeds.
    fn seeds(&self) -> Result<Range<u64>> {
        let Self { from, count, .. } = *self;
        let end = count.map_or(Some(u64::MAX), |count| from.checked_add(count));
        let seeds = end.map(|end| from..end).filter(|seeds| !seeds.is_empty());
        seeds.with_context(|| format!("there are not so many seeds from {from} on: lower --from or --count"))
    }
}

/// The run of a seed, or of the canary.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
struct Seeded {
    /// The seed; none of the canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// Whether this is the canary, a run that must fail.
    #[serde(default, skip_serializing_if = "is_false")]
    canary: bool,
    /// Whether the run passed; of the canary, whether the checkers caught it.
    passed: bool,
    /// Commands that its controllers completed.
    commands: u64,
    /// The hash of all its events; empty if there was no run.
    trace: String,
    /// Why it failed; of the canary, what the checkers found.
    reasons: Vec<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Line for Seeded {
    const FORMAT: &'static str = "capnvme-soak";
    const VERSION: u32 = 2;
}

/// The schema of a line.
pub(crate) fn schema() -> Value {
    schema::of_lines::<Seeded>()
}

impl Seeded {
    fn of(seed: Option<u64>, outcome: Result<Simulated>) -> Self {
        match outcome {
            Ok(Simulated { results, account }) => Self {
                seed,
                canary: false,
                passed: results.passed,
                commands: account.commands,
                trace: format!("{:016x}", account.trace_hash),
                reasons: results.reasons,
            },
            Err(error) => {
                let reasons = vec![format!("{error:#}")];
                Self { seed, canary: false, passed: false, commands: 0, trace: String::new(), reasons }
            }
        }
    }
}

/// The sum of a soak.
#[derive(Debug, Default)]
struct Sum {
    runs: u64,
    failed: u64,
    commands: u64,
    kinds: Kinds,
    /// Whether the first failure of each kind is repeated, for its page.
    has_pages: bool,
}

impl Sum {
    /// Adds a run; reports one that failed.
    fn add(&mut self, project: &Project, run: Seeded) -> Result<()> {
        let Some(seed) = run.seed else { return Ok(()) };
        self.runs += 1;
        self.commands = self.commands.saturating_add(run.commands);
        if run.passed {
            return Ok(());
        }
        self.failed += 1;
        let failure = Failure { seed, reasons: run.reasons };
        let first = self.kinds.add(&failure);
        report(project, &failure, first)?;
        if first.is_none() && self.has_pages {
            let page = page(project, seed)?;
            out::line(format_args!("      a page of all that happened: {}", project.shown(&page)))?;
        }
        Ok(())
    }

    /// Prints the kinds of failure and the numbers; the exit code says whether all runs passed.
    fn finish(self) -> Result<ExitCode> {
        let Self { runs, failed, commands, kinds, .. } = self;
        kinds.lines().iter().try_for_each(|kind| out::line(format_args!("{kind}")))?;
        out::line(format_args!("{} of {runs} runs passed, {commands} commands in all", runs - failed))?;
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Runs or merges; the exit code says whether all runs passed.
pub(crate) fn run(project: &Project, soak: &Soak) -> Result<ExitCode> {
    if !soak.merge.is_empty() {
        return merge(project, soak);
    }
    let whole = soak.seeds()?;
    let seeds = soak.part.map_or(whole.clone(), |part| part.of(&whole));
    let end = soak.minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let (mut lines, done) = match &soak.json {
        Some(path) if soak.resume => Lines::resume::<Seeded>(path).map(|(lines, done)| (Some(lines), done))?,
        Some(path) => (Some(Lines::create(path)?), Vec::new()),
        None => (None, Vec::new()),
    };
    let mut write = |run: &Seeded| lines.as_mut().map_or(Ok(()), |lines| lines.add(run));
    // This program has to show that it sees something, whatever wrote the lines that are there.
    let canary = canary()?;
    if !done.iter().any(|run| run.canary) {
        write(&canary)?;
    }
    let step = Step::new("soaking");
    let mut sum = Sum { has_pages: true, ..Sum::default() };
    let made: BTreeSet<u64> = done.iter().filter_map(|run| run.seed).collect();
    asked(done, &seeds).try_for_each(|run| sum.add(project, run))?;
    let left = seeds.filter(|seed| !made.contains(seed)).take_while(|_| end.is_none_or(|end| Instant::now() < end));
    let stays = soak.json.as_ref().map_or_else(
        || "with --json FILE their lines would stay, and --resume would go on".into(),
        |path| {
            format!("go on with the same arguments and --resume, which makes the seeds that {} lacks", path.display())
        },
    );
    let so_far = |sum: &Sum| format!("{} runs are over, {} failed; {stays}", sum.runs, sum.failed);
    let going = Going::on(Left::Said(so_far(&sum)));
    parallel::try_each(
        left,
        soak.jobs,
        |seed| Seeded::of(Some(seed), one(seed)),
        |run| {
            write(&run)?;
            sum.add(project, run)?;
            step.tick(&format!("{} runs, {} failed, {} commands", sum.runs, sum.failed, sum.commands));
            going.say(so_far(&sum));
            Ok(())
        },
    )?;
    drop((step, going));
    sum.finish()
}

/// The runs of these seeds among those of a file.
fn asked(done: Vec<Seeded>, seeds: &Range<u64>) -> impl Iterator<Item = Seeded> {
    done.into_iter().filter(|run| run.seed.is_some_and(|seed| seeds.contains(&seed)))
}

/// Sums up files of lines.
///
/// # Errors
/// A part without a canary that was caught, a seed that is missing or outside of the given range, or one with two results.
fn merge(project: &Project, soak: &Soak) -> Result<ExitCode> {
    let mut runs = BTreeMap::new();
    for path in &soak.merge {
        for run in part(path)? {
            let Some(seed) = run.seed else { continue };
            let known = runs.entry(seed).or_insert_with(|| run.clone());
            ensure!(
                *known == run,
                "seed {seed} has two results, one of them in {}: make both with the same source",
                path.display()
            );
        }
    }
    let (first, last) =
        runs.keys().next().zip(runs.keys().next_back()).context("the files have no seed: name others")?;
    ensure!(soak.count.is_some() || soak.from == 0, "--merge with --from needs --count: add it");
    let seeds = if soak.count.is_some() { soak.seeds()? } else { *first..last.saturating_add(1) };
    let other = [first, last].into_iter().find(|seed| !seeds.contains(seed));
    if let Some(other) = other {
        anyhow::bail!("seed {other} is not among those of --from and --count: name other files or numbers");
    }
    let missing = seeds.into_iter().find(|seed| !runs.contains_key(seed));
    if let Some(missing) = missing {
        anyhow::bail!(
            "seed {missing} is missing: make it with cargo xtask soak --from {missing} --count 1 --json FILE"
        );
    }
    let mut sum = Sum::default();
    runs.into_values().try_for_each(|run| sum.add(project, run))?;
    sum.finish()
}

/// The lines of a part, which must have a canary that was caught.
fn part(path: &Path) -> Result<Vec<Seeded>> {
    let runs = lines::read::<Seeded>(path)?;
    let mut canaries = runs.iter().filter(|run| run.canary).peekable();
    let is_caught = canaries.peek().is_some() && canaries.all(|canary| canary.passed);
    ensure!(is_caught, "{} has no canary that was caught: make it again with cargo xtask soak --json", path.display());
    Ok(runs)
}

/// The run that must fail.
///
/// # Errors
/// A canary that passed, or failed without the data checker.
fn canary() -> Result<Seeded> {
    let scenario = Scenario::parse(sim::soak::CANARY, "the canary")?;
    let simulated = simulate(RunInput::of(&scenario))?;
    let is_found = simulated.account.checkers.contains(&Checker::Data);
    let run = Seeded::of(None, Ok(simulated));
    ensure!(!run.passed && is_found, "the canary did not fail: the checkers of this program see nothing");
    Ok(Seeded { canary: true, passed: true, ..run })
}

/// The run of a seed, which determines its system, its faults and all random choices.
pub(crate) fn one(seed: u64) -> Result<Simulated> {
    simulate(RunInput { seed, ..RunInput::of(&scenario(seed)?) })
}

fn scenario(seed: u64) -> Result<Scenario> {
    Ok(Scenario::parse(&sim::soak::scenario(seed), &format!("the scenario of seed {seed}"))?)
}

/// Writes the scenario of a failed run to a file, and prints how to repeat and keep it. `first` is another seed that failed so.
fn report(project: &Project, failure: &Failure, first: Option<u64>) -> Result<()> {
    let Failure { seed, reasons } = failure;
    let file = file_of(project, *seed)?;
    write_whole(&file, sim::soak::scenario(*seed).as_bytes())?;
    if let Some(first) = first {
        let shown = project.shown(&file);
        return out::line(format_args!("FAIL  seed {seed}: as seed {first}; its scenario is {shown}"));
    }
    out::line(format_args!("FAIL  seed {seed}"))?;
    reasons.iter().try_for_each(|reason| out::line(format_args!("      {reason}")))?;
    let shown = project.shown(&file);
    out::line(format_args!("      repeat it with: cargo xtask sim {shown}"))?;
    out::line(format_args!(
        "      keep it as a test: cp {shown} scenarios/found/NAME.toml; name and describe there what was wrong"
    ))?;
    Ok(())
}

/// The file of a failed run's scenario.
fn file_of(project: &Project, seed: u64) -> Result<PathBuf> {
    Ok(project.target_folder("soak")?.join(format!("{seed}.toml")))
}

/// Repeats the run of a seed, and leaves its log, picture and page in a folder; returns the page.
fn page(project: &Project, seed: u64) -> Result<PathBuf> {
    let folder = project.target_folder(&format!("soak/{seed}"))?;
    let scenario = scenario(seed)?;
    let Simulated { mut results, .. } = simulate(RunInput { seed, folder: Some(&folder), ..RunInput::of(&scenario) })?;
    results.folder = project.shown(&folder);
    let command = format!("cargo xtask sim {}", shell_word(&project.shown(&file_of(project, seed)?)));
    run_page::write(project, &folder, &scenario, &results, &command)?;
    Ok(folder.join(run_page::NAME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A soak without options.
    const PLAIN: Soak = Soak {
        minutes: None,
        from: 0,
        count: None,
        part: None,
        jobs: None,
        json: None,
        resume: false,
        merge: Vec::new(),
    };

    fn seeds(from: u64, count: Option<u64>) -> Result<Range<u64>, String> {
        Soak { from, count, ..PLAIN }.seeds().map_err(|error| error.to_string())
    }

    fn soak(from: u64, count: u64, json: &Path, resume: bool) -> Soak {
        let (json, jobs) = (Some(json.to_path_buf()), Some(NonZeroUsize::MIN));
        Soak { from, count: Some(count), jobs, json, resume, ..PLAIN }
    }

    fn merged(project: &Project, files: &[PathBuf], from: u64, count: Option<u64>) -> Result<(), String> {
        let soak = Soak { from, count, merge: files.to_vec(), ..PLAIN };
        run(project, &soak).map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_killed_soak_is_resumed_and_its_parts_are_merged() {
        let place = tempfile::tempdir().unwrap();
        let project = Project::at(place.path());
        let [whole, part, other] = ["whole", "part", "other"].map(|name| place.path().join(name));
        run(&project, &soak(0, 3, &whole, false)).unwrap();
        assert!(run(&project, &soak(0, 3, &whole, false)).unwrap_err().to_string().contains("--resume"));
        // Killed within the line of its second seed.
        let text = fs::read_to_string(&whole).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "the canary and the seeds");
        fs::write(&part, format!("{}\n{}\n{}", lines[0], lines[1], &lines[2][..20])).unwrap();
        run(&project, &soak(0, 2, &part, true)).unwrap();
        let canaries =
            |file: &Path| fs::read_to_string(file).unwrap().matches(r#""canary":true,"passed":true"#).count();
        assert_eq!((canaries(&whole), canaries(&part)), (1, 1));
        schema::tests::check("soak", text.lines());
        run(&project, &soak(2, 1, &other, false)).unwrap();
        let sorted = |files: &[&PathBuf]| {
            let mut runs: Vec<_> = files.iter().flat_map(|file| part_of(file)).collect();
            runs.sort_by_key(|run| run.seed);
            runs.dedup();
            runs
        };
        assert_eq!(sorted(&[&part, &other]), sorted(&[&whole]));
        let refusal = |files: &[PathBuf], from, count| merged(&project, files, from, count).unwrap_err();
        let both = [part.clone(), other.clone()];
        assert_eq!(merged(&project, &both, 0, None), Ok(()));
        assert_eq!(merged(&project, &both, 0, Some(3)), Ok(()));
        assert!(refusal(&both, 0, Some(4)).starts_with("seed 3 is missing"));
        assert!(refusal(&both, 1, Some(2)).starts_with("seed 0 is not among"));
        assert!(refusal(&both, 0, Some(2)).starts_with("seed 2 is not among"));
        assert!(refusal(&both, 1, None).contains("add it"));
        fs::write(&part, format!("{}\n{}\n", lines[0], lines[1])).unwrap();
        assert!(refusal(&both, 0, None).starts_with("seed 1 is missing"));
        fs::write(&other, format!("{}\n", lines[1])).unwrap();
        assert!(refusal(&[other], 0, None).contains("no canary"));
    }

    #[test]
    fn parts_of_a_soak_make_its_seeds_and_an_empty_one_has_a_canary() {
        let place = tempfile::tempdir().unwrap();
        let project = Project::at(place.path());
        let files: Vec<_> = (0..3).map(|number| place.path().join(number.to_string())).collect();
        let made: Vec<Vec<_>> = files
            .iter()
            .enumerate()
            .map(|(number, file)| {
                let part = Some(format!("{number}/3").parse().unwrap());
                run(&project, &Soak { part, ..soak(5, 2, file, false) }).unwrap();
                part_of(file).into_iter().map(|run| run.seed).collect()
            })
            .collect();
        assert_eq!(made, [vec![None], vec![None, Some(5)], vec![None, Some(6)]]);
        assert_eq!(merged(&project, &files, 5, Some(2)), Ok(()));
    }

    #[test]
    fn a_seed_has_a_page_with_the_command_that_repeats_it() {
        let place = tempfile::tempdir().unwrap();
        let text = fs::read_to_string(page(&Project::at(place.path()), 3).unwrap()).unwrap();
        for part in ["<pre>cargo xtask sim target/soak/3.toml</pre>", "<h2>Timeline</h2>", "<h2>Capability graph</h2>"]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn the_sum_has_the_asked_seeds_alone() {
        let run = |seed| Seeded::of(seed, Err(anyhow::anyhow!("no")));
        let done = vec![run(None), run(Some(0)), run(Some(3)), run(Some(4))];
        assert_eq!(asked(done, &(1..4)).map(|run| run.seed).collect::<Vec<_>>(), [Some(3)]);
    }

    fn part_of(file: &Path) -> Vec<Seeded> {
        super::part(file).unwrap()
    }

    #[test]
    fn a_soak_without_a_run_is_refused() {
        assert_eq!(seeds(7, Some(2)), Ok(7..9));
        assert_eq!(seeds(7, None), Ok(7..u64::MAX));
        assert_eq!(seeds(u64::MAX - 2, Some(2)), Ok(u64::MAX - 2..u64::MAX));
        for count in [None, Some(1)] {
            let error = seeds(u64::MAX, count).unwrap_err();
            assert!(error.contains("lower --from"), "{error}");
        }
    }
}
