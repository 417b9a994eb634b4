//! `cargo xtask test`: every test there is, and how many passed.
//!
//! The tests of the build machine, the parts of `cargo xtask check`, what the commands say to bad input, every scenario in
//! the simulator, on AArch64 most of those that QEMU runs there, those that the soak found, a few points of every experiment, seeds
//! of the soak, a third of a minute of every fuzz target, every scenario on QEMU, a run that hangs, the root task without fault
//! injection, the model of the kernel against the kernel, and what each correction of the kernel is for. Each counts as one line,
//! passed or failed with its reason; the last line has the sums.

use crate::commands::counted::Counted;
use crate::commands::{bad_input, bench, check, conformance, experiment, fuzz, hang, profile, soak};
use crate::image::programs::{self, Programs, ROOT_TASK};
use crate::judges::verdict;
use crate::machine::counts;
use crate::out;
use crate::progress::Step;
use crate::project::Project;
use crate::run::simulate::{Given, simulate};
use crate::run::sweep::{self, Failure};
use crate::run::{self, Options, Runner};
use crate::setup;
use crate::setup::packages::Consent;
use anyhow::{Context, Result, anyhow, ensure};
use capdl::Scenario;
use clap::Args;
use kernel::{Arch, BuildOptions, FixName, Kernel};
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

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

/// Runs them all; a failed one does not keep the others from running.
pub(crate) fn run(project: &Project, test: &Test) -> Result<ExitCode> {
    // A name that no test has is said before anything long begins.
    let chosen = chosen(&Names::of(project)?, &test.only)?;
    let consent = if test.yes { Consent::Given } else { Consent::NotAsked };
    let kernel = setup::prepare(project, consent, &BuildOptions::default())?;
    let inputs = bad_input::prepare(project)?;
    let mut ground = Ground { project, kernel: &kernel, inputs, built: Vec::new(), known: bench::Known::default() };
    let mut tally = Tally { passed: 0, failed: Vec::new(), repeated: Vec::new() };
    let (beside, alone): (Vec<One>, Vec<One>) = chosen.into_iter().partition(|one| one.may_run_beside(project));
    for one in &alone {
        if let One::Scenario(_, arch) = one {
            ground.build_programs(*arch)?;
        }
        tally.test(one, || ground.run(one))?;
    }
    for one in &beside {
        if let One::Scenario(_, arch) = one {
            ground.build_programs(*arch)?;
        }
    }
    tally.pairs(&ground, beside)?;
    for repeated in &tally.repeated {
        out::line(format_args!("passed when run once more: {repeated}"))?;
    }
    for failed in &tally.failed {
        out::line(format_args!("failed: {failed}"))?;
    }
    out::line(format_args!("{} passed, {} failed", tally.passed, tally.failed.len()))?;
    Ok(if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Seeds beside its own with which a scenario is simulated, at most.
const MORE_SEEDS: u64 = 8;
/// And no more of them than make so many commands together, which is a few seconds.
const MORE_COMMANDS: u64 = 200_000;
/// Seeds of the soak that every test run makes.
const SOAK_SEEDS: u64 = 200;
/// How long each fuzz target searches, and the seed of its search.
const FUZZ_TIME: Duration = Duration::from_secs(20);
const FUZZ_SEED: u32 = 1;

/// One test, by what it tests; its name is what it displays as.
enum One {
    Units,
    Check(check::Part),
    BadInput(&'static bad_input::Case),
    Scenario(String, Arch),
    Simulation(String, Arch),
    Found(String),
    Experiment(&'static experiment::One),
    Soak,
    Fuzz(fuzz::Subject),
    Hang,
    Profile,
    Product,
    Conformance(conformance::Suite, Arch),
    KernelFix(FixName, Arch),
    Loader,
    Smmu,
}

impl One {
    /// Whether it is a run of QEMU of which no time is judged, so that another may go on beside it.
    fn may_run_beside(&self, project: &Project) -> bool {
        match self {
            Self::Scenario(name, _) => {
                let load = || Scenario::load(project.scenario(name).ok()?).ok();
                load().is_some_and(|scenario| !scenario.expect.is_about_time())
            }
            Self::KernelFix(..) => true,
            _ => false,
        }
    }
}

impl fmt::Display for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Units => f.write_str("unit tests on the build machine"),
            Self::Check(part) => write!(f, "check of {part}"),
            Self::BadInput(case) => write!(f, "bad input: {}", case.name),
            Self::Scenario(name, Arch::X86_64) => write!(f, "scenario {name}"),
            Self::Scenario(name, arch) => write!(f, "scenario {name} on {arch}"),
            Self::Simulation(name, Arch::X86_64) => write!(f, "simulation of {name}"),
            Self::Simulation(name, arch) => write!(f, "simulation of {name} on {arch}"),
            Self::Found(name) => write!(f, "found: {name}"),
            Self::Experiment(one) => write!(f, "experiment {}", one.name),
            Self::Soak => write!(f, "soak of {SOAK_SEEDS} seeds"),
            Self::Fuzz(fuzz::Subject::Planted) => f.write_str("fuzz targets find what they plant"),
            Self::Fuzz(fuzz::Subject::Real) => f.write_str("fuzz targets"),
            Self::Hang => f.write_str(hang::NAME),
            Self::Profile => f.write_str("profile of a benchmark"),
            Self::Product => f.write_str("the product's root task lacks fault injection"),
            Self::Conformance(suite, Arch::X86_64) => write!(f, "conformance {suite}"),
            Self::Conformance(suite, arch) => write!(f, "conformance {suite} on {arch}"),
            Self::KernelFix(name, Arch::X86_64) => write!(f, "kernel fix {name}"),
            Self::KernelFix(name, arch) => write!(f, "kernel fix {name} on {arch}"),
            Self::Loader => f.write_str("loader of the AArch64 kernel"),
            Self::Smmu => f.write_str("the SMMU's driver on QEMU's SMMU"),
        }
    }
}

/// With which seeds a scenario is simulated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seeds {
    /// The one that its file names.
    Own,
    /// Others, too.
    Several,
}

