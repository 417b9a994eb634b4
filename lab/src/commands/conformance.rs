//! `cargo xtask conformance` compares the kernel's model with the kernel: sequences of calls run on both (`sim/conformance`).
//!
//! The interpreter runs on seL4 in QEMU, with all sequences of a suite as the payload of its image; the model runs here. The
//! journals must be equal. A sequence whose journals differ is cut down, so that the report is short. The last image and its
//! serial line are in `target/conformance/<suite>/`.

use crate::commands::counted::Counted;
use anyhow::{Context, Error, Result, ensure};
use clap::Args;
use kernel::{Arch, Kernel};
use sim_conformance::Entry;
use sim_conformance::compare::difference;
use sim_conformance::line::Line;
use sim_conformance::script::{self, OWN_RULES, Rules, Script};
use sim_conformance::shrink::shrink;
use sim_conformance::{generate, model, written};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use xtask::image;
use xtask::image::boot;
use xtask::image::programs;
use xtask::machine::Machine;
use xtask::out;
use xtask::project::{Project, write_whole};
use xtask::setup::chosen_kernel::{self, ChosenKernel};
use xtask::setup::packages::Consent;

/// The seeds of the generated sequences.
const SEEDS: Range<u64> = 0..400;
/// Calls that each suite must compare at least, on each architecture.
const LEAST_WRITTEN: usize = 5_000;
const LEAST_GENERATED: usize = 40_000;
/// Number of differing sequences that are cut down and reported.
const REPORTED: usize = 3;
/// Longest silence of the serial line, on a busy build machine, before the interpreter counts as hanging.
const SILENCE: Duration = Duration::from_secs(20);
const TIMEOUT: Duration = Duration::from_millis(500);

/// The kernel with which the model is compared.
#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The architecture: x86_64 or aarch64
    #[arg(long, default_value = "x86_64")]
    arch: String,
    #[command(flatten)]
    kernel: ChosenKernel,
    /// Install missing packages through sudo without asking
    #[arg(long)]
    yes: bool,
}

/// Compares both suites, and prints the sequences whose answers differ.
pub(crate) fn run(project: &Project, conformance: &Conformance) -> Result<ExitCode> {
    let arch: Arch = conformance.arch.parse().map_err(Error::msg)?;
    let consent = if conformance.yes { Consent::Given } else { Consent::NotAsked };
    let kernel = chosen_kernel::prepare(project, consent, &conformance.kernel.options(arch)?)?;
    let mut differing = 0;
    for suite in Suite::ALL {
        let counted = check(project, &kernel, suite)?;
        counted.failed.iter().try_for_each(|reason| out::line(format_args!("FAIL  {reason}")))?;
        out::line(format_args!("{suite}: {} sequences are equal, {} differ", counted.passed, counted.failed.len()))?;
        differing += counted.failed.len();
    }
    Ok(if differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sequences that are compared together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Suite {
    /// Sequences written by topic.
    Written,
    /// Sequences generated from seeds.
    Generated,
}

impl Suite {
    /// Both suites.
    pub(crate) const ALL: [Self; 2] = [Self::Written, Self::Generated];

    /// The suite's sequences for a kernel of this architecture with these rules.
    fn scripts(self, arch: Arch, rules: Rules) -> Vec<Script> {
        let generated = || generate::scripts(SEEDS).into_iter().map(|script| script.on(arch).under(rules)).collect();
        if self == Self::Written { written::of(arch, rules) } else { generated() }
    }

    const fn least(self) -> usize {
        match self {
            Self::Written => LEAST_WRITTEN,
            Self::Generated => LEAST_GENERATED,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Written => "written",
            Self::Generated => "generated",
        })
    }
}

/// Compares a suite: every sequence counts as a test.
pub(crate) fn check(project: &Project, kernel: &Kernel, suite: Suite) -> Result<Counted> {
    let mut bench = Bench {
        interpreter: programs::build_interpreter(project, kernel)?,
        project,
        kernel,
        folder: project.target_folder(&format!("conformance/{}-{suite}", kernel.arch))?,
    };
    let rules = if kernel.installed.is_some() { Rules::STOCK } else { OWN_RULES };
    let scripts = suite.scripts(kernel.arch, rules);
    let journals = bench.journals(&scripts)?;
    let mut counted = Counted::default();
    let mut reported = 0;
    let mut calls: BTreeMap<_, usize> = BTreeMap::new();
    for (script, journal) in scripts.iter().zip(&journals) {
        *calls.entry(script.topic).or_default() += journal.len();
        match compare(script, journal) {
            None => counted.passed += 1,
            Some(wrong) => {
                let short = if reported < REPORTED { bench.shortened(script)? } else { None };
                reported += 1;
                counted.failed.push(short.unwrap_or(wrong));
            }
        }
    }
    let all: usize = calls.values().sum();
    let by_topic: Vec<_> = calls.iter().map(|(topic, calls)| format!("{topic} {calls}")).collect();
    out::line(format_args!("      {all} calls compared: {}", by_topic.join(", ")))?;
    ensure!(journals.len() == scripts.len(), "the kernel came through {} of {}", journals.len(), scripts.len());
    if suite == Suite::Written && counted.failed.is_empty() {
        let stored = format!("sim/conformance/journals/{}", written::journal(kernel.arch, rules));
        let made = bench.folder.join("line");
        let is_stored =
            fs::read(project.path(&stored)).is_ok_and(|stored| fs::read(&made).is_ok_and(|made| made == stored));
        ensure!(is_stored, "{stored} is out of date: copy {} there", made.display());
    }
    ensure!(all >= suite.least(), "only {all} calls were compared, and {} are to be", suite.least());
    Ok(counted)
}

/// First difference between the model's journal of `script` and the kernel's.
fn compare(script: &Script, journal: &[Entry]) -> Option<String> {
    match model::run(script) {
        Ok(model) => difference(script, &model, journal).map(|difference| difference.to_string()),
        Err(stuck) => Some(format!("{}: on the model: {}", script.name, stuck.0)),
    }
}

/// Runs sequences on the kernel.
struct Bench<'a> {
    interpreter: Vec<u8>,
    project: &'a Project,
    kernel: &'a Kernel,
    folder: PathBuf,
}

