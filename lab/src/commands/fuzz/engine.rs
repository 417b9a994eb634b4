//! The programs of the targets: built with coverage, run with libFuzzer's options; their output is parsed here.

use super::Target;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use xtask::cargo::{self, cargo_in};
use xtask::out;
use xtask::progress::Step;
use xtask::project::Project;

/// The compiler of the project's own crates, which adds coverage. Others are compiled as for xtask and the tests, once.
const COMPILER: &str = "fuzz/rustc-with-coverage";
/// Crates that are optimized otherwise than for tests: more, if an input's work is in them; not at all, if they only make a seed.
const LEVELS: [(&str, u8); 7] =
    [("fuzz", 2), ("nvme-server", 2), ("pci-server", 2), ("policy", 2), ("root-task", 2), ("sim", 0), ("sim-check", 0)];
/// Seconds that an input may take, at most.
const INPUT_SECONDS: u32 = 20;
/// MiB that a target may take, at most.
const MEMORY_MIB: u32 = 2048;
/// Seconds for minimizing a finding.
const SHORTEN_SECONDS: u32 = 15;
/// Prefixes of the names of findings' files.
const FINDINGS: [&str; 3] = ["crash-", "timeout-", "oom-"];

/// Code that the law is checked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// The code as it is.
    Real,
    /// The defect that the target plants.
    Planted,
}

/// A search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<'a> {
    pub(crate) target: &'a Target,
    pub(crate) time: Duration,
    pub(crate) seed: u32,
    pub(crate) subject: Subject,
}

/// Result of a search.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Searched {
    /// The target.
    pub(crate) target: String,
    /// The seed.
    pub(crate) seed: u32,
    /// Inputs that were tried.
    pub(crate) inputs: u64,
    /// Seconds it took.
    pub(crate) seconds: f64,
    /// Edges of the code that some input took.
    pub(crate) edges: u64,
    /// The input that ended the search, if one did.
    pub(crate) finding: Option<Finding>,
}

/// An input that violates the law.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Finding {
    /// Description of the failure, one sentence.
    pub(crate) what: String,
    /// The input's file, relative to the project.
    pub(crate) input: String,
}

/// The built programs.
pub(crate) struct Engine<'a> {
    project: &'a Project,
    programs: PathBuf,
}

impl<'a> Engine<'a> {
    /// Builds the programs of these targets.
    pub(crate) fn build(project: &'a Project, targets: &[Target]) -> Result<Self> {
        let step = Step::new("building the fuzzers");
        let folder = project.path("target");
        let mut command = cargo_in(project.root());
        command.args(["build", "--package", "fuzz", "--features", "engine", "--target-dir"]).arg(&folder);
        for target in targets {
            command.args(["--bin", &program(target)]);
        }
        for (name, level) in LEVELS {
            command.args(["--config", &format!("profile.dev.package.{name}.opt-level={level}")]);
        }
        command.env("RUSTC_WORKSPACE_WRAPPER", project.path(COMPILER));
        let built = cargo::build(&mut command, "the fuzzers", &step);
        built.context("they need a C++ compiler: cargo xtask setup --yes")?;
        Ok(Self { project, programs: folder.join("debug") })
    }

    fn command(&self, target: &Target, subject: Subject) -> Command {
        let mut command = Command::new(self.programs.join(program(target)));
        command.current_dir(self.project.root());
        command.arg(format!("-timeout={INPUT_SECONDS}")).arg(format!("-rss_limit_mb={MEMORY_MIB}"));
        if subject == Subject::Planted {
            command.env("CAPNVME_FUZZ_PLANTED", "1");
        }
        // The panic's place suffices; a backtrace of the engine has no further information.
        command.env("RUST_BACKTRACE", "0");
        command
    }