/// Scenarios by who runs them.
#[derive(Clone, Debug, Default)]
struct Names {
    /// The simulator.
    simulated: Vec<String>,
    /// The simulator, as an AArch64 machine.
    simulated_on_arm: Vec<String>,
    /// QEMU.
    on_qemu: Vec<String>,
    /// QEMU, as an AArch64 machine.
    on_arm: Vec<String>,
    /// The simulator: those that the soak found.
    found: Vec<String>,
}

impl Names {
    /// Of the project.
    fn of(project: &Project) -> Result<Self> {
        let all = project.scenarios()?;
        let on_pc = suiting(project, &all, Arch::X86_64);
        let on_arm = on_qemu(project, suiting(project, &all, Arch::Aarch64));
        Ok(Self {
            simulated: with_iommu(project, on_pc.clone()),
            simulated_on_arm: with_iommu(project, on_arm.clone()),
            on_qemu: on_qemu(project, on_pc),
            on_arm,
            found: project.found()?,
        })
    }
}

/// The scenarios that a machine can run. One that cannot be read is among the PC's, so that somebody says so.
fn suiting(project: &Project, names: &[String], arch: Arch) -> Vec<String> {
    let load = |name: &str| Scenario::load(project.scenario(name).ok()?).ok();
    let has_machine = |scenario| run::has_machine(&scenario, arch).is_ok();
    let can = |name: &&String| load(name).map_or(arch == Arch::X86_64, has_machine);
    names.iter().filter(can).cloned().collect()
}

/// The scenarios of which QEMU has all that they name.
fn on_qemu(project: &Project, names: Vec<String>) -> Vec<String> {
    let load = |name: &str| Scenario::load(project.scenario(name).ok()?).ok();
    names.into_iter().filter(|name| load(name).is_none_or(|scenario| !scenario.is_simulators_alone())).collect()
}

/// The scenarios that the simulator has all for.
fn with_iommu(project: &Project, names: Vec<String>) -> Vec<String> {
    let load = |name: &str| Scenario::load(project.scenario(name).ok()?).ok();
    names.into_iter().filter(|name| load(name).is_none_or(|scenario| scenario.machine.iommu)).collect()
}

