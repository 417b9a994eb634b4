//! Runs each kind of test.

use super::case::{Seeds, TestCase};
use super::units;
use crate::commands::counted::Counted;
use crate::commands::linux::{self, LinuxCheck};
use crate::commands::{
    bad_input, bench, browser, conformance, experiment, fuzz, guides, hang, nvme, own_program, profile, scale, soak,
    traced, watched,
};
use crate::model;
use crate::nvme_cli::program;
use crate::seeds::{self, Failure};
use crate::simulate::{self, RunInput, simulate};
use anyhow::{Context, Result, anyhow, ensure};
use capdl::{KernelKind, Scenario};
use kernel::{Arch, BuildOptions, FixName, Kernel};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use xtask::cargo::cargo_in;
use xtask::image::own;
use xtask::image::programs::{self, Programs};
use xtask::judges::times::NotJudged;
use xtask::judges::verdict;
use xtask::machine::counts::Plugins;
use xtask::out;
use xtask::project::Project;
use xtask::run::{Device, Options};
use xtask::setup;
use xtask::setup::chosen_kernel::{self, ChosenKernel};
use xtask::setup::packages::Consent;
use xtask::setup::{linux_guest, vfio_user};

/// Seeds for the simulation of a scenario besides its own, at most.
const MORE_SEEDS: u64 = 4;
/// Commands that these further runs make together, at most; this takes a few seconds.
const MORE_COMMANDS: u64 = 50_000;
/// Seeds of the soak in every test run.
pub(super) const SOAK_SEEDS: u64 = 200;
/// A scenario with kill orders.
const WITH_KILL_ORDERS: &str = "client-killed";
/// Scenarios that people run first: the defaults of commands, and those that README.md shows. Each must pass at once.
const NEVER_REPEATED: [&str; 3] = ["demo", "boot", "two-tenants"];
/// Time that each fuzz target's search has a processor, and the seed of the search.
const FUZZ_TIME: Duration = Duration::from_secs(10);
const FUZZ_SEED: u32 = 1;

/// State that the tests share.
pub(super) struct Ground<'a> {
    project: &'a Project,
    /// The commands and their options.
    program: clap::Command,
    kernel: Kernel,
    /// The folder of the wrong inputs.
    inputs: PathBuf,
    /// For each architecture that a test needs its kernel, programs and instruction counter.
    built: Vec<Built>,
    /// Measurements so far.
    known: bench::Known,
    /// For each installed kernel that a test needs, the same.
    installed: Vec<Built>,
    known_of_installed: bench::Known,
    /// The result of rows whose times are not judged.
    not_judged: NotJudged,
}

impl<'a> Ground<'a> {
    /// Installs and builds what these tests need.
    pub(super) fn prepare(
        project: &'a Project,
        consent: Consent,
        chosen: &ChosenKernel,
        cases: &[TestCase],
        not_judged: NotJudged,
        program: clap::Command,
    ) -> Result<Self> {
        // Packages and downloads keep no processor busy, and the build machine's tests need none of them.
        let units = cases
            .iter()
            .any(|case| matches!(case, TestCase::Units))
            .then(|| units::Ahead::begin(project))
            .transpose()?;
        let kernel = setup::prepare_everything(project, consent)?;
        let inputs = bad_input::prepare(project)?;
        let installed = build_for_installed(project, consent, chosen, cases)?;
        let built = thread::scope(|scope| {
            scope.spawn(|| install_for_ci(project, consent, cases));
            build_programs(project, cases)
        })?;
        if let Some(units) = units {
            units.finish();
        }
        let (known, known_of_installed) = (bench::Known::default(), bench::Known::default());
        Ok(Self { project, program, kernel, inputs, built, known, installed, known_of_installed, not_judged })
    }

