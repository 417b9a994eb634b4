//! A run of a scenario on QEMU: builds the system, starts the machine, reads its serial line to the end of the run, and judges.
//!
//! A run leaves its files in the folder `target/runs/<scenario>-<n>/`: a page of everything (`report.html`), the system as capDL text
//! (`system.cdl`) and as a picture of its capabilities (`system.svg`), the timeline (`timeline.svg`, written by the calling command),
//! QEMU's command (`command`), the raw serial line (`serial`), the decoded log (`log`), the events in sentences (`happened`), and QEMU's
//! messages (`qemu`). Disk images and the boot image are
//! removed if the run passed or is interrupted, unless they are to be kept.

mod collector;
mod disks;
mod folder;
pub mod interrupted;
mod outside;
pub mod reading;

pub use collector::Collector;
pub use disks::place as use_disk;
pub use disks::{make as make_disks, remove as remove_disks};
pub use folder::files;
pub use folder::{make as folder, make_numbered as numbered_folder, options, shell_word};
use interrupted::{Going, Left};
use outside::Outside;

use crate::image;
use crate::image::programs::Programs;
use crate::image::{boot, own};
use crate::judges::causes::{self, Injected, Reason};
use crate::judges::times::{self, NotJudged};
use crate::judges::{image_check, installed, missing, probe, telemetry, verdict};
use crate::machine::Machine;
use crate::machine::counts::Plugins;
use crate::machine::disk::{self, UserDisk};
use crate::machine::model::{Models, Serve};
use crate::machine::qemu::{self, Boot, Parts, Start, Time};
use crate::machine::waits::{self, Waits};
use crate::progress::Step;
use crate::project::{Project, write_whole};
use crate::records::decode::{Decoder, Filter};
use crate::records::lateness::Lateness;
use crate::records::results::{Results, hex};
use crate::reports::run_page;
use crate::setup::{chosen_kernel, vfio_user};
use crate::telemetry::acts::Acts;
use crate::telemetry::announcement::Announced;
use crate::telemetry::events::Events;
use crate::telemetry::physical::Ram;
use crate::telemetry::sample::Places;
use anyhow::{Context, Result, ensure};
use capdl::programs::ROOT_TASK;
use capdl::scenario::{Setting, Workload};
use capdl::{Scenario, System};
use capdl_spec::Component;
use clap::ValueEnum;
use kernel::{Arch, Kernel};
use report::TelemetryPages;
use sim_fault::Fault;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use workload::LastProbe;

/// File name of the boot image in a run's folder.
const IMAGE: &str = "image.elf";
/// After the last expected event: time of silence before the machine is ended, and the longest wait for that silence.
const QUIET: Duration = Duration::from_millis(150);
const LONGEST_END: Duration = Duration::from_secs(1);
/// The longest time in which a simulator's controller is ready in QEMU, whose firmware enables it before the system does.
const LONGEST_READY_MS: u32 = 5_000;
/// Factor for the times of events and the durations of loads in a longer run.
const LONGER: u32 = 4;

/// Parts that runs share: the project, the kernel, the programs.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    /// The project.
    pub project: &'a Project,
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The programs.
    pub programs: &'a Programs,
    /// Serves the simulator's controllers; `None` in a program without the simulator.
    pub serve: Option<Serve>,
}

/// Options of one run.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// The user's disk.
    pub disk: Option<&'a UserDisk>,
    /// Values of the scenario that the command changes.
    pub settings: &'a [Setting],
    /// Log lines that go to the terminal while the machine runs; none without a filter.
    pub show: Option<&'a Filter>,
    /// Step beside which events are shown.
    pub step: Option<&'a Step>,
    /// The instruction counter; its output goes to the file `counts` in the run's folder.
    pub counter: Option<&'a Plugins>,
    /// Whether the counter also counts by address, into the file `histogram` there.
    pub histogram: bool,
    /// Whether all timed parts take [`LONGER`] times as long, for a machine that has other work.
    pub longer: bool,
    /// Whether the images stay after a run that passed or was interrupted, so that its command can be run.
    pub keep: bool,
    /// Whether to leave out the IOMMU of the scenario's machine.
    pub no_iommu: bool,
    /// The result of rows whose times are not judged.
    pub not_judged: NotJudged,
    /// The controllers of the machine.
    pub device: Device,
    /// Command that repeats the run, for its page; a demonstration with these options without it.
    pub command: Option<&'a str>,
}