/// Whether the scenario is one attacker's last act that the soak draws, on both machines and in less time: of those only the attempt
/// to stop the clock is not.
fn is_drawn_by_soak(name: &str) -> bool {
    name.starts_with("hostile-") && name != "hostile-stop-clock"
}

/// The tests with `only` in their names, in the order in which they run.
fn chosen(names: &Names, only: &str) -> Result<Vec<One>> {
    let checks = check::Part::all().into_iter().map(One::Check);
    let inputs = bad_input::CASES.iter().map(One::BadInput);
    let simulations = names.simulated.iter().cloned().map(|name| One::Simulation(name, Arch::X86_64));
    let as_arm = names.simulated_on_arm.iter().filter(|name| !is_drawn_by_soak(name)).cloned();
    let as_arm = as_arm.map(|name| One::Simulation(name, Arch::Aarch64));
    let found = names.found.iter().cloned().map(One::Found);
    let scenarios = names.on_qemu.iter().cloned().map(|name| One::Scenario(name, Arch::X86_64));
    let on_arm = names.on_arm.iter().cloned().map(|name| One::Scenario(name, Arch::Aarch64));
    let suites =
        Arch::ALL.into_iter().flat_map(|arch| conformance::Suite::ALL.map(|suite| One::Conformance(suite, arch)));
    let fixes = kernel::regress::all().map(|(name, arch)| One::KernelFix(name, arch));
    let all = std::iter::once(One::Units)
        .chain(checks)
        .chain(inputs)
        .chain(simulations)
        .chain(as_arm)
        .chain(found)
        .chain(experiment::ALL.iter().map(One::Experiment))
        .chain([One::Soak, One::Fuzz(fuzz::Subject::Planted), One::Fuzz(fuzz::Subject::Real)])
        .chain(scenarios)
        .chain(on_arm)
        .chain([One::Hang, One::Profile, One::Product])
        .chain(suites)
        .chain(fixes)
        .chain([One::Loader, One::Smmu]);
    let chosen: Vec<_> = all.filter(|one| one.to_string().contains(only)).collect();
    ensure!(
        !chosen.is_empty(),
        "no test has '{only}' in its name: give a part of one such as 'unit tests', 'check', 'bad input', 'scenario \
         demo' or 'kernel fix'"
    );
    Ok(chosen)
}

/// What tests stand on.
struct Ground<'a> {
    project: &'a Project,
    kernel: &'a Kernel,
    /// The folder of the wrong inputs.
    inputs: PathBuf,
    /// For each architecture its kernel, the programs and the instruction counter, from its first scenario on.
    built: Vec<Built>,
    /// What was measured so far.
    known: bench::Known,
}

