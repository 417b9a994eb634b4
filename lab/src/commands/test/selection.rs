//! Lists all tests, and selects those of a run.

use super::case::{Seeds, TestCase};
use crate::commands::{
    bad_input, browser, check, conformance, experiment, fuzz, guides, linux, nvme, scale, traced, watched,
};
use anyhow::{Result, ensure};
use capdl::Scenario;
use kernel::Arch;
use xtask::project::Project;
use xtask::run::{self, Device};
use xtask::setup::chosen_kernel::ChosenKernel;

/// Names of scenarios, by where they run.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// In the simulator.
    simulated: Vec<String>,
    /// In the simulator, as an AArch64 machine.
    simulated_on_arm: Vec<String>,
    /// On QEMU.
    on_qemu: Vec<String>,
    /// On QEMU, as an AArch64 machine.
    on_arm: Vec<String>,
    /// On QEMU with the simulator's controllers: those that QEMU's own cannot run.
    on_model: Vec<String>,
    /// In the simulator: scenarios that the soak found.
    found: Vec<String>,
    /// Architectures for which the user installed a kernel.
    installed: Vec<Arch>,
}

/// Scenarios that run on an installed kernel: what people see first, what depends on the kernel's guarantees, and the cost of a call.
const ON_INSTALLED: [&str; 13] = [
    "boot",
    "demo",
    "probe-dma",
    "probe-revoke",
    "server-killed",
    "pci-server-killed",
    "client-killed",
    "functions",
    "functions-killed",
    "functions-revoked",
    "interrupts-change",
    "hostile-processor",
    "bench-ipc-call",
];

/// Scenarios that are simulated with the rules of a released kernel: what they change, and what must work all the same.
const ON_STOCK: [&str; 10] = [
    "boot",
    "demo",
    "server-killed",
    "pci-server-killed",
    "client-killed",
    "functions-revoked",
    "functions-hostile-calls",
    "functions-hostile-revoked",
    "probe-dma",
    "probe-revoke",
];

/// Scenarios that are simulated with these rules on AArch64, too.
const ON_STOCK_ARM: [&str; 3] = ["boot", "demo", "server-killed"];

impl Names {
    /// The scenarios of the project.
    pub(super) fn of(project: &Project, kernel: &ChosenKernel) -> Result<Self> {
        let all = project.scenarios()?;
        let on_pc = suiting(project, &all, Arch::X86_64);
        let on_arm = on_qemu(project, suiting(project, &all, Arch::Aarch64));
        let on_model = on_pc.iter().filter(|name| is_simulators_alone(project, name));
        let on_model = on_model.filter(|name| is_on_model(project, name)).cloned().collect();
        Ok(Self {
            on_model,
            simulated: with_iommu(project, on_pc.clone()),
            simulated_on_arm: with_iommu(project, on_arm.clone()),
            on_qemu: on_qemu(project, on_pc),
            on_arm,
            found: project.found()?,
            installed: kernel.architectures()?,
        })
    }
}

/// The scenarios that a machine can run. One that cannot be read stays among the PC's, so that its test reports the error.
fn suiting(project: &Project, names: &[String], arch: Arch) -> Vec<String> {
    let load = |name: &str| Scenario::load_for(project.scenario(name).ok()?, Some(arch)).ok();
    let has_machine = |scenario: Scenario| run::has_machine(&scenario, &scenario.name, arch).is_ok();
    let can = |name: &&String| load(name).map_or(arch == Arch::X86_64, has_machine);
    names.iter().filter(can).cloned().collect()
}

/// The scenarios that QEMU can run with its own controllers; some need the simulator's.
fn on_qemu(project: &Project, names: Vec<String>) -> Vec<String> {
    names.into_iter().filter(|name| !is_simulators_alone(project, name)).collect()
}

fn is_simulators_alone(project: &Project, name: &str) -> bool {
    let load = || Scenario::load(project.scenario(name).ok()?).ok();
    load().is_some_and(|scenario| scenario.is_simulators_alone())
}

/// Whether QEMU can run the scenario with the simulator's controllers. One that cannot be read stays, as above.
fn is_on_model(project: &Project, name: &str) -> bool {
    let load = || Scenario::load(project.scenario(name).ok()?).ok();
    load().is_none_or(|scenario| run::suits(&scenario, &scenario.name, Arch::X86_64, Device::Model).is_ok())
}

/// The scenarios that the simulator can run: those with an IOMMU.
fn with_iommu(project: &Project, names: Vec<String>) -> Vec<String> {
    let load = |name: &str| Scenario::load(project.scenario(name).ok()?).ok();
    names.into_iter().filter(|name| load(name).is_none_or(|scenario| scenario.machine.iommu)).collect()
}