/// The controllers of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Device {
    /// QEMU's own
    #[default]
    Qemu,
    /// The simulator's, as devices of a QEMU that has vfio-user
    Model,
}

/// A system ready to be started.
pub(crate) struct Prepared {
    /// The scenario, with the user's disk in it.
    pub scenario: Scenario,
    /// The system built from it.
    pub system: System,
    /// The ELF files of users' own crates.
    pub own: BTreeMap<String, Vec<u8>>,
    /// The run's folder.
    pub folder: PathBuf,
    /// QEMU's arguments.
    pub arguments: Vec<OsString>,
    /// The simulator's controllers, if it has these.
    models: Option<Box<dyn Models>>,
    /// Guard that removes the images if the user interrupts the run.
    _going: Option<Going>,
}

/// QEMU's arguments, and the simulator's controllers, if it has these.
type Filled = (Vec<OsString>, Option<Box<dyn Models>>);

impl Runner<'_> {
    /// Builds the system of the scenario in `file`, its image and its disks.
    pub(crate) fn prepare(&self, file: &Path, options: Options<'_>, start: Start) -> Result<Prepared> {
        let mut scenario = Scenario::load_with(file, Some(self.kernel.arch), options.settings)?;
        suits(&scenario, &scenario.name, self.kernel.arch, options.device)?;
        if options.no_iommu {
            leave_out_iommu(&mut scenario)?;
        }
        if let Some(disk) = options.disk {
            use_disk(&mut scenario, disk)?;
        }
        if options.longer {
            take_longer(&mut scenario);
        }
        // Runs on QEMU differ anyway, so their random choices may differ too.
        let seed = RandomState::new().build_hasher().finish();
        let own = own::build(self.project, self.kernel, self.programs.level(), &scenario)?;
        let programs = own.iter().fold(self.programs.for_model(), |all, (name, elf)| all.with(name, elf.clone()));
        let system = capdl::build(&scenario.drawn(seed), &programs)?;
        chosen_kernel::has_slots(self.kernel, &system)?;
        let folder = folder::make(self.project, &scenario.name)?;
        let images = disks::images(&scenario, &folder, options.disk).into_iter().map(|image| image.path);
        let without = images.chain([folder.join(IMAGE), qemu::ram_file(&folder)]).collect();
        let going = (!options.keep).then(|| Going::on(Left::Folder { shown: self.project.shown(&folder), without }));
        let (arguments, models) = self.fill(&folder, &scenario, &system, options, start).inspect_err(|_| {
            // Remove the partial folder; a failure of that matters less than the error itself.
            let _ = fs::remove_dir_all(&folder);
        })?;
        Ok(Prepared { scenario, system, own, folder, arguments, models, _going: going })
    }

    /// Writes a run's system, image, disks and command into its folder.
    fn fill(
        &self,
        folder: &Path,
        scenario: &Scenario,
        system: &System,
        options: Options<'_>,
        start: Start,
    ) -> Result<Filled> {
        write_whole(&folder.join("system.cdl"), system.cdl().as_bytes())?;
        write_whole(&folder.join("system.svg"), system.svg().as_bytes())?;
        let root_task = self.programs.root_task(self.project, self.kernel, scenario.has_moments())?;
        let image = image::with_payload(root_task, &system.image())?;
        let image = match self.kernel.arch {
            Arch::X86_64 => image,
            Arch::Aarch64 => boot::around(self.project, self.kernel, &image)?,
        };
        let image_file = folder.join(IMAGE);
        write_whole(&image_file, &image)?;
        disks::make(scenario, folder, options.disk)?;
        let models = match options.device {
            Device::Qemu => None,
            Device::Model => Some(self.serve()?(scenario, folder, options.disk)?),
        };
        if !scenario.faults.is_empty() {
            write_whole(&qemu::ones_file(folder), &[u8::MAX; qemu::REGISTERS_BYTES])?;
        }
        let mut argument = format!("out={}", folder.join("counts").display());
        if options.histogram {
            argument.push_str(&format!(",histogram={}", folder.join("histogram").display()));
        }
        let time = options
            .counter
            .map_or(Time::Real, |plugins| Time::Counted { plugin: plugins.of(options.device), argument: &argument });
        let boot = match self.kernel.arch {
            Arch::X86_64 => {
                Boot::Multiboot { kernel: &self.kernel.elf32, processor: self.kernel.processor(), image: &image_file }
            }
            Arch::Aarch64 => Boot::Whole(&image_file),
        };
        let sockets = models.as_ref().map(|models| models.sockets());
        let (images, disk, models_at) = (folder, options.disk, sockets.as_deref());
        let arguments = qemu::arguments(&Parts { boot, scenario, images, disk, time, models: models_at, start })?;
        let qemu = self.qemu(options.device)?;
        let words =
            std::iter::once(qemu.get_program()).chain(qemu.get_args()).chain(arguments.iter().map(OsString::as_os_str));
        let disks = disks::images(scenario, folder, options.disk).into_iter().map(|image| image.path);
        folder::write_command(folder, words, disks.chain([image_file.clone()]))?;
        Ok((arguments, models))
    }

    fn serve(&self) -> Result<Serve> {
        self.serve.context("this program has no simulator: run cargo xtask")
    }

    /// The QEMU that has this device.
    fn qemu(&self, device: Device) -> Result<Command> {
        match device {
            Device::Qemu => Ok(Command::new(kernel::qemu::program(self.kernel.arch))),
            Device::Model => {
                let qemu = vfio_user::installed(self.project)?;
                Ok(qemu.context(vfio_user::MISSING)?.command())
            }
        }
    }

    /// A decoder for the system's log.
    pub(crate) fn decoder(&self, prepared: &Prepared) -> Result<Decoder> {
        let root = self.project.root();
        let mut decoder = Decoder::default();
        let specification = &prepared.system.specification;
        let root_task = self.programs.root_task(self.project, self.kernel, prepared.scenario.has_moments())?;
        decoder.add(0, ROOT_TASK, None, ROOT_TASK, root_task, root)?;
        for component in &specification.components {
            let Component { id, name, role, program, .. } = component;
            let elf = match prepared.own.get(program) {
                Some(elf) => elf,
                None => self.programs.elf(program)?,
            };
            decoder.add(*id, name, Some(*role), program, elf, root)?;
        }
        Ok(decoder)
    }

    /// Runs the scenario in `file`. An error means that it could not be run; a run that did not pass returns results.
    pub fn run(&self, file: &Path, options: Options<'_>) -> Result<Results> {
        let mut prepared = self.prepare(file, options, Start::AtOnce)?;
        let models = prepared.models.take();
        let mut events = Events::default();
        let (mut results, began) = self.observe(&prepared, options, models.as_deref(), &mut events)?;
        let (sentences, hits) = models.map(|models| models.end()).unwrap_or_default();
        results.reasons.extend(sentences);
        self.check_outside(&prepared, options, &mut results, events)?;
        results.reasons.extend(missing::lines(&prepared.scenario, &prepared.system, &results));
        let reasons = verdict::reasons(&prepared.scenario, &results);
        let others = std::mem::take(&mut results.reasons).into_iter().map(Reason::from);
        let mut injected = Injected::of(&results.timeline);
        let of_command = |(at, words): (Instant, String)| {
            let at_ns = results.machine_ns(at.saturating_duration_since(began));
            Injected { at_ns, words }
        };
        injected.extend(hits.into_iter().map(of_command));
        results.reasons = causes::told(reasons.into_iter().chain(others).collect(), &injected, &results);
        times::judge(&prepared.scenario, &mut results, options.not_judged);
        results.passed = results.reasons.is_empty();
        results.take_promises(&prepared.scenario.expect.relies_on);
        let command = options.command.map_or_else(|| self.command(file, options), str::to_owned);
        run_page::write(self.project, &prepared.folder, &prepared.scenario, &results, &command)?;
        if results.passed && !options.keep {
            disks::remove(&prepared.scenario, &prepared.folder);
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(prepared.folder.join(IMAGE));
        }
        Ok(results)
    }

    /// A command that runs the scenario in `file` once with these options.
    fn command(&self, file: &Path, options: Options<'_>) -> String {
        let file = shell_word(&self.project.shown(file));
        let arch = if self.kernel.arch == Arch::X86_64 { "" } else { " --arch aarch64" };
        let device = if options.device == Device::Qemu { "" } else { " --device model" };
        let iommu = if options.no_iommu { " --no-iommu" } else { "" };
        let disk = folder::options("--disk", options.disk.map(|disk| disk.path.display()));
        let settings = folder::options("--set", options.settings);
        format!("cargo xtask demo {file}{settings}{arch}{device}{iommu}{disk}")
    }

    /// Runs the machine until every expected event has happened, or cannot happen any more.
    fn observe(
        &self,
        prepared: &Prepared,
        options: Options<'_>,
        models: Option<&dyn Models>,
        events: &mut Events,
    ) -> Result<(Results, Instant)> {
        let mut collector =
            Collector::new(self.decoder(prepared)?, &prepared.folder, options.show)?.telling(options.step);
        collector.results.take_scenario(&prepared.scenario);
        collector.results.arch = self.kernel.arch.name();
        collector.results.kernel = chosen_kernel::shown(self.kernel);
        collector.results.folder = self.project.shown(&prepared.folder);
        let limit = Duration::from_secs(prepared.scenario.expect.timeout_seconds);
        let (mut outside, ends) = Outside::of(&prepared.scenario, self.kernel.arch, models)?;
        let qemu = self.qemu(options.device)?;
        let mut machine = Machine::start_with(qemu, &prepared.arguments, &prepared.folder, &ends)?;
        // QEMU has them now. Nobody else may hold its ends open.
        drop(ends);
        let mut waits = machine.waits();
        let announced = Announced::new(&prepared.scenario, &prepared.system.specification, &prepared.folder);
        let acts = Acts::of(&prepared.folder);
        let mut watched = Watched { announced, folder: &prepared.folder, ram: None, events, acts };
        let ended =
            wait(&mut machine, &mut collector, &prepared.scenario, &mut outside, limit, &mut waits, &mut watched)?;
        drop(watched);
        machine.end()?;
        collector.finish()?;
        let mut results = collector.results;
        results.reasons.extend(outside.left());
        let built = results.machine.as_ref().and_then(|built| {
            let age = results.age_at(built.started_at_ns)?;
            Some((age, u64::from(built.objects)))
        });
        results.lateness = Lateness::of(waits.end(), built);
        results.seconds = machine.age().as_secs_f64();
        match ended {
            End::Complete => {}
            End::TimedOut => results.reasons.push(format!("the run took longer than {} seconds", limit.as_secs())),
            End::Gone(why) => {
                results.emulator_crashed = why.starts_with("signal");
                results.reasons.push(format!("QEMU ended by itself: {why}"));
            }
        }
        Ok((results, machine.started()))
    }

    /// Makes the comparisons that need the build machine: the specification, images and digests.
    fn check_outside(
        &self,
        prepared: &Prepared,
        options: Options<'_>,
        results: &mut Results,
        mut events: Events,
    ) -> Result<()> {
        if prepared.scenario.telemetry.is_some() {
            let ram = Ram::of(&prepared.folder, self.kernel.arch)?;
            let last = Places::new(&prepared.scenario, &results.telemetry_pages).sample(&ram);
            results.reasons.extend(telemetry::differences(&prepared.scenario, &last, results));
            events.follow(&prepared.scenario, &results.telemetry_pages, &ram);
            let traces = telemetry::traces(&prepared.scenario, &last, results, &events, Some(&prepared.folder))?;
            results.reasons.extend(traces);
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(qemu::ram_file(&prepared.folder));
        }
        results.reasons.extend(probe::violations(&prepared.scenario, &prepared.system, results));
        if prepared.scenario.expect.report_caps {
            results.reasons.extend(installed::differences(&prepared.system.specification, &results.installed));
        }
        if prepared.scenario.expect.compare_image {
            for image in disks::images(&prepared.scenario, &prepared.folder, options.disk) {
                let controller = &image.controller.name;
                let wrong = image_check::differences(&prepared.scenario, controller, image.nsid, &image.path)?;
                results.reasons.extend(wrong);
            }
        }
        for digest in &mut results.digests {
            let file = disks::file_of(&prepared.scenario, &prepared.folder, options.disk, &digest.tenant);
            let Some(path) = file else { continue };
            let own = disk::sha256(&path, digest.first_byte, digest.bytes)?;
            digest.build_machine_sha256 = Some(hex(&own));
        }
        Ok(())
    }
}