impl Ground<'_> {
    fn build_programs(&mut self, arch: Arch) -> Result<()> {
        if self.built.iter().all(|(kernel, ..)| kernel.arch != arch) {
            let kernel = setup::build_kernel(self.project, &BuildOptions { arch, ..BuildOptions::default() })?;
            let programs = programs::build(self.project, &kernel, "info")?;
            self.built.push((kernel, programs, counts::plugin(self.project)?));
        }
        Ok(())
    }

    fn run(&mut self, one: &One) -> Result<Counted> {
        match one {
            One::Units => unit_tests(self.project, &[]),
            One::Check(part) => part.run(self.project, self.kernel).map(|()| Counted::one()),
            One::BadInput(case) => bad_input::check(self.project, &self.inputs, case),
            One::Scenario(name, arch) => self.scenario(name, *arch),
            One::Simulation(name, arch @ Arch::X86_64) => self.simulation(name, Some(*arch), Seeds::Several),
            // The scenario's other seeds are drawn on one machine; the soak draws both.
            One::Simulation(name, arch) => self.simulation(name, Some(*arch), Seeds::Own),
            One::Found(name) => self.simulation(&format!("found/{name}"), None, Seeds::Own),
            One::Experiment(one) => experiment::check(self.project, one).map(|()| Counted::one()),
            One::Soak => soaked(),
            One::Fuzz(subject) => fuzzed(self.project, *subject),
            One::Hang => hang::check(self.project),
            One::Profile => self.profile(),
            One::Product => self.product(),
            One::Conformance(suite, arch) => {
                let kernel =
                    setup::build_kernel(self.project, &BuildOptions { arch: *arch, ..BuildOptions::default() })?;
                conformance::check(self.project, &kernel, *suite)
            }
            One::KernelFix(name, arch) => kernel_fix(self.project, *name, *arch),
            One::Loader => loader(self.project),
            One::Smmu => smmu(self.project),
        }
    }

    /// Simulates a scenario twice, on its own machine or that of `arch`: it passes, and the second run is the first one once
    /// more. Then with other seeds.
    fn simulation(&self, name: &str, arch: Option<Arch>, seeds: Seeds) -> Result<Counted> {
        let mut scenario = Scenario::load(self.project.scenario(name)?)?;
        scenario.machine.arch = arch.unwrap_or(scenario.machine.arch);
        let scenario = scenario;
        let run =
            |seed| simulate(Given { scenario: &scenario, seed, disk: None, show: None, step: None, folder: None });
        let own = scenario.seed;
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| run(own));
            (run(own), second.join())
        });
        let second = second.map_err(|_| anyhow!("the simulator itself panicked: see above"))??;
        let mut first = first?;
        if first.account.trace_hash != second.account.trace_hash {
            first.results.passed = false;
            first.results.reasons.push("two runs of one seed differ".into());
        }
        let more = match seeds {
            Seeds::Own => 0,
            Seeds::Several => MORE_SEEDS.min(MORE_COMMANDS / first.account.commands.max(1)),
        };
        let others = own.saturating_add(1)..own.saturating_add(1).saturating_add(more);
        let mut swept = sweep::sweep(others, None, run, |_| {});
        swept.add(own, Ok(first));
        let sentence = |failure: &Failure| {
            let arch = scenario.machine.arch;
            format!("{}; see: cargo xtask sim {name} --arch {arch} --seed {}", failure.reasons.join("; "), failure.seed)
        };
        let failed: Vec<_> = swept.failures.iter().map(sentence).collect();
        Ok(Counted { passed: u64::from(failed.is_empty()), failed, ..Counted::default() })
    }

    /// Runs a scenario; one that measures is run by instructions and must reach what is asked of it.
    fn scenario(&mut self, name: &str, arch: Arch) -> Result<Counted> {
        let file = self.project.scenario(name)?;
        if Scenario::load(&file)?.expect.measured.is_empty() {
            return self.unmeasured(name, arch);
        }
        let (kernel, programs, plugin) = built(&self.built, arch)?;
        let runner = Runner { project: self.project, kernel, programs };
        let missed = self.known.check(&runner, &file, plugin)?;
        Ok(Counted { passed: u64::from(missed.is_empty()), failed: missed, ..Counted::default() })
    }

    /// Profiles a benchmark: its sums are those of a run without a histogram.
    fn profile(&mut self) -> Result<Counted> {
        self.build_programs(Arch::X86_64)?;
        let (kernel, programs, plugin) = built(&self.built, Arch::X86_64)?;
        let failed = profile::check(&Runner { project: self.project, kernel, programs }, plugin)?;
        Ok(Counted { passed: u64::from(failed.is_empty()), failed, ..Counted::default() })
    }

    /// The root task of an image without kill orders has no code of the module that executes them, and refuses them: so say its
    /// debug information, and its unit tests without the feature, with which all others are built.
    fn product(&mut self) -> Result<Counted> {
        self.build_programs(Arch::X86_64)?;
        let (kernel, programs, _) = built(&self.built, Arch::X86_64)?;
        let injecting = programs::build_injecting(self.project, kernel, "info")?;
        ensure!(programs::injects(&injecting), "the module of fault injection is not found where it is");
        ensure!(!programs::injects(programs.elf(ROOT_TASK)?), "the product's root task has fault injection");
        unit_tests(self.project, &["--package", "root-task"])
    }

    /// Runs a scenario that measures nothing.
    fn unmeasured(&self, name: &str, arch: Arch) -> Result<Counted> {
        let (kernel, programs, _) = built(&self.built, arch)?;
        let runner = Runner { project: self.project, kernel, programs };
        let file = self.project.scenario(name)?;
        let scenario = Scenario::load(&file)?;
        let mut results = runner.run(&file, Options::default())?;
        if !results.passed && (verdict::is_too_short(&scenario, &results) || scenario.expect.is_about_time()) {
            // Such a run shows nothing either way, or what moments of other work of this machine's did to it.
            let missed = results.reasons.join("; ");
            results = runner.run(&file, Options { longer: true, ..Options::default() })?;
            if results.passed {
                return Ok(Counted { repeated: Some(missed), ..Counted::one() });
            }
        }
        if !results.passed {
            let reason = format!("{}; the log is {}/log", results.reasons.join("; "), results.log);
            return Ok(Counted { passed: 0, failed: vec![reason], ..Counted::default() });
        }
        Ok(Counted::one())
    }
}

