//! `cargo xtask demo`: runs a scenario on a machine that need not be prepared, and prints a page of results.

use crate::arguments::{self, Length, Settings};
use crate::destination::{Destination, Format};
use crate::image::{own, programs};
use crate::judges::times::NotJudged;
use crate::lab;
use crate::machine::disk::{UserDisk, Writing};
use crate::machine::model::Serve;
use crate::out;
use crate::progress::Step;
use crate::project::Project;
use crate::records::decode::{Filter, Level};
use crate::reports::{table, timeline};
use crate::run::{self, Device, Options, Runner};
use crate::setup::chosen_kernel::{self, ChosenKernel};
use crate::setup::packages::Consent;
use crate::setup::vfio_user;
use anyhow::{Context, Error, Result, ensure};
use capdl::Scenario;
use capdl::scenario::Setting;
use clap::Args;
use clap::builder::ArgPredicate;
use control_api::Act;
use kernel::{Arch, BuildOptions, FixName};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of the demonstration.
#[derive(Debug, Args)]
pub struct Demo {
    /// The scenario: a name in scenarios/, or a TOML file; live with --live and without a name
    #[arg(default_value = "demo", default_value_if("live", ArgPredicate::IsPresent, "live"))]
    pub scenario: String,
    #[command(flatten)]
    settings: Settings,
    /// The architecture: x86_64 or aarch64
    #[arg(long, default_value = "x86_64")]
    arch: String,
    /// A raw image or any file as the disk; it is not changed
    #[arg(long, value_name = "PATH")]
    disk: Option<PathBuf>,
    /// Let the tenants write to the disk of --disk
    #[arg(long, requires = "disk")]
    write: bool,
    /// Write the results as JSON, too: a file is replaced as a whole, a link's target too, a device or pipe is written to
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show log lines while it runs: LEVEL, or COMPONENT=LEVEL; several with commas
    #[arg(long, value_name = "FILTER")]
    log: Vec<String>,
    /// Build the kernel without this fix, to see its effect; repeat the option for several
    #[arg(long, value_name = "FIX")]
    without: Vec<FixName>,
    #[command(flatten)]
    kernel: ChosenKernel,
    /// Leave out the IOMMU: devices then reach all memory, and only the server's checks isolate tenants
    #[arg(long)]
    no_iommu: bool,
    /// The machine's controllers
    #[arg(long, value_enum, default_value_t)]
    device: Device,
    /// Run it in the simulator instead of QEMU
    #[arg(long, conflicts_with_all = ["without", "kernel", "write", "arch", "no_iommu", "device"])]
    pub sim: bool,
    /// Serve a page that shows the system while it runs, and its metrics; adds [telemetry] to the scenario
    #[arg(long, conflicts_with = "sim")]
    pub live: bool,
    #[command(flatten)]
    length: Length,
    /// Address of that page: this machine's alone, unless another one is given
    #[arg(long, value_name = "ADDRESS", requires = "live", default_value = arguments::PAGE_ADDRESS, value_parser = arguments::address)]
    pub listen: SocketAddr,
    /// Keep the images of the run, so that the program `command` in its folder starts the machine again
    #[arg(long, conflicts_with = "sim")]
    keep: bool,
    /// Fail if a time or rate was not judged because this machine was too slow
    #[arg(long)]
    strict: bool,
    /// With --sim: seed of all random choices; the scenario's own without it
    #[arg(long, requires = "sim", allow_negative_numbers = true, value_parser = arguments::seed)]
    pub seed: Option<u64>,
    /// Install missing packages through sudo without asking
    #[arg(long)]
    yes: bool,
}

/// Values of the arguments that are known before any long step.
pub struct Ready {
    /// The scenario, with the user's disk in it.
    pub scenario: Scenario,
    /// Log lines that the programs write, and those that are shown if `shows` is true.
    filter: Filter,
    shows: bool,
    /// The user's disk.
    pub disk: Option<UserDisk>,
    /// Destination of the results as JSON.
    pub json: Option<Destination>,
}

impl Ready {
    /// The log lines that go to the terminal.
    pub fn show(&self) -> Option<&Filter> {
        self.shows.then_some(&self.filter)
    }
}

impl Demo {
    fn arch(&self) -> Result<Arch> {
        self.arch.parse().map_err(Error::msg)
    }

    /// Reads the scenario.
    ///
    /// # Errors
    /// No such scenario or architecture, or settings or crates that it cannot have.
    pub fn load(&self, project: &Project) -> Result<Scenario> {
        let scenario = self.load_with(project, &self.settings.set)?;
        own::check(&scenario)?;
        Ok(scenario)
    }

    fn load_with(&self, project: &Project, settings: &[Setting]) -> Result<Scenario> {
        let arch = self.arch()?;
        Ok(Scenario::load_with(project.scenario(&self.scenario)?, (!self.sim).then_some(arch), settings)?)
    }