    /// Tries one input; the program prints the result.
    pub(crate) fn try_one(&self, target: &Target, input: &Path, subject: Subject) -> Result<ExitCode> {
        let input = input.canonicalize().with_context(|| format!("cannot read {}", input.display()))?;
        let status = self.command(target, subject).arg(input).status().context("cannot run the fuzzer")?;
        let holds = if status.success() { "holds" } else { "does not hold" };
        out::line(format_args!("{}: the law {holds}", target.name))?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Searches from the seeds and the kept inputs; calls `show` with the number of inputs so far.
    pub(crate) fn search(&self, search: &Search<'_>, mut show: impl FnMut(u64)) -> Result<Searched> {
        let Search { target, time, seed, subject } = *search;
        let folder = self.emptied(&format!("fuzz/{}", target.name))?;
        let corpus = self.emptied(&format!("fuzz/{}/corpus", target.name))?;
        let mut command = self.command(target, subject);
        command.arg(format!("-seed={seed}")).arg(format!("-max_total_time={}", time.as_secs().max(1)));
        command.args(["-reload=0", "-print_final_stats=1", "-verbosity=1"]);
        command.arg(format!("-artifact_prefix={}/", folder.display())).arg(&corpus);
        let kept = self.project.path("fuzz/kept").join(&target.name);
        // A planted defect must be found by the search, not by a kept input.
        command.args(Some(kept).filter(|kept| subject == Subject::Real && kept.is_dir()));
        command.env("CAPNVME_FUZZ_SEEDS", &corpus).stdout(Stdio::null()).stderr(Stdio::piped());
        let since = std::time::Instant::now();
        let mut child = command.spawn().context("cannot run the fuzzer")?;
        let mut said = Said::default();
        let mut log = fs::File::create(folder.join("log")).context("cannot write the fuzzer's log")?;
        for line in BufReader::new(child.stderr.take().context("the fuzzer says nothing")?).split(b'\n') {
            let line = String::from_utf8_lossy(&line.context("cannot read what the fuzzer says")?).into_owned();
            writeln!(log, "{line}").context("cannot write the fuzzer's log")?;
            said.take(&line);
            show(said.inputs);
        }
        let status = child.wait().context("cannot wait for the fuzzer")?;
        let finding = self.finding(search, &folder, &said)?;
        ensure!(
            status.success() || finding.is_some(),
            "the fuzzer of {} ended without a finding; its log is {}/log",
            target.name,
            self.project.shown(&folder)
        );
        // Inputs of one search are not used by the next one.
        fs::remove_dir_all(&corpus).context("cannot remove the inputs of a search")?;
        let seconds = since.elapsed().as_secs_f64();
        Ok(Searched { target: target.name.clone(), seed, inputs: said.inputs, seconds, edges: said.edges, finding })
    }

    /// The finding in `folder`, minimized unless its defect is planted.
    fn finding(&self, search: &Search<'_>, folder: &Path, said: &Said) -> Result<Option<Finding>> {
        let is_finding = |name: &str| FINDINGS.iter().any(|begins| name.starts_with(begins));
        let files = fs::read_dir(folder).context("cannot read the folder of findings")?.filter_map(Result::ok);
        let Some(found) = files
            .map(|file| file.path())
            .find(|path| path.file_name().is_some_and(|name| is_finding(&name.to_string_lossy())))
        else {
            return Ok(None);
        };
        let shorter = folder.join("shortened");
        if said.is_quick() && search.subject == Subject::Real {
            let mut command = self.command(search.target, search.subject);
            command.args(["-minimize_crash=1", "-seed=1"]).arg(format!("-max_total_time={SHORTEN_SECONDS}"));
            command.arg(format!("-exact_artifact_path={}", shorter.display())).arg(&found);
            // A finding that cannot be minimized stays as it is.
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        let input = if shorter.is_file() { shorter } else { found };
        Ok(Some(Finding { what: said.what(), input: self.project.shown(&input) }))
    }

    /// An empty folder below `target/`.
    fn emptied(&self, below: &str) -> Result<PathBuf> {
        let folder = self.project.target_folder(below)?;
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", self.project.shown(&folder)))?;
        self.project.target_folder(below)
    }
}

fn program(target: &Target) -> String {
    format!("fuzz-{}", target.name)
}

/// Parsed output of libFuzzer so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Said {
    inputs: u64,
    edges: u64,
    /// Place of a panic, and its message.
    place: String,
    words: String,
    /// Error that the engine itself reported.
    error: String,
}

impl Said {
    /// Parses the next line.
    fn take(&mut self, line: &str) {
        if !self.place.is_empty() && self.words.is_empty() {
            line.clone_into(&mut self.words);
        }
        if let Some((_, place)) = line.split_once("panicked at ") {
            place.trim_end_matches(':').clone_into(&mut self.place);
        }
        if let Some((_, error)) = line.split_once("ERROR: libFuzzer: ") {
            error.clone_into(&mut self.error);
        }
        // `#1024  pulse  cov: 12 ft: 13 ...`, and at the end `stat::number_of_executed_units: 1024`.
        let mut words = line.split_whitespace();
        let number = line.strip_prefix("stat::number_of_executed_units:").or_else(|| words.next()?.strip_prefix('#'));
        self.inputs = number.and_then(|number| number.trim().parse().ok()).unwrap_or(self.inputs);
        let mut words = line.split_whitespace().skip_while(|word| *word != "cov:").skip(1);
        self.edges = words.next().and_then(|edges| edges.parse().ok()).unwrap_or(self.edges);
    }