/// Whether QEMU's machine of an architecture, with these controllers, can run the scenario; the error names an alternative.
/// `named` is the scenario's name or file, as a command takes it.
pub fn suits(scenario: &Scenario, named: &str, arch: Arch, device: Device) -> Result<()> {
    ensure!(
        !scenario.has_several_namespaces_that_move(),
        "the scenario '{0}' inserts or removes a controller with several namespaces, which QEMU cannot: cargo xtask sim {0}",
        named
    );
    match device {
        Device::Qemu => ensure!(
            !scenario.is_simulators_alone(),
            "the scenario '{0}' has faults or a controller that only the simulator has, by its model or with MSI: \
             cargo xtask sim {0}, or cargo xtask demo {0} --device model",
            named
        ),
        Device::Model => {
            ensure!(
                arch == Arch::X86_64,
                "the simulator's controllers are devices of the x86_64 machine: leave out --arch"
            );
            ensure!(
                !scenario.faults.iter().any(|fault| matches!(fault, Fault::Component(_))),
                "the scenario '{0}' has faults of components, which only the simulator makes: cargo xtask sim {0}",
                named
            );
            ensure!(
                scenario.controllers.iter().all(|controller| controller.virtual_functions == 0),
                "the scenario '{0}' has virtual functions, which QEMU hides of these controllers: cargo xtask sim {0}",
                named
            );
            ensure!(
                scenario.controllers.iter().all(|controller| controller.model.ready_ms <= LONGEST_READY_MS),
                "the scenario '{0}' has controllers that are ready after more than {LONGEST_READY_MS} ms, for which QEMU's \
                 firmware waits first: cargo xtask sim {0}",
                named
            );
            ensure!(
                scenario.controllers.iter().all(|controller| controller.later.is_empty()),
                "the scenario '{0}' has controllers that change when they are enabled, and QEMU's firmware enables them first: \
                 cargo xtask sim {0}",
                named
            );
            ensure!(
                scenario.hot_plugs.is_empty(),
                "the scenario '{}' has controllers that come and go, which the models in QEMU do not: leave out --device",
                named
            );
            ensure!(!scenario.controllers.is_empty(), "the scenario '{}' has no controller: leave out --device", named);
        }
    }
    has_machine(scenario, named, arch)
}