    /// Lets a scenario that is watched go on, and adds what it lacks for that. Returns all values that the command changes.
    fn settings(&self, project: &Project, scenario: &mut Scenario) -> Result<Vec<Setting>> {
        let mut settings = if self.live { self.length.settings(scenario)? } else { Vec::new() };
        // The user's own values count.
        settings.extend(self.settings.set.iter().cloned());
        if self.live {
            settings.extend(watched(scenario)?);
        }
        if settings.len() > self.settings.set.len() {
            *scenario = self.load_with(project, &settings)?;
        }
        Ok(settings)
    }

    /// Opens the files of the other arguments.
    ///
    /// # Errors
    /// A filter, destination or disk that the scenario cannot have.
    pub fn ready(&self, mut scenario: Scenario) -> Result<Ready> {
        let filter = Filter::parse(&self.log, Level::Off)?.of_scenario(&scenario)?;
        let json = self.json.as_deref().map(Destination::open).transpose()?;
        let writing = if self.write { Writing::Kept } else { Writing::Forgotten };
        let disk = self.disk.as_deref().map(|path| UserDisk::open(path, writing)).transpose()?;
        if let Some(disk) = &disk {
            run::use_disk(&mut scenario, disk)?;
        }
        Ok(Ready { scenario, filter, shows: !self.log.is_empty(), disk, json })
    }
}

/// Values that add telemetry, and a control component with all acts that it may have, to a scenario that has none.
///
/// # Errors
/// None, for a scenario that was checked.
pub fn watched(scenario: &Scenario) -> Result<Vec<Setting>> {
    let mut settings = Vec::new();
    if scenario.telemetry.is_none() {
        settings.push(Setting::new("telemetry", "{}")?);
    }
    if scenario.control.is_none() && scenario.tester().is_none() {
        // The others are refused beside several controllers.
        let acts = if scenario.controllers.len() > 1 { &[Act::Kill, Act::Pause][..] } else { &Act::ALL };
        let acts = acts.iter().map(|act| format!("\"{}\"", act.name())).collect::<Vec<_>>().join(", ");
        settings.push(Setting::new("control", &format!("{{ acts = [{acts}] }}"))?);
    }
    Ok(settings)
}

/// Runs it on QEMU; the exit code says whether it passed. A program without the simulator hands a demonstration that needs it on.
///
/// # Errors
/// Arguments that do not fit the scenario, or a step that fails.
pub fn run(project: &Project, demo: &Demo, serve: Option<Serve>) -> Result<ExitCode> {
    let mut scenario = demo.load(project)?;
    if serve.is_none() && (demo.sim || demo.live || demo.device == Device::Model) {
        return lab::run(project);
    }
    let settings = demo.settings(project, &mut scenario)?;
    let mut ready = demo.ready(scenario)?;
    let arch = demo.arch()?;
    run::suits(&ready.scenario, &demo.scenario, arch, demo.device)?;
    if demo.device == Device::Model {
        ensure!(!demo.write, "the simulator's controllers do not write to the disk of --disk: leave out --write");
        vfio_user::installed(project)?.context(vfio_user::MISSING)?;
    }
    if demo.no_iommu {
        run::leave_out_iommu(&mut ready.scenario)?;
    }
    let options = BuildOptions { without: demo.without.clone(), ..demo.kernel.options(arch)? };
    let consent = if demo.yes { Consent::Given } else { Consent::NotAsked };
    let kernel = chosen_kernel::prepare(project, consent, &options)?;
    chosen_kernel::suits(&kernel, &ready.scenario)?;
    let programs = programs::build(project, &kernel, ready.filter.compiled(), Some(&ready.scenario))?;
    let runner = Runner { project, kernel: &kernel, programs: &programs, serve };
    let mut results = {
        let step = Step::new(format!("running '{}' on seL4 in QEMU", demo.scenario));
        let (no_iommu, device, keep) = (demo.no_iommu, demo.device, demo.keep);
        let step = Some(&step);
        let not_judged = NotJudged::of(demo.strict);
        let (disk, settings, show) = (ready.disk.as_ref(), settings.as_slice(), ready.show());
        let command = &arguments::typed();
        let command = Some(command.as_str());
        let options =
            Options { disk, settings, show, step, no_iommu, device, keep, not_judged, command, ..Options::default() };
        runner.run(&project.scenario(&demo.scenario)?, options)?
    };
    let folder = project.path(&results.folder);
    timeline::write(&results, &folder, ready.json.as_ref())?;
    results.files = run::files(project, &folder);
    ready.json.map(|mut json| json.write_json(Format::Run, &results)).transpose()?;
    let sentences = out::sentence_columns(io::stdout());
    out::line(format_args!("{}", table::render(&results, out::columns(), sentences)))?;
    Ok(if results.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