/// A kernel, the programs for it, and the instruction counter.
type Built = (Kernel, Programs, PathBuf);

/// Those of an architecture.
fn built(all: &[Built], arch: Arch) -> Result<&Built> {
    all.iter().find(|(kernel, ..)| kernel.arch == arch).context("the programs for seL4 are not built")
}

/// The tests so far.
struct Tally {
    passed: u64,
    failed: Vec<String>,
    /// Those that passed when they were run once more.
    repeated: Vec<String>,
}

impl Tally {
    /// Runs one test. What counts is how many tests its result stands for, and the reasons of those that failed.
    fn test(&mut self, one: &One, test: impl FnOnce() -> Result<Counted>) -> Result<()> {
        let (outcome, took) = timed(one, test);
        self.count(one, outcome, took)
    }

    /// Runs tests two at a time.
    fn pairs(&mut self, ground: &Ground<'_>, all: Vec<One>) -> Result<()> {
        let left = Mutex::new(all.into_iter());
        let (done, outcomes) = mpsc::channel();
        std::thread::scope(|scope| {
            for done in [done.clone(), done] {
                let left = &left;
                scope.spawn(move || {
                    let next = || left.lock().ok().and_then(|mut left| left.next());
                    while let Some(one) = next() {
                        let (outcome, took) = timed(&one, || match &one {
                            One::Scenario(name, arch) => ground.unmeasured(name, *arch),
                            One::KernelFix(name, arch) => kernel_fix(ground.project, *name, *arch),
                            _ => Err(anyhow!("it cannot run beside another")),
                        });
                        if done.send((one, outcome, took)).is_err() {
                            return;
                        }
                    }
                });
            }
            outcomes.iter().try_for_each(|(one, outcome, took)| self.count(&one, outcome, took))
        })
    }

    fn count(&mut self, one: &One, outcome: Result<Counted>, took: Duration) -> Result<()> {
        let name = &one.to_string();
        match outcome {
            Ok(Counted { passed, failed, repeated }) if failed.is_empty() => {
                self.passed += passed;
                self.repeated.extend(repeated.map(|missed| format!("{name}: {missed}")));
                out::line(format_args!("ok    {name} ({:.1} s)", took.as_secs_f64()))?;
            }
            Ok(Counted { passed, failed, .. }) => {
                self.passed += passed;
                self.fail(name, failed)?;
            }
            Err(error) => self.fail(name, vec![format!("{error:#}")])?,
        }
        Ok(())
    }

    fn fail(&mut self, name: &str, reasons: Vec<String>) -> Result<()> {
        out::line(format_args!("FAIL  {name}"))?;
        for reason in reasons {
            out::line(format_args!("      {reason}"))?;
            self.failed.push(format!("{name}: {reason}"));
        }
        Ok(())
    }
}

/// What came of a test, and how long it took.
fn timed(one: &One, test: impl FnOnce() -> Result<Counted>) -> (Result<Counted>, Duration) {
    let since = Instant::now();
    let _step = Step::new(one.to_string());
    (test(), since.elapsed())
}

fn unit_tests(project: &Project, packages: &[&str]) -> Result<Counted> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(project.root())
        .args(["test", "--no-fail-fast"])
        .args(packages)
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

