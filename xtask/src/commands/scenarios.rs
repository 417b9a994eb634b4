//! `cargo xtask scenarios`: lists the scenarios, with what each shows and where it runs.

use crate::out;
use crate::project::Project;
use crate::run::{self, Device};
use anyhow::{Result, ensure};
use capdl::Scenario;
use clap::Args;
use kernel::Arch;
use std::path::Path;
use std::process::ExitCode;
use textwrap::Options;

const INDENT: &str = "    ";

/// Selection of the scenarios.
#[derive(Debug, Args)]
pub struct Scenarios {
    /// Only those whose name or description contains this
    #[arg(default_value = "")]
    only: String,
}

/// Prints the scenarios in the order of their names.
pub fn run(project: &Project, scenarios: &Scenarios) -> Result<ExitCode> {
    let load = |name: &String| Ok(Scenario::load(project.scenario(name)?)?);
    let all = project.scenarios()?.iter().map(load).collect::<Result<Vec<_>>>()?;
    let has = |one: &&Scenario| [&one.name, &one.description].iter().any(|text| text.contains(&scenarios.only));
    let chosen: Vec<_> = all.iter().filter(has).collect();
    let of = all.len();
    ensure!(!chosen.is_empty(), "none of {of} scenarios has '{}' in its name or description", scenarios.only);
    chosen.iter().try_for_each(|scenario| out::line(format_args!("{}", entry(project, scenario, out::columns())?)))?;
    out::line(format_args!("{} of {of} scenarios; run one with: cargo xtask demo NAME, or sim NAME", chosen.len()))?;
    Ok(ExitCode::SUCCESS)
}

/// A scenario's name, the places where it runs, and its description.
fn entry(project: &Project, scenario: &Scenario, columns: usize) -> Result<String> {
    let description = scenario.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let indented = Options::new(columns).initial_indent(INDENT).subsequent_indent(INDENT);
    let places = places(&project.scenario(&scenario.name)?, scenario).join(", ");
    Ok(format!("{}  [{places}]\n{}\n", scenario.name, textwrap::fill(&description, indented)))
}

/// The commands that run the scenario of a file. Each machine has its own limits, so the file is read for each.
fn places(file: &Path, scenario: &Scenario) -> Vec<String> {
    let runs = |arch, device| {
        let on_arch = Scenario::load_for(file, Some(arch));
        on_arch.is_ok_and(|scenario| run::suits(&scenario, &scenario.name, arch, device).is_ok())
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

    fn project_entry(name: &str, columns: usize) -> String {
        let project = Project::here().unwrap();
        entry(&project, &Scenario::load(project.scenario(name).unwrap()).unwrap(), columns).unwrap()
    }

    #[test]
    fn an_entry_says_where_the_scenario_runs_and_what_it_shows() {
        let expected = "boot  [demo --arch x86_64, demo --arch aarch64, demo --device model, sim]\n    \
            The smallest system: one controller behind a root port, one tenant that\n    \
            writes, reads back and verifies.\n";
        assert_eq!(project_entry("boot", 80), expected);
        assert_eq!(project_entry("boot", 140).lines().count(), 2);
        let boot = Project::here().unwrap().scenario("boot").unwrap();
        let large = std::fs::read_to_string(boot).unwrap() + "\n[machine]\nmemory = \"2G\"\n";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("large.toml");
        std::fs::write(&file, large).unwrap();
        let places = places(&file, &Scenario::load(&file).unwrap());
        assert_eq!(places, ["demo --arch x86_64", "demo --device model", "sim"]);
        assert!(project_entry("interrupts-msi", 80).starts_with("interrupts-msi  [demo --device model, sim]\n"));
    }
}
