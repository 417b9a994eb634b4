//! The checks: each of `lab/linux/checks.toml` on each of its controllers, and the sweep.

use super::guest::{Run, Tools};
use super::sweep;
use crate::commands::counted::Counted;
use anyhow::{Context, Result};
use capdl::Scenario;
use serde::Deserialize;
use std::fmt;
use std::fs;
use xtask::project::Project;
use xtask::run::Device;

/// Folder of the checks, the jobs and the first process.
pub(super) const FOLDER: &str = "lab/linux";
/// The machine around a check's controller. A scenario has a tenant; here it is Linux that has the controller.
const MACHINE: &str = r#"
name = "linux"
description = "A machine for Linux."
machine = { memory = "1G" }

[[tenant]]
name = "linux"
queue_pairs = 1
depth = 1
extents = [{ first = 0, blocks = 8 }]
program.name = "bench"
program.config = {}
"#;
const CONTROLLER: &str = r#"name = "disk"
namespace = [{ size = "128M" }]
"#;

/// The file of checks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    check: Vec<Written>,
}

/// A check as it is written.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    jobs: Vec<String>,
    #[serde(default)]
    qemu: bool,
    #[serde(default)]
    full: bool,
    #[serde(default)]
    iommu: bool,
    #[serde(default)]
    kernel: String,
    #[serde(default)]
    only_linux: bool,
    #[serde(default)]
    controller: toml::Table,
}

/// A check on Linux; `Display` writes its name.
pub(crate) enum LinuxCheck {
    /// Jobs, on this controller.
    Jobs(Box<Jobs>, Device),
    /// All commands on both controllers, compared.
    Sweep,
}

/// Jobs that run one after the other in one guest, with their machine.
pub(crate) struct Jobs {
    name: String,
    scripts: Vec<String>,
    scenario: Scenario,
    kernel: String,
    only_linux: bool,
    is_full: bool,
}

impl LinuxCheck {
    /// Whether `cargo xtask test` leaves it out.
    pub(crate) const fn is_full(&self) -> bool {
        matches!(self, Self::Jobs(jobs, _) if jobs.is_full)
    }

    /// Whether the check keeps one processor busy, so that another may run beside it.
    pub(crate) const fn may_run_beside(&self) -> bool {
        matches!(self, Self::Jobs(..))
    }

    /// Runs it; it counts as one test.
    pub(crate) fn run(&self, project: &Project, tools: &Tools) -> Result<Counted> {
        let Self::Jobs(jobs, device) = self else { return sweep::run(project, tools) };
        let init = read(project, "init")?;
        let scripts = jobs.scripts.iter().map(|name| read_job(project, name));
        let script = scripts.collect::<Result<String>>()?;
        let run = Run {
            name: format!("{}-{}", jobs.name, device_name(*device)),
            scenario: &jobs.scenario,
            device: *device,
            kernel: &jobs.kernel,
            only_linux: jobs.only_linux,
            counter: None,
            files: &[("init", init.as_bytes()), ("job", script.as_bytes())],
        };
        let reports = run.reports(project, tools)?;
        Ok(counted(reports.failures(), reports.unsteady().cloned()))
    }
}

impl fmt::Display for LinuxCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jobs(jobs, device) => write!(f, "{} on {}", jobs.name, device_name(*device)),
            Self::Sweep => f.write_str("sweep of commands"),
        }
    }
}

/// Result of one test with these failures.
pub(super) fn counted(failed: Vec<String>, unsteady: Option<String>) -> Counted {
    Counted { passed: u64::from(failed.is_empty()), failed, unsteady, ..Counted::default() }
}

const fn device_name(device: Device) -> &'static str {
    match device {
        Device::Qemu => "qemu",
        Device::Model => "model",
    }
}

/// All checks, in their order.
///
/// # Errors
/// A file that cannot be read, or has something else.
pub(crate) fn all(project: &Project) -> Result<Vec<LinuxCheck>> {
    let text = read(project, "checks.toml")?;
    let file: File = toml::from_str(&text).with_context(|| format!("{FOLDER}/checks.toml"))?;
    let mut checks = vec![LinuxCheck::Sweep];
    for written in file.check {
        let devices = if written.qemu { &[Device::Model, Device::Qemu][..] } else { &[Device::Model] };
        for device in devices {
            checks.push(LinuxCheck::Jobs(Box::new(written.clone().jobs()?), *device));
        }
    }
    Ok(checks)
}

impl Written {
    fn jobs(self) -> Result<Jobs> {
        let scenario = scenario(self.iommu, self.controller).with_context(|| format!("check {}", self.name))?;
        Ok(Jobs {
            name: self.name,
            scripts: self.jobs,
            scenario,
            kernel: self.kernel,
            only_linux: self.only_linux,
            is_full: self.full,
        })
    }
}

/// A machine with this controller; what it leaves out is as in [`CONTROLLER`].
pub(super) fn scenario(iommu: bool, controller: toml::Table) -> Result<Scenario> {
    let mut machine: toml::Table = toml::from_str(MACHINE)?;
    let mut whole: toml::Table = toml::from_str(CONTROLLER)?;
    whole.extend(controller);
    machine.insert("controller".to_owned(), vec![toml::Value::Table(whole)].into());
    if let Some(toml::Value::Table(machine)) = machine.get_mut("machine") {
        machine.insert("iommu".to_owned(), iommu.into());
    }
    Ok(Scenario::parse(&toml::to_string(&machine)?, "checks.toml")?)
}

/// A file of the folder.
pub(super) fn read(project: &Project, name: &str) -> Result<String> {
    fs::read_to_string(project.path(FOLDER).join(name)).with_context(|| format!("cannot read {FOLDER}/{name}"))
}

/// The script of a job.
pub(super) fn read_job(project: &Project, name: &str) -> Result<String> {
    read(project, &format!("jobs/{name}.sh"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_check_has_a_name_of_its_own_and_jobs_that_exist() {
        let project = Project::here().unwrap();
        let checks = all(&project).unwrap();
        let names: BTreeSet<_> = checks.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), checks.len());
        for check in &checks {
            if let LinuxCheck::Jobs(jobs, _) = check {
                jobs.scripts.iter().for_each(|name| drop(read_job(&project, name).unwrap()));
            }
        }
    }

    #[test]
    fn a_controller_keeps_the_defaults_that_it_does_not_name() {
        let small = toml::from_str("model = { queue_entries = 2 }").unwrap();
        let scenario = scenario(true, small).unwrap();
        let controller = &scenario.controllers[0];
        assert_eq!((controller.model.queue_entries, controller.namespaces[0].size), (2, 128 << 20));
        assert!(scenario.machine.iommu);
    }
}