/// Whether an architecture's machine, simulated or not, has the devices that the scenario needs.
pub fn has_machine(scenario: &Scenario, named: &str, arch: Arch) -> Result<()> {
    if arch != Arch::Aarch64 {
        ensure!(
            !scenario.needs_iommu_server(),
            "the scenario '{0}' has an IOMMU server, which only the AArch64 machine has: cargo xtask demo {0} --arch aarch64",
            named
        );
        return Ok(());
    }
    let revokes = scenario.probe.as_ref().is_some_and(|probe| probe.last == LastProbe::RevokedPage);
    ensure!(
        !revokes && scenario.faults.is_empty(),
        "the scenario '{0}' has memory to revoke or faults, which only the x86_64 machine has: cargo xtask demo {0}",
        named
    );
    Ok(())
}

/// Removes the IOMMU from the scenario's machine.
pub(crate) fn leave_out_iommu(scenario: &mut Scenario) -> Result<()> {
    ensure!(
        scenario.probe.is_none() && !scenario.needs_iommu_server(),
        "the scenario '{}' is about the IOMMU: leave out --no-iommu",
        scenario.name
    );
    scenario.machine.iommu = false;
    Ok(())
}

/// Lengthens the loads that run by time, and delays the timed events.
fn take_longer(scenario: &mut Scenario) {
    for tenant in &mut scenario.tenants {
        let milliseconds = match &mut tenant.workload {
            Workload::Bench(bench) => &mut bench.milliseconds,
            Workload::Flood(flood) => &mut flood.milliseconds,
            Workload::Digest(_) | Workload::Hostile(_) | Workload::Signal(_) | Workload::Own(_) => continue,
        };
        *milliseconds = milliseconds.saturating_mul(LONGER.into());
    }
    let changes = scenario.changes.iter_mut().map(|change| &mut change.when.after_ms);
    let kills = scenario.kills.iter_mut().map(|kill| &mut kill.when.after_ms);
    let interrupts =
        scenario.controllers.iter_mut().flat_map(|one| &mut one.changes).map(|change| &mut change.when.after_ms);
    let hot_plugs = scenario.hot_plugs.iter_mut().map(|event| &mut event.after_ms);
    changes
        .chain(kills)
        .chain(interrupts)
        .chain(hot_plugs)
        .for_each(|after_ms| *after_ms = after_ms.saturating_mul(LONGER));
}