impl Bench<'_> {
    /// The kernel's journals of `scripts`.
    fn journals(&mut self, scripts: &[Script]) -> Result<Vec<Vec<Entry>>> {
        let line = self.play(scripts)?;
        let stopped = scripts.get(line.journals.len()).map_or("the end", |script| &script.name);
        if let Some(failure) = &line.failure {
            return Err(anyhow::anyhow!("the interpreter gave up at '{stopped}': {failure}"));
        }
        ensure!(line.ended, "the interpreter hung at '{stopped}'");
        Ok(line.journals)
    }

    /// The first difference of `script`, cut down to the calls that are necessary for it.
    fn shortened(&mut self, script: &Script) -> Result<Option<String>> {
        // A candidate that hangs the interpreter only costs the candidates behind it their journals.
        let shortest = shrink(script, &mut |scripts| self.play(scripts).map(|line| line.journals))?;
        Ok(shortest.map(|(short, reported)| {
            let calls = short.threads.iter().enumerate().flat_map(|(thread, calls)| {
                let made = calls.iter().enumerate().filter(|(_, op)| **op != sim_conformance::Op::Nothing);
                made.map(move |(index, op)| format!("thread {thread} call {index} {op:?}"))
            });
            format!("{reported}; the calls it takes: {}", calls.collect::<Vec<_>>().join("; "))
        }))
    }

    /// Output of the interpreter for `scripts`, until it ends or has been silent for too long.
    fn play(&mut self, scripts: &[Script]) -> Result<Line> {
        let file = self.folder.join("image.elf");
        let image = image::with_payload(&self.interpreter, &script::payload(scripts))?;
        let image = match self.kernel.arch {
            Arch::X86_64 => image,
            Arch::Aarch64 => boot::around(self.project, self.kernel, &image)?,
        };
        write_whole(&file, &image)?;
        let mut machine = Machine::start(self.kernel.arch, &self.arguments(&file), &self.folder)?;
        let (mut line, mut whole, mut last) = (Line::default(), Vec::new(), Instant::now());
        while !line.ended && last.elapsed() < SILENCE {
            match machine.read(TIMEOUT)? {
                Some(bytes) => {
                    line.take(&bytes);
                    whole.extend(bytes);
                    last = Instant::now();
                }
                None if machine.gone()?.is_some() => break,
                None => {}
            }
        }
        machine.end()?;
        write_whole(&self.folder.join("line"), &whole).context("what the interpreter said is lost")?;
        Ok(line)
    }

    /// QEMU's arguments. The machine's time goes by instructions, 8 ns each, so every run is the same and the kernel's own waits
    /// at boot are short. The serial line is QEMU's standard output.
    fn arguments(&self, image: &std::path::Path) -> Vec<OsString> {
        let own = match self.kernel.arch {
            Arch::X86_64 => format!(
                "-M q35 -accel tcg -cpu {} -smp 1,maxcpus=2 -m 256M -device intel-iommu -device \
                 isa-debugcon,iobase=0xe9,chardev=line -device isa-debug-exit,iobase=0xf4,iosize=4",
                self.kernel.processor()
            ),
            Arch::Aarch64 => kernel::boot::MACHINE.to_owned(),
        };
        let shared = "-icount shift=3,sleep=off -nodefaults -display none -no-reboot -chardev stdio,id=line,signal=off";
        let words = shared.split_whitespace().chain(own.split_whitespace());
        let mut arguments: Vec<OsString> = words.map(OsString::from).collect();
        match self.kernel.arch {
            Arch::X86_64 => {
                let kernel = self.kernel.elf32.clone().into();
                arguments.extend(["-kernel".into(), kernel, "-initrd".into(), image.into()]);
            }
            Arch::Aarch64 => {
                arguments.extend(["-serial".into(), "chardev:line".into(), "-kernel".into(), image.into()]);
            }
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_conformance::Answer;

    #[test]
    fn a_journal_that_is_not_the_models_is_reported() {
        let script = generate::script(0);
        let mut journal = model::run(&script).unwrap();
        assert_eq!(compare(&script, &journal), None);
        journal[3].answer = Answer::Elsewhere;
        let reported = compare(&script, &journal).unwrap();
        assert!(
            reported.starts_with("seed 0: thread 0 call 3") && reported.contains("the kernel Elsewhere"),
            "{reported}"
        );
        journal.truncate(3);
        assert!(compare(&script, &journal).unwrap().contains("the kernel with nothing"));
    }

    #[test]
    fn the_document_says_how_many_calls_there_are() {
        let document = include_str!("../../../docs/FIDELITY.md");
        for (suite, arch) in Suite::ALL.into_iter().flat_map(|suite| Arch::ALL.map(|arch| (suite, arch))) {
            let calls: usize =
                suite.scripts(arch, OWN_RULES).iter().map(|script| model::run(script).unwrap().len()).sum();
            let row = format!("| {suite} | {arch} | {},{:03} |", calls / 1000, calls % 1000);
            assert!(document.contains(&row), "docs/FIDELITY.md lacks the row {row}");
            assert!(calls >= suite.least(), "{row}");
        }
    }

    #[test]
    fn names_distinguish_the_suites() {
        assert_eq!(Suite::ALL.map(|suite| suite.to_string()), ["written", "generated"]);
    }
}