    /// Runs the test.
    pub(super) fn run(&self, case: &TestCase) -> Result<Counted> {
        match case {
            TestCase::Units => units::check(self.project, &self.kernel),
            TestCase::Check(part) => part.run(self.project, &self.kernel, &self.program).map(|()| Counted::one()),
            TestCase::BadInput(case) => bad_input::check(self.project, &self.inputs, case),
            TestCase::Scenario(name, arch) => self.scenario(built(&self.built, *arch)?, name, Device::Qemu),
            TestCase::Model(name) => self.on_model(name),
            TestCase::Linux(check) => self.linux(check),
            TestCase::Simulation(name, arch, seeds) => self.simulation(name, Some(*arch), *seeds),
            TestCase::Stock(name, arch) => self.on_stock(name, *arch),
            TestCase::Found(name) => self.simulation(&format!("found/{name}"), None, Seeds::Own),
            TestCase::Experiment(one) => experiment::check(self.project, one).map(|()| Counted::one()),
            TestCase::Soak => soaked(),
            TestCase::Scale(scheduler) => self.scale(*scheduler),
            TestCase::Fuzz(subject) => fuzzed(self.project, *subject),
            TestCase::NvmeCli(row) => self.nvme_cli(*row),
            TestCase::Hang => hang::check(self.project),
            TestCase::Watched(world) => watched::check(self.project, *world),
            TestCase::Browser(row) => self.browser(*row),
            TestCase::Traced(world) => traced::check(self.project, *world),
            TestCase::OwnProgram => own_program::check(self.project),
            TestCase::Files => own_program::check_files(self.project),
            TestCase::Guide(guide) => guides::check(self.project, *guide),
            TestCase::Profile => self.profile(),
            TestCase::Product => self.product(),
            TestCase::Conformance(suite, arch) => {
                let kernel =
                    setup::build_kernel(self.project, &BuildOptions { arch: *arch, ..BuildOptions::default() })?;
                conformance::check(self.project, &kernel, *suite)
            }
            TestCase::KernelFix(name, arch) => kernel_fix(self.project, *name, *arch),
            TestCase::Loader => loader(self.project),
            TestCase::Smmu => smmu(self.project),
            TestCase::Installed(name, arch) => self.scenario(built(&self.installed, *arch)?, name, Device::Qemu),
            TestCase::InstalledConformance(suite, arch) => {
                let (kernel, ..) = built(&self.installed, *arch)?;
                conformance::check(self.project, kernel, *suite)
            }
            TestCase::NotInstalled => {
                let skipped = "not run: no installed kernel; name one with --kernel or SEL4_PREFIX".to_owned();
                Ok(Counted { skipped: Some(skipped), ..Counted::default() })
            }
        }
    }