/// The scenario of thirty floods. Its least rate is that of the PC; costs of the AArch64 machine are higher.
const LEAGUE: &str = "hostile-league";

/// Whether the scenario is one attacker's last act, which the soak draws too, on both machines and in less time. The soak does
/// not draw the forbidden instructions, nor measure the throughput that thirty floods leave to an honest tenant.
fn is_drawn_by_soak(name: &str) -> bool {
    name.starts_with("hostile-") && !["hostile-processor", LEAGUE].contains(&name)
}

/// Extent of a test run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// All tests.
    Whole,
    /// Tests that take little time; together they run every component.
    Quick,
}

impl Scope {
    fn has(self, case: &TestCase) -> bool {
        match (self, case) {
            (Self::Whole, _) | (Self::Quick, TestCase::Units | TestCase::Check(_)) => true,
            (Self::Quick, TestCase::Simulation(_, arch, _)) => *arch == Arch::X86_64,
            (Self::Quick, TestCase::Scenario(name, arch)) => name == "demo" && *arch == Arch::X86_64,
            (Self::Quick, _) => false,
        }
    }
}

/// The tests with `only` in their names, in the order in which they run.
pub(super) fn chosen(names: &Names, linux: Vec<linux::LinuxCheck>, scope: Scope, only: &str) -> Result<Vec<TestCase>> {
    let checks = check::Part::ALL.into_iter().map(TestCase::Check);
    let inputs = bad_input::cases().map(TestCase::BadInput);
    // The soak draws enough seeds for its own attackers.
    let seeds = |name: &str| if scope == Scope::Quick || is_drawn_by_soak(name) { Seeds::Own } else { Seeds::Several };
    let simulation = |name: &String| TestCase::Simulation(name.clone(), Arch::X86_64, seeds(name));
    let simulations = names.simulated.iter().map(simulation);
    let as_arm = names.simulated_on_arm.iter().filter(|name| !is_drawn_by_soak(name) && *name != LEAGUE).cloned();
    // Their other seeds are drawn on one machine; the soak draws both.
    let as_arm = as_arm.map(|name| TestCase::Simulation(name, Arch::Aarch64, Seeds::Own));
    let on_stock = ON_STOCK.into_iter().filter(|name| names.simulated.iter().any(|one| one == name));
    let on_stock = on_stock.map(|name| TestCase::Stock(name.to_owned(), Arch::X86_64));
    let as_stock_arm = ON_STOCK_ARM.into_iter().filter(|name| names.simulated_on_arm.iter().any(|one| one == name));
    let as_stock_arm = as_stock_arm.map(|name| TestCase::Stock(name.to_owned(), Arch::Aarch64));
    let found = names.found.iter().cloned().map(TestCase::Found);
    let scenarios = names.on_qemu.iter().cloned().map(|name| TestCase::Scenario(name, Arch::X86_64));
    let on_arm = names.on_arm.iter().cloned().map(|name| TestCase::Scenario(name, Arch::Aarch64));
    let on_model = names.on_model.iter().cloned().map(TestCase::Model);
    let suites =
        Arch::ALL.into_iter().flat_map(|arch| conformance::Suite::ALL.map(|suite| TestCase::Conformance(suite, arch)));
    let fixes = kernel::regress::all().map(|(name, arch)| TestCase::KernelFix(name, arch));
    let all = std::iter::once(TestCase::Units)
        .chain(checks)
        .chain(inputs)
        .chain(simulations)
        .chain(as_arm)
        .chain(on_stock)
        .chain(as_stock_arm)
        .chain(found)
        .chain(experiment::ALL.iter().map(TestCase::Experiment))
        .chain(scale::Scheduler::ALL.map(TestCase::Scale))
        .chain([TestCase::Soak, TestCase::Fuzz(fuzz::Subject::Planted), TestCase::Fuzz(fuzz::Subject::Real)])
        .chain(scenarios)
        .chain(on_arm)
        .chain(on_model)
        .chain(linux.into_iter().filter(|check| !check.is_full()).map(TestCase::Linux))
        .chain(nvme::rows::all().map(TestCase::NvmeCli))
        .chain(watched::World::ALL.map(TestCase::Watched))
        .chain(browser::ALL.map(TestCase::Browser))
        .chain(traced::World::ALL.map(TestCase::Traced))
        .chain([TestCase::Hang, TestCase::OwnProgram, TestCase::Files, TestCase::Profile, TestCase::Product])
        .chain(guides::Guide::ALL.map(TestCase::Guide))
        .chain(suites)
        .chain(fixes)
        .chain([TestCase::Loader, TestCase::Smmu])
        .chain(on_installed(names));
    let chosen: Vec<_> = all.filter(|case| scope.has(case) && case.to_string().contains(only)).collect();
    ensure!(
        !chosen.is_empty(),
        "no test has '{only}' in its name: give a part of one such as 'unit tests', 'check', 'bad input', 'scenario \
         demo' or 'kernel fix'"
    );
    Ok(chosen)
}

