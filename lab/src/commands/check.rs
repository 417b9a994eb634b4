//! `cargo xtask check`: form of the code and the documents.
//!
//! Checks format, lints with warnings as errors (of the build machine's side and of the programs for seL4), the direction of
//! dependencies and circles of files ([`directions`]), links and citations, figures and numbers of documents ([`documents`]), and
//! documentation without warnings. Each part is also one of the tests of `cargo xtask test`. The output of cargo for a failed part is
//! kept in `target/check/`.

use crate::commands::{directions, documents};
use anyhow::{Context, Result, bail};
use capdl::programs::ROOT_TASK;
use clap::Args;
use kernel::{Arch, BuildOptions, Kernel};
use std::fmt;
use std::path::Path;
use std::process::{Command, ExitCode};
use xtask::cargo::cargo_in;
use xtask::image::programs::{self, FEATURES, INJECTING};
use xtask::out;
use xtask::progress::Step;
use xtask::project::{Project, write_whole};
use xtask::setup;
use xtask::setup::packages::Consent;

/// Arguments of the check.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Install missing packages through sudo without asking
    #[arg(long)]
    yes: bool,
}

/// Runs all parts; stops at the first that fails.
pub(crate) fn run(project: &Project, check: &Check, program: &clap::Command) -> Result<ExitCode> {
    let consent = if check.yes { Consent::Given } else { Consent::NotAsked };
    let kernel = setup::prepare_everything(project, consent)?;
    for circle in directions::circles(project)? {
        out::line(format_args!("{circle}"))?;
    }
    for part in Part::ALL {
        let _step = Step::new(format!("checking {part}"));
        part.run(project, &kernel, program).with_context(|| format!("checking {part} failed"))?;
    }
    out::line(format_args!("PASS check"))?;
    Ok(ExitCode::SUCCESS)
}

/// A part of the check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Dependencies between the crates, and circles of files within each.
    Directions,
    /// Links, shown commands and citations of documents, and the order of the book.
    Links,
    /// Figures, tables and numbers of documents, compared with their sources.
    Made,
    /// Format, by rustfmt.
    Format,
    /// Lints of all code for the build machine.
    Lints,
    /// Lints of all programs for seL4, on each architecture, and of the seam's seL4 side for installed kernels.
    ProgramLints,
    /// Lints of the root task with fault injection, which the product lacks.
    InjectionLints,
    /// Documentation of every crate.
    Documentation,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directions => f.write_str("the direction of dependencies"),
            Self::Links => f.write_str("links and citations"),
            Self::Made => f.write_str("figures and numbers in documents"),
            Self::Format => f.write_str("the format"),
            Self::Lints => f.write_str("lints of the build machine's side"),
            Self::ProgramLints => f.write_str("lints of the programs for seL4"),
            Self::InjectionLints => f.write_str("lints of the root task with fault injection"),
            Self::Documentation => f.write_str("the documentation"),
        }
    }
}

impl Part {
    /// Every part, the fastest first.
    pub(crate) const ALL: [Self; 8] = [
        Self::Directions,
        Self::Links,
        Self::Made,
        Self::Format,
        Self::Lints,
        Self::ProgramLints,
        Self::InjectionLints,
        Self::Documentation,
    ];

    /// Checks this part. The error is one sentence and names the file with the full output.
    pub(crate) fn run(self, project: &Project, kernel: &Kernel, program: &clap::Command) -> Result<()> {
        let warnings_are_errors = ["--", "-D", "warnings"];
        match self {
            Self::Directions => directions::check(project),
            Self::Links => documents::check(project, program),
            Self::Made => documents::check_made(project, program),
            Self::Format => self.finish(project, cargo(project, &["fmt", "--all", "--check"])),
            Self::Lints => {
                let mut command = cargo(project, &["clippy", "--quiet", "--all-targets"]);
                command.args(warnings_are_errors);
                self.finish(project, command)
            }
            Self::ProgramLints => {
                let of = |arch| setup::build_kernel(project, &BuildOptions { arch, ..BuildOptions::default() });
                let kernels = Arch::ALL.into_iter().map(of).collect::<Result<Vec<_>>>()?;
                let mut command = programs::cargo(project, &kernels, "info", "clippy", &[], FEATURES);
                command.arg("--quiet").args(warnings_are_errors);
                self.finish(project, command)?;
                self.finish(project, on_miniatures(project))
            }
            Self::InjectionLints => {
                let mut command =
                    programs::cargo(project, std::slice::from_ref(kernel), "info", "clippy", &[ROOT_TASK], INJECTING);
                command.arg("--quiet").args(warnings_are_errors);
                self.finish(project, command)
            }
            Self::Documentation => {
                let mut command = cargo(project, &["doc", "--quiet", "--no-deps"]);
                command.env("RUSTDOCFLAGS", "-D warnings");
                // As `cargo clippy -- -D warnings` does: cargo then takes what the lints compiled, and otherwise compiles it again.
                command
                    .env("RUSTC_WORKSPACE_WRAPPER", Path::new(command.get_program()).with_file_name("clippy-driver"));
                command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
                self.finish(project, command)
            }
        }
    }