    /// Whether the input can be tried many times: a panic, not a timeout or too much memory.
    fn is_quick(&self) -> bool {
        !self.place.is_empty()
    }

    fn what(&self) -> String {
        match (self.place.as_str(), self.error.as_str()) {
            ("", error) if error.starts_with("timeout") => {
                format!("an input takes longer than {INPUT_SECONDS} seconds")
            }
            ("", error) if error.contains("memory") => format!("an input takes more than {MEMORY_MIB} MiB"),
            ("", error) => format!("the target ended: {error}"),
            (place, _) => format!("{} ({place})", self.words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Said {
        let mut said = Said::default();
        lines.iter().for_each(|line| said.take(line));
        said
    }

    #[test]
    fn inputs_and_edges_are_read_from_what_the_engine_says() {
        let under_way =
            ["INFO: Loaded 1 modules", "#4096\tpulse  cov: 812 ft: 1200 corp: 31/2Kb exec/s: 2048 rss: 40Mb"];
        assert_eq!((said(&under_way).inputs, said(&under_way).edges), (4096, 812));
        let over = [under_way[1], "Done 5000 runs in 2 second(s)", "stat::number_of_executed_units: 5000"];
        assert_eq!((said(&over).inputs, said(&over).edges), (5000, 812));
    }

    #[test]
    fn a_panic_is_reported_by_its_words_and_its_place() {
        let said = said(&[
            "thread '<unnamed>' (7) panicked at fuzz/src/door.rs:40:13:",
            "accepted, although [OutsideWindow]",
            "note: run with `RUST_BACKTRACE=1`",
            "==7== ERROR: libFuzzer: deadly signal",
        ]);
        assert_eq!(said.what(), "accepted, although [OutsideWindow] (fuzz/src/door.rs:40:13)");
    }

    #[test]
    fn what_takes_too_long_or_too_much_is_reported() {
        let slow = said(&["==9== ERROR: libFuzzer: timeout after 20 seconds"]);
        assert_eq!(slow.what(), "an input takes longer than 20 seconds");
        let large = said(&["==9== ERROR: libFuzzer: out-of-memory (used: 2050Mb; limit: 2048Mb)"]);
        assert_eq!(large.what(), "an input takes more than 2048 MiB");
        assert!(!slow.is_quick() && !large.is_quick());
    }
}
