//! `cargo xtask scenarios`: lists the scenarios, with what each shows and where it runs.

use crate::out;
use crate::project::Project;
use crate::run::{self, Device};
use anyhow::{Result, ensure};
use capdl::Scenario;
use clap::Args;
use kernel::Arch;
use std::process::ExitCode;
use textwrap::Options;

/// Columns of the list, at most.
const WIDTH: usize = 80;
const INDENT: &str = "    ";

/// Selection of the scenarios.
#[derive(Debug, Args)]
pub(crate) struct Scenarios {
    /// Only those whose name or description contains this
    #[arg(default_value = "")]
    only: String,
}

/// Prints the scenarios in the order of their names.
pub(crate) fn run(project: &Project, scenarios: &Scenarios) -> Result<ExitCode> {
    let load = |name: &String| Ok(Scenario::load(project.scenario(name)?)?);
    let all = project.scenarios()?.iter().map(load).collect::<Result<Vec<_>>>()?;
    let has = |one: &&Scenario| [&one.name, &one.description].iter().any(|text| text.contains(&scenarios.only));
    let chosen: Vec<_> = all.iter().filter(has).collect();
    let of = all.len();
    ensure!(!chosen.is_empty(), "none of {of} scenarios has '{}' in its name or description", scenarios.only);
    chosen.iter().try_for_each(|scenario| out::line(format_args!("{}", entry(scenario))))?;
    out::line(format_args!("{} of {of} scenarios; run one with: cargo xtask demo NAME, or sim NAME", chosen.len()))?;
    Ok(ExitCode::SUCCESS)
}

/// A scenario's name, the places where it runs, and its description.
fn entry(scenario: &Scenario) -> String {
    let description = scenario.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let indented = Options::new(WIDTH).initial_indent(INDENT).subsequent_indent(INDENT);
    let places = places(scenario).join(", ");
    format!("{}  [{places}]\n{}\n", scenario.name, textwrap::fill(&description, indented))
}

/// The commands that run a scenario.
fn places(scenario: &Scenario) -> Vec<String> {
    let runs = |arch, device| {
        run::has_machine(scenario, &scenario.name, arch).is_ok()
            && run::suits(scenario, &scenario.name, arch, device).is_ok()
    };
    let on_qemu = Arch::ALL.into_iter().filter(|arch| runs(*arch, Device::Qemu));
    let mut places: Vec<_> = on_qemu.map(|arch| format!("demo --arch {}", arch.name())).collect();
    if runs(Arch::X86_64, Device::Model) {
        places.push("demo --device model".to_owned());
    }
    if scenario.machine.iommu {
        places.push("sim".to_owned());
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project_entry(name: &str) -> String {
        let project = Project::here().unwrap();
        entry(&Scenario::load(project.scenario(name).unwrap()).unwrap())
    }

    #[test]
    fn an_entry_says_where_the_scenario_runs_and_what_it_shows() {
        let expected = "boot  [demo --arch x86_64, demo --arch aarch64, demo --device model, sim]\n    \
            The smallest system: one controller behind a root port, one tenant that\n    \
            writes, reads back and verifies.\n";
        assert_eq!(project_entry("boot"), expected);
        assert!(project_entry("interrupts-msi").starts_with("interrupts-msi  [demo --device model, sim]\n"));
    }
}