    /// Runs the command; keeps its output when it fails.
    fn finish(self, project: &Project, mut command: Command) -> Result<()> {
        let output = command.output().context("cannot run cargo; install Rust from https://rustup.rs")?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        let file = project.target_folder("check")?.join(self.to_string().replace(' ', "-").replace('\'', ""));
        write_whole(&file, &said)?;
        let first = first_complaint(&String::from_utf8_lossy(&said), project.root());
        bail!("cargo says: {first}; the whole of it is in {}", project.shown(&file))
    }
}

/// The lints of the seam's seL4 side for the interface of installed kernels, which miniatures stand for.
fn on_miniatures(project: &Project) -> Command {
    let mut command = cargo(project, &["clippy", "--quiet", "--package", "platform-sel4"]);
    // The programs' folder has the same crate for the project's own kernel.
    command.arg("--target-dir").arg(project.path("target/sel4-miniatures"));
    for (arch, miniature) in [(Arch::X86_64, "x86_64-16"), (Arch::Aarch64, "aarch64-13")] {
        command.args(["--target", kernel::target(arch)]);
        let folder = project.path("platform/sel4/bindings/miniatures").join(miniature);
        command.env(format!("CAPNVME_SEL4_{arch}"), folder);
    }
    command.args(["--", "-D", "warnings"]);
    command
}

fn cargo(project: &Project, arguments: &[&str]) -> Command {
    let mut command = cargo_in(project.root());
    command.args(arguments);
    command
}

/// The first complaint in the output of cargo, the compiler or rustfmt, with its place. Errors come before warnings, which may
/// belong to a part that is not checked.
fn first_complaint(said: &str, root: &Path) -> String {
    let begins = |word: &'static str| said.lines().position(move |line| line.starts_with(word));
    let first = begins("error").or_else(|| begins("Diff in")).or_else(|| begins("warning"));
    let mut lines = said.lines().skip(first.unwrap_or(usize::MAX));
    let Some(first) = lines.next() else { return "nothing that is an error".to_owned() };
    let place = lines.next().and_then(|line| line.trim_start().strip_prefix("--> "));
    let sentence = place.map_or_else(|| first.to_owned(), |place| format!("{first} at {place}"));
    sentence.replace(&format!("{}/", root.display()), "").trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_reported_in_one_line_with_its_place() {
        let root = Path::new("/p");
        let clippy =
            "error: unused variable: `x`\n --> a/src/lib.rs:3:9\n  |\n3 | let x = 1;\nerror: could not compile `a`\n";
        assert_eq!(first_complaint(clippy, root), "error: unused variable: `x` at a/src/lib.rs:3:9");
        assert_eq!(first_complaint("Diff in /p/a/src/lib.rs:12:\n-a\n+b\n", root), "Diff in a/src/lib.rs:12");
        let later = "warning: method `f` is never used\n --> a.rs:1:1\nerror[E0592]: twice\n --> b.rs:2:2\n";
        assert_eq!(first_complaint(later, root), "error[E0592]: twice at b.rs:2:2");
        assert_eq!(first_complaint("", root), "nothing that is an error");
    }

    #[test]
    fn each_part_has_a_file_of_its_own() {
        let names: std::collections::BTreeSet<_> = Part::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), Part::ALL.len());
    }

    #[test]
    fn cargos_output_for_a_failed_part_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::at(folder.path());
        let mut command = Command::new("sh");
        command.args(["-c", "echo more; echo error: wrong >&2; exit 1"]);
        let error = Part::Lints.finish(&project, command).unwrap_err().to_string();
        let file = "target/check/lints-of-the-build-machines-side";
        assert_eq!(error, format!("cargo says: error: wrong; the whole of it is in {file}"));
        assert_eq!(std::fs::read_to_string(folder.path().join(file)).unwrap(), "more\nerror: wrong\n");
    }
}
