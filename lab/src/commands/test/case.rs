//! The kinds of tests, and their names.

use super::running::SOAK_SEEDS;
use crate::commands::linux::LinuxCheck;
use crate::commands::{
    bad_input, browser, check, conformance, experiment, fuzz, guides, hang, nvme, scale, traced, watched,
};
use crate::simulate;
use capdl::Scenario;
use kernel::{Arch, FixName};
use std::fmt;
use xtask::project::Project;

/// A test, by its subject; `Display` writes its name.
pub(super) enum TestCase {
    Units,
    Check(check::Part),
    BadInput(&'static bad_input::Case),
    Scenario(String, Arch),
    /// A scenario on QEMU with the simulator's controllers.
    Model(String),
    /// A check of the model by Linux.
    Linux(LinuxCheck),
    Simulation(String, Arch, Seeds),
    /// A simulation with the rules of a released kernel.
    Stock(String, Arch),
    Found(String),
    Experiment(&'static experiment::One),
    Soak,
    Scale(scale::Scheduler),
    Fuzz(fuzz::Subject),
    NvmeCli(nvme::rows::Row),
    Hang,
    /// A running system is watched.
    Watched(watched::World),
    /// The page of a running system.
    Browser(browser::Row),
    /// Other programs read the traces of a system.
    Traced(traced::World),
    OwnProgram,
    Files,
    Guide(guides::Guide),
    Profile,
    Product,
    Conformance(conformance::Suite, Arch),
    KernelFix(FixName, Arch),
    Loader,
    Smmu,
    /// A scenario on the installed kernel.
    Installed(String, Arch),
    /// A suite of conformance on the installed kernel.
    InstalledConformance(conformance::Suite, Arch),
    /// The row that stands for these where no kernel is installed.
    NotInstalled,
}

impl TestCase {
    /// The architecture whose programs it runs, if it runs those of all scenarios.
    pub(super) const fn needs_programs(&self) -> Option<Arch> {
        match self {
            Self::Scenario(_, arch) => Some(*arch),
            Self::Model(_) | Self::Profile | Self::Product => Some(Arch::X86_64),
            _ => None,
        }
    }

    /// The test's demand on the build machine.
    pub(super) fn demand(&self, project: &Project) -> Demand {
        match self {
            Self::Scenario(name, _) | Self::Model(name) | Self::Installed(name, _) => {
                let load = || Scenario::load(project.scenario(name).ok()?).ok();
                match load() {
                    // The model's process takes a processor beside QEMU's.
                    Some(scenario) if scenario.expect.is_about_time() && matches!(self, Self::Model(_)) => Demand::All,
                    Some(scenario) if !scenario.expect.measured.is_empty() => Demand::Counted,
                    Some(scenario) if scenario.expect.is_about_time() => Demand::Quiet,
                    _ => Demand::Processor,
                }
            }
            // A search takes a fixed time; that for a planted defect ends when it is found.
            Self::Fuzz(fuzz::Subject::Real) => Demand::All,
            Self::Profile => Demand::Counted,
            Self::Linux(check) if !check.may_run_beside() => Demand::Build,
            // It counts the folders of runs.
            Self::BadInput(_) => Demand::NoRuns,
            Self::Linux(_) | Self::KernelFix(..) | Self::Conformance(..) => Demand::Processor,
            Self::NotInstalled | Self::InstalledConformance(..) => Demand::Processor,
            Self::Hang | Self::Files | Self::NvmeCli(_) => Demand::Processor,
            // Rates are judged, and the run is looked for among those that go on.
            Self::Watched(_) | Self::Browser(_) | Self::Traced(_) => Demand::Quiet,
            Self::Units | Self::Check(_) | Self::OwnProgram | Self::Guide(_) | Self::Product => Demand::Build,
            Self::Fuzz(fuzz::Subject::Planted) | Self::Scale(_) => Demand::Build,
            // Cargo builds them, and would wait for another build.
            Self::Loader | Self::Smmu => Demand::Build,
            // A program of a user's own is built first.
            Self::Simulation(name, ..) if !is_linked(project, name) => Demand::Build,
            Self::Simulation(..) | Self::Stock(..) | Self::Found(_) | Self::Experiment(_) | Self::Soak => {
                Demand::Patient
            }
        }
    }
}

/// A test's demand on the build machine, which has two processors or more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Demand {
    /// All processors all the time: nothing runs beside it.
    All,
    /// No folder of a run may be made meanwhile: nothing but another such test, and a patient one, runs beside it.
    NoRuns,
    /// Times are judged: nothing but another such test, and a patient one, runs beside it.
    Quiet,
    /// Instructions are counted: nothing but a patient one runs beside it.
    Counted,
    /// Processors that nobody else needs.
    Patient,
    /// A single processor.
    Processor,
    /// All processors, at least for a part of its time.
    Build,
}

/// Whether this program can simulate the scenario itself. Its test reports why a scenario cannot be read.
fn is_linked(project: &Project, name: &str) -> bool {
    let load = || Scenario::load(project.scenario(name).ok()?).ok();
    load().is_none_or(|scenario| !simulate::is_missing(&scenario))
}

impl fmt::Display for TestCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Units => f.write_str("unit tests on the build machine"),
            Self::Check(part) => write!(f, "check of {part}"),
            Self::BadInput(case) => write!(f, "bad input: {}", case.name),
            Self::Scenario(name, Arch::X86_64) => write!(f, "scenario {name}"),
            Self::Scenario(name, arch) => write!(f, "scenario {name} on {arch}"),
            Self::Model(name) => write!(f, "scenario {name} on the model"),
            Self::Linux(check) => write!(f, "linux: {check}"),
            Self::Simulation(name, Arch::X86_64, _) => write!(f, "simulation of {name}"),
            Self::Simulation(name, arch, _) => write!(f, "simulation of {name} on {arch}"),
            Self::Stock(name, Arch::X86_64) => write!(f, "simulation of {name} on the stock kernel"),
            Self::Stock(name, arch) => write!(f, "simulation of {name} on the stock kernel of {arch}"),
            Self::Found(name) => write!(f, "found: {name}"),
            Self::Experiment(one) => write!(f, "experiment {}", one.name),
            Self::Soak => write!(f, "soak of {SOAK_SEEDS} seeds"),
            Self::Scale(scheduler) => write!(f, "parts of a soak and a sweep by {}", scheduler.name()),
            Self::Fuzz(fuzz::Subject::Planted) => f.write_str("fuzz targets find what they plant"),
            Self::Fuzz(fuzz::Subject::Real) => f.write_str("fuzz targets"),
            Self::NvmeCli(row) => write!(f, "{row}"),
            Self::Hang => f.write_str(hang::NAME),
            Self::Watched(world) => write!(f, "{world}"),
            Self::Browser(row) => write!(f, "{row}"),
            Self::Traced(world) => write!(f, "{world}"),
            Self::OwnProgram => f.write_str("a program of one's own in both worlds"),
            Self::Files => f.write_str("files that a tenant wrote are read by mtools"),
            Self::Guide(guide) => write!(f, "{guide}"),
            Self::Profile => f.write_str("profile of a benchmark"),
            Self::Product => f.write_str("the product's root task lacks fault injection"),
            Self::Conformance(suite, Arch::X86_64) => write!(f, "conformance {suite}"),
            Self::Conformance(suite, arch) => write!(f, "conformance {suite} on {arch}"),
            Self::KernelFix(name, Arch::X86_64) => write!(f, "kernel fix {name}"),
            Self::KernelFix(name, arch) => write!(f, "kernel fix {name} on {arch}"),
            Self::Loader => f.write_str("loader of the AArch64 kernel"),
            Self::Smmu => f.write_str("the SMMU's driver on QEMU's SMMU"),
            Self::Installed(name, arch) => write!(f, "installed kernel: {name} on {arch}"),
            Self::InstalledConformance(suite, arch) => write!(f, "installed kernel: conformance {suite} on {arch}"),
            Self::NotInstalled => f.write_str("installed kernel"),
        }
    }
}

/// Seeds for the simulation of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seeds {
    /// The seed in the scenario's file.
    Own,
    /// Other seeds, too.
    Several,
}