/// Runs of drawn systems with drawn faults; each passes.
fn soaked() -> Result<Counted> {
    let swept = sweep::sweep(0..SOAK_SEEDS, None, soak::one, |_| {});
    let sentence = |failure: &Failure| {
        format!("{}; see: cargo xtask soak --from {} --count 1", failure.reasons.join("; "), failure.seed)
    };
    let failed: Vec<_> = swept.failures.iter().map(sentence).collect();
    Ok(Counted { passed: swept.runs - failed.len() as u64, failed, ..Counted::default() })
}

/// Searches; each that found nothing passes, or, of planted defects, each that found its own.
fn fuzzed(project: &Project, subject: fuzz::Subject) -> Result<Counted> {
    let mut counted = Counted::default();
    // A planted defect ends its search, and a busy machine has time to find it.
    let time = if subject == fuzz::Subject::Planted { FUZZ_TIME * 3 } else { FUZZ_TIME };
    for searched in fuzz::search(project, &fuzz::targets(project)?, time, FUZZ_SEED, None, subject)? {
        let wrongs = fuzz::wrongs(&searched, subject);
        counted.passed += u64::from(wrongs.is_empty());
        counted.failed.extend(wrongs.into_iter().map(|wrong| format!("{}: {wrong}", searched.target)));
    }
    Ok(counted)
}

fn kernel_fix(project: &Project, name: FixName, arch: Arch) -> Result<Counted> {
    let logs = project.target_folder("kernel/regress")?;
    kernel::regress::check(project.root(), name, arch, &logs, &mut |_| {})?;
    Ok(Counted::one())
}

/// A test that `cargo test` alone leaves out, because QEMU has to be there.
fn smmu(project: &Project) -> Result<Counted> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(project.root())
        .args(["test", "--quiet", "--package", "iommu-server", "--test", "qemu", "--", "--ignored"])
        .output()
        .context("cannot run cargo")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = said.contains("1 passed") && output.status.success();
    let reason = said.lines().find(|line| line.contains("panicked")).unwrap_or("see it with cargo test");
    ensure!(passed, "it fails: {reason}");
    Ok(Counted::one())
}

fn loader(project: &Project) -> Result<Counted> {
    let logs = project.target_folder("kernel/boot")?;
    kernel::boot::check(project.root(), &logs, &mut |_| {})?;
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

    fn names(only: &str) -> Vec<String> {
        let simulated = vec!["boot".to_owned(), "demo".to_owned()];
        let on_arm = vec!["boot".to_owned(), "hostile-close".to_owned()];
        let names = Names {
            on_qemu: simulated.clone(),
            simulated_on_arm: on_arm.clone(),
            on_arm,
            found: simulated.clone(),
            simulated,
        };
        chosen(&names, only).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_part_of_a_name_chooses_the_tests_that_have_it() {
        assert_eq!(names("unit tests"), ["unit tests on the build machine"]);
        assert_eq!(names("scenario demo"), ["scenario demo"]);
        assert_eq!(names("hostile-close on aarch64"), ["scenario hostile-close on aarch64"]);
        assert_eq!(names("boot on aarch64"), ["simulation of boot on aarch64", "scenario boot on aarch64"]);
        assert_eq!(names("check of").len(), check::Part::all().len());
        assert_eq!(names("bad input").len(), bad_input::CASES.len());
        let all = names("");
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "no two tests have one name");
    }

    #[test]
    fn every_scenario_is_run_and_what_the_simulator_alone_has_is_simulated() {
        let project = Project::here().unwrap();
        let names = Names::of(&project).unwrap();
        for name in project.scenarios().unwrap() {
            let all = [&names.simulated, &names.simulated_on_arm, &names.on_qemu, &names.on_arm];
            assert!(all.iter().any(|run| run.contains(&name)), "nobody runs {name}");
        }
        assert!(names.simulated.contains(&"wrr".to_owned()) && !names.on_qemu.contains(&"wrr".to_owned()));
    }

    #[test]
    fn a_name_that_no_test_has_is_refused() {
        let error = chosen(&Names::default(), "typo").err().unwrap().to_string();
        assert!(error.starts_with("no test has 'typo' in its name"), "{error}");
    }
}
