//! Runs the tests of the build machine: the binaries that cargo builds, several at a time, and the tests in documentation.
//!
//! Cargo itself runs one binary after the other, and those of the simulated systems have tests of a minute on one processor.

use crate::commands::counted::Counted;
use crate::parallel;
use anyhow::{Context, Result, ensure};
use kernel::Kernel;
use serde_json::Value;
use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use xtask::cargo::cargo_in;
use xtask::project::Project;

/// Cargo's arguments for a build of all tests.
const BUILD: [&str; 3] = ["test", "--no-run", "--message-format=json-render-diagnostics"];

/// The package of the seam's seL4 side.
const SEAM: &str = "platform-sel4";

/// The build of the tests, begun before they run.
pub(super) struct Ahead(Child);

impl Ahead {
    /// Begins it.
    pub(super) fn begin(project: &Project) -> Result<Self> {
        let mut command = cargo_in(project.root());
        command.args(BUILD).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn().context("cannot run cargo")?))
    }

    /// Waits for it. The tests themselves report its errors.
    pub(super) fn finish(mut self) {
        let _ = self.0.wait();
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        // Nothing happens to a build that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds and runs the tests of all default members, and those of the seam's seL4 side.
pub(super) fn check(project: &Project, kernel: &Kernel) -> Result<Counted> {
    let built = cargo_in(project.root()).args(BUILD).output().context("cannot run cargo")?;
    let errors = String::from_utf8_lossy(&built.stderr);
    let shown = errors.lines().filter(|line| line.starts_with("error")).take(5).collect::<Vec<_>>().join("; ");
    ensure!(built.status.success(), "the tests cannot be built: {shown}; see: cargo test --no-run");
    let mut documentation = cargo_in(project.root());
    documentation.args(["test", "--doc", "--no-fail-fast"]);
    let binaries = String::from_utf8_lossy(&built.stdout);
    // The crates that cargo builds last depend on the others and have the longest tests.
    let tests = binaries.lines().filter_map(binary).rev();
    let mut all = Counted::default();
    let mut add = |counted: Counted| {
        all.passed += counted.passed;
        all.failed.extend(counted.failed);
    };
    // The two runs are not parallel: the second build replaces the first's binary.
    seam_tests(project, kernel).into_iter().map(run).for_each(&mut add);
    parallel::each(tests.chain([documentation]).collect::<Vec<_>>(), None, run, add);
    Ok(all)
}

/// The tests of the seam's seL4 side, for the interface of an installed kernel (a miniature) and for the project's own kernel, if that is
/// for the build machine's architecture. The crate is no default member, because its features would be those of all.
fn seam_tests(project: &Project, kernel: &Kernel) -> Vec<Command> {
    let variable = format!("CAPNVME_SEL4_{ARCH}");
    let own = (kernel.arch.name() == ARCH).then_some(&kernel.folder);
    let tests = |folder: Option<&PathBuf>| {
        let mut command = cargo_in(project.root());
        command.args(["test", "--package", SEAM, "--lib"]).env_remove(&variable);
        command.envs(folder.map(|folder| (&variable, folder)));
        command
    };
    [tests(None)].into_iter().chain(own.map(|own| tests(Some(own)))).collect()
}

/// The test binary that one of cargo's messages reports, as a command in the folder of its package.
fn binary(message: &str) -> Option<Command> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let (program, manifest) = (message["executable"].as_str()?, message["manifest_path"].as_str()?);
    let folder = Path::new(manifest).parent()?;
    let mut command = Command::new(program);
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    is_test.then_some(command)
}

fn run(mut command: Command) -> Counted {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |reason: String| Counted { failed: vec![reason], ..Counted::default() };
    match command.output() {
        Err(error) => failed(format!("cannot run {program}: {error}")),
        Ok(output) => {
            let of_seam = command.get_args().any(|argument| argument == SEAM);
            let package = if of_seam { format!("-p {SEAM} ") } else { String::new() };
            let counted = count(&String::from_utf8_lossy(&output.stdout), &package);
            if output.status.success() || !counted.failed.is_empty() {
                return counted;
            }
            let said = String::from_utf8_lossy(&output.stderr);
            failed(format!("{program} ended with {}: {}", output.status, said.lines().last().unwrap_or_default()))
        }
    }
}

/// Counts the tests in the output of the test harness.
fn count(text: &str, package: &str) -> Counted {
    let mut counted = Counted::default();
    for line in text.lines() {
        match line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... ")) {
            Some((_, "ok")) => counted.passed += 1,
            Some((name, "FAILED")) => counted.failed.push(format!("{name}; see: cargo test {package}{name}")),
            _ => {}
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_is_counted_by_its_lines() {
        let text = "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d ... ignored\ntest e ... ok\n\n\
                    test result: FAILED. 2 passed; 1 failed\n";
        let counted = count(text, "");
        assert_eq!(counted.passed, 2);
        assert_eq!(counted.failed, ["c; see: cargo test c"]);
    }

    #[test]
    fn test_binaries_are_found_among_cargos_messages() {
        let message = |test: bool, program: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/p/sim/Cargo.toml","profile":{{"test":{test}}},"executable":{program}}}"#
            )
        };
        let found = binary(&message(true, r#""/p/target/runs""#)).unwrap();
        assert_eq!(
            (found.get_program(), found.get_current_dir()),
            ("/p/target/runs".as_ref(), Some(Path::new("/p/sim")))
        );
        for other in [message(false, r#""/p/target/xtask""#), message(true, "null"), "no JSON".to_owned()] {
            assert!(binary(&other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_binary_that_ends_without_a_failed_test_fails() {
        let mut killed = Command::new("sh");
        killed.args(["-c", "echo 'test a ... ok'; echo overflow >&2; kill -9 $$"]);
        let failed = run(killed).failed;
        assert!(failed[0].starts_with("sh ended with signal: 9") && failed[0].ends_with(": overflow"), "{failed:?}");
    }
}