/// The tests on installed kernels, or the one that says that there is none.
fn on_installed(names: &Names) -> Vec<TestCase> {
    if names.installed.is_empty() {
        return vec![TestCase::NotInstalled];
    }
    let of = |arch: Arch| {
        let there = if arch == Arch::X86_64 { &names.on_qemu } else { &names.on_arm };
        let scenarios = ON_INSTALLED.into_iter().filter(|name| there.iter().any(|one| one == name));
        let scenarios = scenarios.map(move |name| TestCase::Installed(name.to_owned(), arch));
        scenarios.chain(conformance::Suite::ALL.map(|suite| TestCase::InstalledConformance(suite, arch)))
    };
    names.installed.iter().copied().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &str) -> Vec<String> {
        names_in(Scope::Whole, only)
    }

    fn names_in(scope: Scope, only: &str) -> Vec<String> {
        let simulated = vec!["boot".to_owned(), "demo".to_owned()];
        let on_arm = vec!["boot".to_owned(), "hostile-close".to_owned()];
        let names = Names {
            on_qemu: simulated.clone(),
            simulated_on_arm: on_arm.clone(),
            on_arm,
            found: simulated.clone(),
            on_model: vec!["wrr".to_owned()],
            installed: vec![Arch::Aarch64],
            simulated,
        };
        let linux = linux::all(&Project::here().unwrap()).unwrap();
        chosen(&names, linux, scope, only).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_part_of_a_name_chooses_the_tests_that_have_it() {
        assert_eq!(names("unit tests"), ["unit tests on the build machine"]);
        assert_eq!(names("scenario demo"), ["scenario demo"]);
        assert_eq!(names("hostile-close on aarch64"), ["scenario hostile-close on aarch64"]);
        let on_arm = ["simulation of boot on aarch64", "scenario boot on aarch64", "installed kernel: boot on aarch64"];
        assert_eq!(names("boot on aarch64"), on_arm);
        let on_stock = ["boot on the stock kernel", "demo on the stock kernel", "boot on the stock kernel of aarch64"];
        assert_eq!(names("on the stock kernel"), on_stock.map(|name| format!("simulation of {name}")));
        assert_eq!(names("check of").len(), check::Part::ALL.len());
        assert_eq!(names("bad input").len(), bad_input::cases().count());
        let all = names("");
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "no two tests have one name");
    }

    #[test]
    fn quick_simulates_all_scenarios_and_runs_the_demo() {
        assert_eq!(names_in(Scope::Quick, "demo"), ["simulation of demo", "scenario demo"]);
        assert_eq!(names_in(Scope::Quick, "boot"), ["simulation of boot"]);
        assert_eq!(names_in(Scope::Quick, "unit tests").len(), 1);
        assert!(chosen(&Names::default(), Vec::new(), Scope::Quick, "soak").is_err());
    }

    #[test]
    fn every_scenario_runs_and_some_only_in_the_simulator() {
        let project = Project::here().unwrap();
        let names = Names::of(&project, &ChosenKernel::default()).unwrap();
        for name in project.scenarios().unwrap() {
            let all = [&names.simulated, &names.simulated_on_arm, &names.on_qemu, &names.on_arm, &names.on_model];
            assert!(all.iter().any(|run| run.contains(&name)), "nobody runs {name}");
        }
        let wrr = "wrr".to_owned();
        assert!(names.simulated.contains(&wrr) && names.on_model.contains(&wrr) && !names.on_qemu.contains(&wrr));
    }

    #[test]
    fn scenarios_of_the_stock_kernel_are_simulated() {
        let names = Names::of(&Project::here().unwrap(), &ChosenKernel::default()).unwrap();
        assert!(ON_STOCK.iter().all(|name| names.simulated.iter().any(|one| one == name)));
    }

    #[test]
    fn a_name_that_no_test_has_is_refused() {
        let error = chosen(&Names::default(), Vec::new(), Scope::Whole, "typo").err().unwrap().to_string();
        assert!(error.starts_with("no test has 'typo' in its name"), "{error}");
    }
}