    /// Simulates a scenario twice, on its own machine or that of `arch`: it must pass, and the second run must equal the first.
    /// Then simulates it with other seeds.
    fn simulation(&self, name: &str, arch: Option<Arch>, seeds: Seeds) -> Result<Counted> {
        let scenario = Scenario::load_for(self.project.scenario(name)?, arch)?;
        if simulate::is_missing(&scenario) {
            let simulator = own::simulator(self.project, &scenario)?;
            let file = self.project.scenario(name)?;
            return own_program::simulate(self.project, &file, &simulator, scenario.machine.arch.name());
        }
        let run = |seed| simulate(RunInput { seed, ..RunInput::of(&scenario) });
        let own = scenario.seed;
        let (first, second) = thread::scope(|scope| {
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
        let mut tally = seeds::each(others, None, run, |_| {});
        tally.add(own, Ok(first));
        let sentence = |failure: &Failure| {
            let arch = scenario.machine.arch;
            format!("{}; see: cargo xtask sim {name} --arch {arch} --seed {}", failure.reasons.join("; "), failure.seed)
        };
        let failed: Vec<_> = tally.failures.iter().map(sentence).collect();
        Ok(Counted { passed: u64::from(failed.is_empty()), failed, ..Counted::default() })
    }

    /// Simulates a scenario with the rules of a released kernel. A scenario that relies on a missing correction must show the defect,
    /// which only a PC can have.
    fn on_stock(&self, name: &str, arch: Arch) -> Result<Counted> {
        let mut scenario = Scenario::load_for(self.project.scenario(name)?, Some(arch))?;
        scenario.machine.kernel = KernelKind::Stock;
        let results = simulate(RunInput::of(&scenario))?.results;
        let see = format!("see: cargo xtask sim {name} --kernel stock --arch {arch}");
        ensure!(!results.failed(), "{}; {see}", results.reasons.join("; "));
        let is_to_show = arch == Arch::X86_64 && !scenario.expect.relies_on.is_empty();
        ensure!(results.passed != is_to_show, "nothing shows what the kernel lacks; {see}");
        Ok(Counted::one())
    }

    /// Runs a scenario; one that measures is run by instructions and must reach its gates.
    fn scenario(&self, built: &Built, name: &str, device: Device) -> Result<Counted> {
        let file = self.project.scenario(name)?;
        if Scenario::load(&file)?.expect.measured.is_empty() {
            return self.unmeasured(built, name, device);
        }
        let (kernel, programs, plugins) = built;
        let runner = model::runner(self.project, kernel, programs);
        let known = if kernel.installed.is_some() { &self.known_of_installed } else { &self.known };
        known.check(&runner, &file, plugins)
    }

    /// Profiles a benchmark: its sums must equal those of a run without a histogram.
    fn profile(&self) -> Result<Counted> {
        let (kernel, programs, plugins) = built(&self.built, Arch::X86_64)?;
        let failed = profile::check(&model::runner(self.project, kernel, programs), plugins)?;
        Ok(Counted { passed: u64::from(failed.is_empty()), failed, ..Counted::default() })
    }

    /// Tests that the root task of an image without kill orders lacks the module that executes them, and refuses them. Its debug
    /// information shows the first, and a boot with such an image the second.
    fn product(&self) -> Result<Counted> {
        let (kernel, programs, _) = built(&self.built, Arch::X86_64)?;
        let injecting = programs.root_task(self.project, kernel, true)?;
        ensure!(programs::injects(injecting), "the module of fault injection is not found where it is");
        let product = programs.root_task(self.project, kernel, false)?;
        ensure!(!programs::injects(product), "the product's root task has fault injection");
        let programs = programs.with_product_alone(product);
        let runner = model::runner(self.project, kernel, &programs);
        let results = runner.run(&self.project.scenario(WITH_KILL_ORDERS)?, Options::default())?;
        let reasons = results.reasons.join("; ");
        ensure!(
            reasons.contains("built without fault injection"),
            "the product's root task refuses no kill order: {reasons}"
        );
        Ok(Counted::one())
    }

    /// Runs a scenario on the simulator's controllers, if there is a QEMU for them.
    fn on_model(&self, name: &str) -> Result<Counted> {
        if vfio_user::installed(self.project)?.is_none() {
            ensure!(!is_ci(), vfio_user::MISSING);
            return Ok(Counted { skipped: Some(vfio_user::MISSING.to_owned()), ..Counted::default() });
        }
        self.scenario(built(&self.built, Arch::X86_64)?, name, Device::Model)
    }

    /// Lets a scheduler make the parts of a soak and a sweep, if it is installed.
    fn scale(&self, scheduler: scale::Scheduler) -> Result<Counted> {
        if let Some(missing) = scheduler.missing() {
            ensure!(!is_ci(), missing);
            return Ok(Counted { skipped: Some(missing.to_owned()), ..Counted::default() });
        }
        scheduler.check(self.project)
    }

    /// Lets Linux check the model, if there is a guest for it.
    fn linux(&self, check: &LinuxCheck) -> Result<Counted> {
        let tools = match linux::tools(self.project) {
            Ok(tools) => tools,
            Err(error) if is_ci() => return Err(error),
            Err(error) => return Ok(Counted { skipped: Some(format!("{error:#}")), ..Counted::default() }),
        };
        check.run(self.project, &tools)
    }

    /// Runs nvme-cli on the model, if it is installed.
    fn nvme_cli(&self, row: nvme::rows::Row) -> Result<Counted> {
        if program::installed().is_none() {
            ensure!(!is_ci(), program::MISSING);
            return Ok(Counted { skipped: Some(program::MISSING.to_owned()), ..Counted::default() });
        }
        row.check(self.project)
    }

    /// Opens the page of a running system, if a browser is installed.
    fn browser(&self, row: browser::Row) -> Result<Counted> {
        if !browser::is_installed() {
            ensure!(!is_ci(), browser::MISSING);
            return Ok(Counted { skipped: Some(browser::MISSING.to_owned()), ..Counted::default() });
        }
        row.check(self.project)
    }

    /// Runs a scenario that measures nothing. If its timed events did not meet the load that they are about, it is repeated once
    /// with more time, unless people see it first.
    fn unmeasured(&self, (kernel, programs, _): &Built, name: &str, device: Device) -> Result<Counted> {
        let runner = model::runner(self.project, kernel, programs);
        let file = self.project.scenario(name)?;
        let scenario = Scenario::load(&file)?;
        let options = Options { device, not_judged: self.not_judged, ..Options::default() };
        let mut results = runner.run(&file, options)?;
        let mut first = None;
        if results.failed() && !NEVER_REPEATED.contains(&name) && verdict::may_repeat(&scenario, &results) {
            first = Some(results.reasons.join("; "));
            results = runner.run(&file, Options { longer: true, ..options })?;
        }
        let failed = results.failed();
        let not_judged = results.not_judged;
        if results.passed {
            return Ok(Counted { not_judged, unsteady: first, ..Counted::one() });
        }
        if !failed {
            let skipped = format!("not promised: the kernel lacks {}", results.not_promised.join(", "));
            return Ok(Counted { skipped: Some(skipped), ..Counted::default() });
        }
        let reason = format!("{}; the log is {}/log", results.reasons.join("; "), results.folder);
        Ok(Counted { failed: vec![reason], not_judged, ..Counted::default() })
    }
}

/// Installs what a person's machine may lack, where every test must run. Each test that needs it fails without it.
fn install_for_ci(project: &Project, consent: Consent, cases: &[TestCase]) {
    let has = |kind: fn(&TestCase) -> bool| is_ci() && cases.iter().any(kind);
    let note = |error: &anyhow::Error| out::note(format_args!("{error:#}"));
    if has(|case| matches!(case, TestCase::Scale(_))) {
        let _ = setup::prepare_schedulers(consent).inspect_err(note);
    }
    if has(|case| matches!(case, TestCase::NvmeCli(_))) {
        let _ = setup::prepare_nvme_cli(consent).inspect_err(note);
    }
    if has(|case| matches!(case, TestCase::Browser(_))) {
        let _ = setup::prepare_browser(consent).inspect_err(note);
    }
    if has(|case| matches!(case, TestCase::Model(_) | TestCase::Linux(_)))
        && vfio_user::install(project).inspect_err(note).is_ok()
        && has(|case| matches!(case, TestCase::Linux(_)))
    {
        let _ = linux_guest::install(project).inspect_err(note);
    }
}

/// Builds the kernels and programs that these tests boot, and the instruction counter.
fn build_programs(project: &Project, cases: &[TestCase]) -> Result<Vec<Built>> {
    let needed = |arch: &Arch| cases.iter().any(|case| case.needs_programs() == Some(*arch));
    let kernel_of = |arch| setup::build_kernel(project, &BuildOptions { arch, ..BuildOptions::default() });
    let kernels = Arch::ALL.into_iter().filter(needed).map(kernel_of).collect::<Result<Vec<_>>>()?;
    let programs = if kernels.is_empty() { Vec::new() } else { programs::build_each(project, &kernels, "info")? };
    let with_plugin = |(kernel, programs): (Kernel, Programs)| {
        // Now, because no build should run beside systems.
        for injects in [false, true] {
            programs.root_task(project, &kernel, injects)?;
        }
        Ok((kernel, programs, Plugins::compile(project)?))
    };
    kernels.into_iter().zip(programs).map(with_plugin).collect()
}

/// Builds programs and the instruction counter for the installed kernels that these tests need.
fn build_for_installed(
    project: &Project,
    consent: Consent,
    chosen: &ChosenKernel,
    cases: &[TestCase],
) -> Result<Vec<Built>> {
    let is_on = |case: &TestCase, arch: Arch| match case {
        TestCase::Installed(_, of) | TestCase::InstalledConformance(_, of) => *of == arch,
        _ => false,
    };
    let needs = |arch: &Arch| cases.iter().any(|case| is_on(case, *arch));
    let build = |arch| {
        let kernel = chosen_kernel::prepare(project, consent, &chosen.options(arch)?)?;
        for case in cases {
            if let TestCase::Installed(name, of) = case
                && *of == arch
            {
                chosen_kernel::suits(&kernel, &Scenario::load(project.scenario(name)?)?)?;
            }
        }
        let programs = programs::build(project, &kernel, "info", None)?;
        Ok((kernel, programs, Plugins::compile(project)?))
    };
    Arch::ALL.into_iter().filter(needs).map(build).collect()
}

/// Whether this runs on a machine of continuous integration, where every test must run.
fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true")
}

/// A kernel, the programs for it, and the instruction counter.
type Built = (Kernel, Programs, Plugins);

/// The builds of an architecture.
fn built(all: &[Built], arch: Arch) -> Result<&Built> {
    all.iter().find(|(kernel, ..)| kernel.arch == arch).context("the programs for seL4 are not built")
}

/// Simulates random systems with random faults; each run must pass.
fn soaked() -> Result<Counted> {
    let tally = seeds::each(0..SOAK_SEEDS, None, soak::one, |_| {});
    let sentence = |failure: &Failure| {
        format!("{}; see: cargo xtask soak --from {} --count 1", failure.reasons.join("; "), failure.seed)
    };
    let failed: Vec<_> = tally.failures.iter().map(sentence).collect();
    Ok(Counted { passed: tally.runs - failed.len() as u64, failed, ..Counted::default() })
}

/// Runs the fuzz targets. Each passes if it finds nothing or, with planted defects, if it finds its own.
fn fuzzed(project: &Project, subject: fuzz::Subject) -> Result<Counted> {
    let mut counted = Counted::default();
    let targets = fuzz::targets(project)?;
    let (time, jobs) = match subject {
        // It ends its search early; a busy machine gets more time to find it.
        fuzz::Subject::Planted => (FUZZ_TIME * 3, None),
        // All at once, each with its part of the processors: one after the other, an odd number leaves some idle at the end.
        fuzz::Subject::Real => {
            let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
            let share = (targets.len() as f64 / processors as f64).max(1.0);
            (FUZZ_TIME.mul_f64(share), NonZeroUsize::new(targets.len()))
        }
    };
    for searched in fuzz::search(project, &targets, time, FUZZ_SEED, jobs, subject)? {
        let violations = fuzz::violations(&searched, subject);
        counted.passed += u64::from(violations.is_empty());
        counted.failed.extend(violations.into_iter().map(|wrong| format!("{}: {wrong}", searched.target)));
    }
    Ok(counted)
}

fn kernel_fix(project: &Project, name: FixName, arch: Arch) -> Result<Counted> {
    let logs = project.target_folder("kernel/regress")?;
    kernel::regress::check(project.root(), name, arch, &logs, &mut |_| {})?;
    Ok(Counted::one())
}

/// A test that `cargo test` alone leaves out, because it needs QEMU.
fn smmu(project: &Project) -> Result<Counted> {
    let output = cargo_in(project.root())
        // Without its package's name, which would build all that it needs with fewer features.
        .args(["test", "--quiet", "--test", "qemu", "--", "--ignored"])
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
    use std::fs;

    #[test]
    fn scenarios_that_the_readme_shows_are_never_repeated() {
        let readme = fs::read_to_string(Project::here().unwrap().path("README.md")).unwrap();
        let shown = readme.split("cargo xtask demo").skip(1).filter_map(|rest| rest.strip_prefix(' '));
        let names = shown.filter_map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next());
        let names: Vec<_> = names.filter(|name| !name.is_empty() && !name.starts_with("--")).collect();
        assert!(names.iter().all(|name| NEVER_REPEATED.contains(name)), "{names:?}");
    }
}
