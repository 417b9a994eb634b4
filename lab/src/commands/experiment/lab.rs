//! Runs an experiment's systems: in the simulator, several at a time, or on QEMU, one after the other. The file `commands` has the
//! command of each.

use super::one::World;
use crate::combinations::Combinations;
use crate::model;
use crate::parallel;
use crate::simulate::{RunInput, Simulated, simulate};
use anyhow::{Context, Result, anyhow, ensure};
use kernel::{BuildOptions, Kernel};
use report::Load;
use sim::{Mark, marker};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use xtask::image::programs;
use xtask::image::programs::Programs;
use xtask::progress::Step;
use xtask::project::Project;
use xtask::records::results::Results;
use xtask::run::{Options, options};
use xtask::setup;
use xtask::setup::packages::Consent;

/// Folder and platform of one experiment.
pub(crate) struct Lab<'a> {
    project: &'a Project,
    /// File of the scenario.
    scenario: PathBuf,
    /// Command that runs it once, without settings.
    command: String,
    folder: PathBuf,
    /// On QEMU: the kernel and the programs.
    qemu: Option<(Kernel, Programs)>,
    /// File of the commands that repeat the runs.
    commands: File,
    step: Step,
}

impl<'a> Lab<'a> {
    /// Prepares everything that the experiment `name` needs on its platform, and its folder `target/experiments/<folder>/`.
    pub(crate) fn new(project: &'a Project, name: &str, folder: &str, world: World, yes: bool) -> Result<Self> {
        let step = Step::new(format!("experiment '{folder}'"));
        let folder = project.target_folder(&format!("experiments/{folder}"))?;
        let commands = File::create(folder.join("commands")).context("cannot write the commands of the experiment")?;
        let (command, qemu) = match world {
            World::Simulator => ("sim".to_owned(), None),
            World::Qemu(arch) => {
                let consent = if yes { Consent::Given } else { Consent::NotAsked };
                let kernel = setup::prepare(project, consent, &BuildOptions { arch, ..BuildOptions::default() })?;
                let programs = programs::build(project, &kernel, "info", None)?;
                (format!("demo --arch {}", arch.name()), Some((kernel, programs)))
            }
        };
        let scenario = project.path(&format!("scenarios/experiments/{name}.toml"));
        let command = format!("cargo xtask {command} {}", project.shown(&scenario));
        Ok(Self { project, scenario, command, folder, qemu, commands, step })
    }

    /// The project.
    pub(crate) const fn project(&self) -> &Project {
        self.project
    }

    /// Folder of data, picture and commands.
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

    /// Runs the experiment's scenario with each of the combinations. Returns a row of each, in their order, which `row` makes of the
    /// values of the varied keys and the run.
    ///
    /// # Errors
    /// A run that did not pass.
    pub(crate) fn rows<'c, const N: usize, Row: Send>(
        &self,
        combinations: &'c Combinations,
        row: impl Fn([&'c str; N], &Ran) -> Result<Row> + Sync,
    ) -> Result<Vec<Row>> {
        let count = combinations.count();
        for number in 0..count {
            let settings = options("--set", combinations.settings(number));
            writeln!(&self.commands, "{}{settings}", self.command).context("cannot write the commands")?;
        }
        let shown = self.project.shown(&self.folder);
        let failed = |number| {
            let values = combinations.values(number).into_iter().map(|(key, value)| format!(" {key}={value}"));
            format!("the run with{} failed, see its line in {shown}/commands", values.collect::<String>())
        };
        let made = |number| {
            let ran = self.run(combinations, number)?;
            let values: Vec<_> = combinations.values(number).into_iter().map(|(_, value)| value).collect();
            row(values.try_into().map_err(|_| anyhow!("the row takes other values"))?, &ran)
        };
        let work = |number| (number, made(number).with_context(|| failed(number)));
        // QEMU's times need the processors for themselves.
        let jobs = self.qemu.as_ref().map(|_| NonZeroUsize::MIN);
        let mut rows = BTreeMap::new();
        parallel::try_each(0..count, jobs, work, |(number, row)| {
            rows.insert(number, row?);
            self.say(&format!("{} of {count}", rows.len()));
            Ok(())
        })?;
        Ok(rows.into_values().collect())
    }

    fn run(&self, combinations: &Combinations, number: u64) -> Result<Ran> {
        let (results, marks) = match &self.qemu {
            None => {
                let scenario = combinations.load(&self.scenario, number)?;
                let Simulated { results, account } = simulate(RunInput::of(&scenario))?;
                (results, account.marks)
            }
            Some((kernel, programs)) => {
                let runner = model::runner(self.project, kernel, programs);
                let settings = &combinations.settings(number);
                (runner.run(&self.scenario, Options { settings, ..Options::default() })?, Vec::new())
            }
        };
        ensure!(results.passed, "{}", results.reasons.join("; "));
        Ok(Ran { results, marks })
    }
}

/// A run that is over.
pub(crate) struct Ran {
    /// Results of the system, and the verdict.
    pub(crate) results: Results,
    /// In the simulator: the marks of its measurements.
    marks: Vec<Mark>,
}

impl Ran {
    /// Measurements of a tenant.
    pub(crate) fn load(&self, tenant: &str) -> Result<&Load> {
        let found = self.results.tenants.iter().find(|load| load.tenant == tenant);
        found.with_context(|| format!("{tenant} measured nothing"))
    }

    /// Time between the two markers of the only measurement.
    pub(crate) fn measured(&self) -> Result<Measured> {
        let mark =
            |id| self.marks.iter().find(|mark| mark.id == id).with_context(|| format!("there is no marker {id}"));
        let (begin, end) = (mark(marker::BEGIN)?, mark(marker::END)?);
        let ns = end.at_ns.saturating_sub(begin.at_ns);
        Ok(Measured { ns, busy_ns: ns.saturating_sub(end.idle_ns.saturating_sub(begin.idle_ns)) })
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