/// A run's telemetry while it goes on: others can find it, and the events of traces are collected before they are overwritten. So are the
/// acts of operators.
struct Watched<'a> {
    announced: Announced<'a>,
    folder: &'a Path,
    ram: Option<Ram>,
    events: &'a mut Events,
    acts: Acts,
}

impl Watched<'_> {
    fn go_on(&mut self, scenario: &Scenario, reported: &[TelemetryPages]) -> Result<()> {
        self.announced.look(reported, scenario.machine.arch)?;
        let has_traces = scenario.telemetry.as_ref().is_some_and(|telemetry| telemetry.trace_pages > 0);
        if !has_traces || reported.is_empty() {
            return Ok(());
        }
        if self.ram.is_none() {
            self.ram = Some(Ram::of(self.folder, scenario.machine.arch)?);
        }
        if let Some(ram) = &self.ram {
            self.events.follow(scenario, reported, ram);
        }
        Ok(())
    }
}

/// End of a run.
enum End {
    Complete,
    TimedOut,
    Gone(String),
}

fn wait(
    machine: &mut Machine,
    collector: &mut Collector<'_>,
    scenario: &Scenario,
    outside: &mut Outside<'_>,
    limit: Duration,
    waits: &mut Waits,
    watched: &mut Watched<'_>,
) -> Result<End> {
    let mut complete: Option<Instant> = None;
    loop {
        waits.sample(machine.age());
        let mut timeout = if complete.is_some() { QUIET } else { waits::EVERY };
        if let Err(error) = outside.go_on(machine, collector) {
            // A machine that has ended does not answer at its ports.
            return machine.gone()?.map(End::Gone).ok_or(error);
        }
        timeout = outside.pause(&collector.results, machine.age()).map_or(timeout, |pause| pause.min(timeout));
        let bytes = machine.read(timeout)?;
        if let Some(bytes) = &bytes {
            collector.take(bytes, machine.age())?;
        }
        watched.go_on(scenario, &collector.results.telemetry_pages)?;
        for (who, words) in watched.acts.more() {
            collector.take_act(collector.results.machine_ns(machine.age()), &who, &words)?;
        }
        match complete {
            Some(since) if bytes.is_none() || since.elapsed() > LONGEST_END => return Ok(End::Complete),
            Some(_) => continue,
            None => {}
        }
        if verdict::awaited(scenario, &collector.results).is_empty() || verdict::is_lost(scenario, &collector.results) {
            complete = Some(Instant::now());
        } else if let Some(why) = machine.gone()? {
            return Ok(End::Gone(why));
        } else if machine.age() > limit {
            return Ok(End::TimedOut);
        }
    }
}
