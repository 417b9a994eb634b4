//! `cargo xtask test`: every test there is, and how many passed.
//!
//! The tests of the build machine, every scenario on QEMU, what each correction of the kernel is for, and what the commands
//! say to bad input. Each counts as one line, passed or failed with its reason; the last line has the sums.

use crate::packages::Consent;
use crate::progress::Step;
use crate::project::Project;
use crate::run::{Options, Runner};
use crate::{bad_input, bench, counts, hang, programs, setup};
use anyhow::{Context, Result, ensure};
use capdl::Scenario;
use clap::Args;
use kernel::BuildOptions;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// What to test.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Only the tests whose names contain this
    #[arg(default_value = "")]
    only: String,
    /// Install missing packages through sudo without asking
    #[arg(long)]
    yes: bool,
}

/// The tests so far.
struct Tally<'a> {
    only: &'a str,
    passed: u64,
    failed: Vec<String>,
}

/// Runs them all; a failed one does not keep the others from running.
pub(crate) fn run(project: &Project, test: &Test) -> Result<ExitCode> {
    let consent = if test.yes { Consent::Given } else { Consent::NotAsked };
    let kernel = setup::prepare(project, consent, &BuildOptions::default())?;
    let mut tally = Tally { only: &test.only, passed: 0, failed: Vec::new() };
    tally.test("unit tests on the build machine", || unit_tests(project));
    let inputs = bad_input::prepare(project)?;
    for case in bad_input::CASES {
        tally.test(&format!("bad input: {}", case.name), || bad_input::check(project, &inputs, case));
    }
    let programs = programs::build(project, &kernel, "info")?;
    let runner = Runner { project, kernel: &kernel, programs: &programs };
    let plugin = counts::plugin(project)?;
    for name in project.scenarios()? {
        tally.test(&format!("scenario {name}"), || scenario(&runner, &plugin, &name));
    }
    tally.test(hang::NAME, || hang::check(project));
    for name in kernel::regress::all() {
        tally.test(&format!("kernel fix {name}"), || kernel_fix(project, name));
    }
    for failed in &tally.failed {
        println!("failed: {failed}");
    }
    ensure!(tally.passed > 0 || !tally.failed.is_empty(), "no test has '{}' in its name", test.only);
    println!("{} passed, {} failed", tally.passed, tally.failed.len());
    Ok(if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Tally<'_> {
    /// Runs one test. What counts is how many tests its result stands for, and the reasons of those that failed.
    fn test(&mut self, name: &str, test: impl FnOnce() -> Result<Counted>) {
        if !name.contains(self.only) {
            return;
        }
        let since = Instant::now();
        let outcome = {
            let _step = Step::new(name);
            test()
        };
        let took = since.elapsed().as_secs_f64();
        match outcome {
            Ok(Counted { passed, failed }) if failed.is_empty() => {
                self.passed += passed;
                println!("ok    {name} ({took:.1} s)");
            }
            Ok(Counted { passed, failed }) => {
                self.passed += passed;
                self.fail(name, failed);
            }
            Err(error) => self.fail(name, vec![format!("{error:#}")]),
        }
    }

    fn fail(&mut self, name: &str, reasons: Vec<String>) {
        println!("FAIL  {name}");
        for reason in reasons {
            println!("      {reason}");
            self.failed.push(format!("{name}: {reason}"));
        }
    }
}

/// What came of a test, or of several run as one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counted {
    /// How many passed.
    pub(crate) passed: u64,
    /// Why others failed, one sentence each.
    pub(crate) failed: Vec<String>,
}

impl Counted {
    /// One test that passed.
    pub(crate) const fn one() -> Self {
        Self { passed: 1, failed: Vec::new() }
    }
}

fn unit_tests(project: &Project) -> Result<Counted> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(project.root())
        .args(["test", "--no-fail-fast"])
        // The settings of the run we are in are not for those of the tests.
        .env_remove("CARGO_MANIFEST_DIR")
        .output()
        .context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut counted = count(&text);
    if !output.status.success() && counted.failed.is_empty() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let shown = errors.lines().filter(|line| line.starts_with("error")).take(5).collect::<Vec<_>>().join("; ");
        counted.failed.push(format!("the tests cannot be built: {shown}; see: cargo test"));
    }
    Ok(counted)
}

/// The tests in what the test harness prints.
fn count(text: &str) -> Counted {
    let mut counted = Counted::default();
    for line in text.lines() {
        match line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... ")) {
            Some((_, "ok")) => counted.passed += 1,
            Some((name, "FAILED")) => counted.failed.push(format!("{name}; see: cargo test {name}")),
            _ => {}
        }
    }
    counted
}

/// Runs a scenario; one that measures is run by instructions and must reach what is asked of it.
fn scenario(runner: &Runner<'_>, plugin: &Path, name: &str) -> Result<Counted> {
    let file = runner.project.scenario(name)?;
    if !Scenario::load(&file)?.expect.measured.is_empty() {
        let missed = bench::check(runner, &file, plugin)?;
        return Ok(Counted { passed: u64::from(missed.is_empty()), failed: missed });
    }
    let results = runner.run(&file, Options::default())?;
    if !results.passed {
        let reason = format!("{}; the log is {}/log", results.reasons.join("; "), results.log);
        return Ok(Counted { passed: 0, failed: vec![reason] });
    }
    Ok(Counted::one())
}

fn kernel_fix(project: &Project, name: kernel::FixName) -> Result<Counted> {
    let logs = project.target_folder("kernel/regress")?;
    kernel::regress::check(project.root(), name, &logs, &mut |_| {})?;
    Ok(Counted::one())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_is_counted_by_its_lines() {
        let text = "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d ... ignored\ntest e ... ok\n\n\
                    test result: FAILED. 2 passed; 1 failed\n";
        let counted = count(text);
        assert_eq!(counted.passed, 2);
        assert_eq!(counted.failed, ["c; see: cargo test c"]);
    }
}
