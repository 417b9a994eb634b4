//! Runs an experiment's systems: in the simulator or on QEMU, one after the other; each scenario is kept as a file.

use super::World;
use super::variant::Variant;
use crate::image::programs;
use crate::image::programs::Programs;
use crate::progress::Step;
use crate::project::{Project, write_whole};
use crate::records::results::Results;
use crate::run::simulate::{RunInput, Simulated, simulate};
use crate::run::{Options, Runner};
use crate::setup;
use crate::setup::packages::Consent;
use anyhow::{Context, Result, ensure};
use capdl::Scenario;
use kernel::{BuildOptions, Kernel};
use report::Load;
use sim::marker;
use std::path::{Path, PathBuf};

/// Folder and platform of one experiment.
pub(crate) struct Lab<'a> {
    project: &'a Project,
    folder: PathBuf,
    /// On QEMU: the kernel and the programs.
    qemu: Option<(Kernel, Programs)>,
    step: Step,
}

impl<'a> Lab<'a> {
    /// Makes a place for the experiment `name`, and prepares everything that its platform needs.
    pub(crate) fn new(project: &'a Project, name: &str, world: World, yes: bool) -> Result<Self> {
        let folder = project.target_folder(&format!("experiments/{name}"))?;
        let qemu = match world {
            World::Simulator => None,
            World::Qemu(arch) => {
                let consent = if yes { Consent::Given } else { Consent::NotAsked };
                let kernel = setup::prepare(project, consent, &BuildOptions { arch, ..BuildOptions::default() })?;
                let programs = programs::build(project, &kernel, "info", None)?;
                Some((kernel, programs))
            }
        };
        Ok(Self { project, folder, qemu, step: Step::new(format!("experiment '{name}'")) })
    }

    /// The project.
    pub(crate) const fn project(&self) -> &Project {
        self.project
    }

    /// Folder of data, picture and scenarios.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Platform of the systems.
    pub(crate) fn world(&self) -> World {
        self.qemu.as_ref().map_or(World::Simulator, |(kernel, _)| World::Qemu(kernel.arch))
    }

    /// Shows the current part of the experiment.
    pub(crate) fn say(&self, what: &str) {
        self.step.tick(what);
    }

    /// Runs a system in the simulator, which must pass. Returns the time between the two markers of its only measurement.
    pub(crate) fn measure(&self, point: &str, variant: &Variant) -> Result<Measured> {
        let Simulated { results, account } = simulated(&self.keep(point, variant)?)?;
        self.must_pass(point, &results)?;
        let mark =
            |id| account.marks.iter().find(|mark| mark.id == id).with_context(|| format!("{point}: no marker {id}"));
        let (begin, end) = (mark(marker::BEGIN)?, mark(marker::END)?);
        let ns = end.at_ns.saturating_sub(begin.at_ns);
        Ok(Measured { ns, busy_ns: ns.saturating_sub(end.idle_ns.saturating_sub(begin.idle_ns)) })
    }

    /// Runs a system, which must pass, and keeps its scenario as `<point>.toml`.
    pub(crate) fn run(&self, point: &str, variant: &Variant) -> Result<Results> {
        let file = self.keep(point, variant)?;
        let results = match &self.qemu {
            None => simulated(&file)?.results,
            Some((kernel, programs)) => {
                let runner = Runner { project: self.project, kernel, programs };
                runner.run(&file, Options::default())?
            }
        };
        self.must_pass(point, &results)?;
        Ok(results)
    }

    /// Shows the point, and keeps its scenario.
    fn keep(&self, point: &str, variant: &Variant) -> Result<PathBuf> {
        self.say(point);
        let file = self.file(point);
        write_whole(&file, variant.text().as_bytes())?;
        Ok(file)
    }

    fn file(&self, point: &str) -> PathBuf {
        self.folder.join(format!("{point}.toml"))
    }

    fn must_pass(&self, point: &str, results: &Results) -> Result<()> {
        let shown = self.project.shown(&self.file(point));
        ensure!(results.passed, "the run of {shown} failed: {}", results.reasons.join("; "));
        Ok(())
    }
}

/// The time of a measurement, from its first marker to its last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Virtual time.
    pub(crate) ns: u64,
    /// The part of it in which the processor worked, for whichever component.
    pub(crate) busy_ns: u64,
}

fn simulated(file: &Path) -> Result<Simulated> {
    let scenario = &Scenario::load(file)?;
    simulate(RunInput { scenario, seed: scenario.seed, disk: None, show: None, step: None, folder: None })
}

/// Measurements of a tenant in a run.
pub(crate) fn load<'a>(results: &'a Results, tenant: &str) -> Result<&'a Load> {
    let found = results.tenants.iter().find(|load| load.tenant == tenant);
    found.with_context(|| format!("{tenant} measured nothing"))
}

/// Requests per second.
pub(crate) fn iops(load: &Load) -> f64 {
    (load.reads + load.writes) as f64 * 1e9 / load.elapsed_ns.max(1) as f64
}

/// Start and end of a tenant's load, as it reported them: nanoseconds of machine time.
pub(crate) fn time_of(results: &Results, tenant: &str) -> Result<(u64, u64)> {
    let own = || results.timeline.progress.iter().filter(|one| one.tenant == tenant);
    let ends = own().map(|one| one.since_ns).min().zip(own().map(|one| one.until_ns).max());
    ends.with_context(|| format!("{tenant} reported no progress"))
}

/// Requests per second of a tenant in a part of the run; an interval that is only partly inside counts in proportion.
pub(crate) fn iops_between(results: &Results, tenant: &str, (since_ns, until_ns): (u64, u64)) -> f64 {
    let own = results.timeline.progress.iter().filter(|one| one.tenant == tenant);
    let operations = own.map(|one| {
        let inside = one.until_ns.min(until_ns).saturating_sub(one.since_ns.max(since_ns));
        one.operations as f64 * inside as f64 / one.until_ns.saturating_sub(one.since_ns).max(1) as f64
    });
    operations.sum::<f64>() * 1e9 / until_ns.saturating_sub(since_ns).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Progress, clip};

    #[test]
    fn an_interval_counts_with_its_part() {
        let mut results = Results::default();
        results.timeline.progress = [(0, 100, 10), (100, 200, 20), (200, 300, 40)]
            .map(|(since_ns, until_ns, operations)| Progress {
                tenant: clip("a"),
                since_ns: since_ns * 1_000_000,
                until_ns: until_ns * 1_000_000,
                operations,
                ..Progress::default()
            })
            .into();
        assert_eq!(time_of(&results, "a").unwrap(), (0, 300_000_000));
        // A half of 10, all of 20, a quarter of 40.
        let iops = iops_between(&results, "a", (50_000_000, 225_000_000));
        assert!((iops - 35.0 / 0.175).abs() < 1e-6, "{iops}");
        assert!(time_of(&results, "b").is_err());
    }
}
