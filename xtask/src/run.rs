//! One run of a scenario on QEMU: build the system, start the machine, read the line until all is there, judge.
//!
//! Everything a run leaves is in its folder `target/runs/<scenario>-<n>/`: QEMU's command (`command`), the line as it was
//! (`serial`), the decoded log (`log`), what QEMU said (`qemu`). Disk images are removed when the run passed.

use crate::decode::{Decoder, Filter, Line};
use crate::disk::{self, UserDisk};
use crate::machine::Machine;
use crate::programs::{Programs, ROOT_TASK};
use crate::project::{Project, write_whole};
use crate::qemu::{self, Parts, Time};
use crate::results::{Results, hex};
use crate::{image, installed, missing, probe, verdict, written};
use anyhow::{Context, Result};
use blk_api::extent::Extent;
use capdl::scenario::{Backend, Controller, PROBE};
use capdl::{Scenario, System};
use kernel::Kernel;
use report::Report;
use report::frame::{Kind, Piece, Reader};
use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// After the last thing expected came: how long the line must be quiet before the machine is ended, and at most.
const QUIET: Duration = Duration::from_millis(150);
const LONGEST_END: Duration = Duration::from_secs(1);
/// Folders of earlier runs that are kept, a scenario.
const KEPT: usize = 5;

/// What runs share: the project, the kernel, the programs.
#[derive(Clone, Copy)]
pub(crate) struct Runner<'a> {
    /// The project.
    pub(crate) project: &'a Project,
    /// The kernel.
    pub(crate) kernel: &'a Kernel,
    /// The programs.
    pub(crate) programs: &'a Programs,
}

/// How one run differs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Options<'a> {
    /// The user's disk.
    pub(crate) disk: Option<&'a UserDisk>,
    /// Which log lines go to the terminal while the machine runs; none without.
    pub(crate) show: Option<&'a Filter>,
    /// The instruction counter: its plugin; its output goes to the file `counts` in the run's folder.
    pub(crate) counter: Option<&'a Path>,
}

/// A system ready to be started.
pub(crate) struct Prepared {
    /// The scenario, with the user's disk in it.
    pub(crate) scenario: Scenario,
    /// What was built of it.
    pub(crate) system: System,
    /// The run's folder.
    pub(crate) folder: PathBuf,
    /// QEMU's arguments.
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

impl Runner<'_> {
    /// Builds the system of the scenario in `file`, its image and its disks.
    pub(crate) fn prepare(&self, file: &Path, options: Options<'_>, debug: bool) -> Result<Prepared> {
        let mut scenario = Scenario::load(file)?;
        if let Some(disk) = options.disk {
            use_disk(&mut scenario, disk)?;
        }
        let system = capdl::build(&scenario, &self.programs.for_model())?;
        let folder = run_folder(self.project, &scenario.name)?;
        let arguments = self.fill(&folder, &scenario, &system, options, debug).inspect_err(|_| {
            // Nothing half-written stays; that the folder cannot be removed would be the lesser trouble.
            let _ = fs::remove_dir_all(&folder);
        })?;
        Ok(Prepared { scenario, system, folder, arguments })
    }

    /// Writes a run's image, disks and command into its folder; QEMU's arguments.
    fn fill(
        &self,
        folder: &Path,
        scenario: &Scenario,
        system: &System,
        options: Options<'_>,
        debug: bool,
    ) -> Result<Vec<std::ffi::OsString>> {
        let image = image::with_payload(self.programs.elf(ROOT_TASK)?, &system.image())?;
        let image_file = folder.join("image.elf");
        write_whole(&image_file, &image)?;
        make_disks(scenario, folder, options.disk)?;
        let argument = format!("out={}", folder.join("counts").display());
        let time = options.counter.map_or(Time::Real, |plugin| Time::Counted { plugin, argument: &argument });
        let arguments = qemu::arguments(&Parts {
            kernel: &self.kernel.elf32,
            image: &image_file,
            scenario,
            images: folder,
            disk: options.disk,
            time,
            debug,
        })?;
        let words: Vec<_> = arguments.iter().map(|word| shell_word(&word.to_string_lossy())).collect();
        let command = format!("{} {}\n", crate::setup::qemu_program(), words.join(" "));
        write_whole(&folder.join("command"), command.as_bytes())?;
        Ok(arguments)
    }

    /// A decoder of the system's log.
    pub(crate) fn decoder(&self, prepared: &Prepared) -> Result<Decoder> {
        let root = self.project.root();
        let mut decoder = Decoder::new();
        decoder.add(0, ROOT_TASK, ROOT_TASK, self.programs.elf(ROOT_TASK)?, root)?;
        for component in &prepared.system.specification.components {
            let program = program_of(&prepared.scenario, &component.name);
            decoder.add(component.id, &component.name, program, self.programs.elf(program)?, root)?;
        }
        Ok(decoder)
    }

    /// Runs the scenario in `file`. An error says that it could not be run; results that did not pass are results.
    pub(crate) fn run(&self, file: &Path, options: Options<'_>) -> Result<Results> {
        let prepared = self.prepare(file, options, false)?;
        let mut results = self.observe(&prepared, options)?;
        self.check_outside(&prepared, options, &mut results)?;
        results.reasons.extend(verdict::wrongs(&prepared.scenario, &results));
        results.reasons.extend(missing::lines(&prepared.scenario, &prepared.system, &results));
        results.passed = results.reasons.is_empty();
        if results.passed {
            remove_disks(&prepared.scenario, &prepared.folder);
        }
        Ok(results)
    }

    /// Runs the machine until everything expected has come, or cannot come any more.
    fn observe(&self, prepared: &Prepared, options: Options<'_>) -> Result<Results> {
        let mut collector = Collector::new(self.decoder(prepared)?, &prepared.folder, options.show)?;
        collector.results.scenario = prepared.scenario.name.clone();
        collector.results.log = self.project.shown(&prepared.folder);
        let limit = Duration::from_secs(prepared.scenario.expect.timeout_seconds);
        let mut machine = Machine::start(&prepared.arguments, &prepared.folder)?;
        let ended = wait(&mut machine, &mut collector, &prepared.scenario, limit)?;
        machine.end()?;
        collector.finish()?;
        let mut results = collector.results;
        results.seconds = machine.age().as_secs_f64();
        match ended {
            End::Complete => {}
            End::TimedOut => results.reasons.push(format!("the run took longer than {} seconds", limit.as_secs())),
            End::Gone(why) => results.reasons.push(format!("QEMU ended by itself: {why}")),
        }
        Ok(results)
    }

    /// What only the build machine can compare.
    fn check_outside(&self, prepared: &Prepared, options: Options<'_>, results: &mut Results) -> Result<()> {
        results.reasons.extend(probe::wrongs(&prepared.scenario, &prepared.system, results));
        if prepared.scenario.expect.report_caps {
            results.reasons.extend(installed::differences(&prepared.system.specification, &results.installed));
        }
        if prepared.scenario.expect.compare_image {
            for (controller, number) in files(&prepared.scenario, options.disk) {
                let path = qemu::image_file(&prepared.folder, &controller.name, number + 1);
                if controller.namespaces.get(number).is_some_and(|namespace| namespace.backend == Backend::File) {
                    let nsid = number as u32 + 1;
                    results.reasons.extend(written::differences(&prepared.scenario, &controller.name, nsid, &path)?);
                }
            }
        }
        for digest in &mut results.digests {
            let Some(path) = file_of(prepared, options.disk, &digest.tenant) else { continue };
            let own = disk::sha256(&path, digest.first_byte, digest.bytes)?;
            digest.build_machine_sha256 = Some(hex(&own));
        }
        Ok(())
    }
}

/// The program a component runs.
fn program_of<'a>(scenario: &Scenario, component: &'a str) -> &'a str {
    if let Some(tenant) = scenario.tenants.iter().find(|tenant| tenant.name == component) {
        return capdl::build::program_of(&tenant.workload);
    }
    if component == PROBE {
        return "nvme-probe";
    }
    if component.starts_with("nvme-server") { "nvme-server" } else { component }
}

/// Puts the user's disk into the place of the scenario's first file. A tenant whose extent was the whole namespace has the
/// whole disk; the disk must hold the extents of the others.
pub(crate) fn use_disk(scenario: &mut Scenario, disk: &UserDisk) -> Result<()> {
    let name = scenario.name.clone();
    let place = qemu::user_place(scenario).with_context(|| {
        format!("the scenario '{name}' has no disk of a file, so --disk has no place in it: leave out --disk")
    })?;
    let serial = scenario.controllers.get(place.0).map(|controller| controller.name.clone()).unwrap_or_default();
    let namespace = scenario
        .controllers
        .get_mut(place.0)
        .and_then(|controller| controller.namespaces.get_mut(place.1))
        .context("the namespace is gone")?;
    let block_bytes = u64::from(namespace.block_bytes);
    let whole = [Extent { first: 0, blocks: namespace.size / block_bytes }];
    let blocks = disk.bytes / block_bytes;
    let tenants = scenario.tenants.iter_mut();
    let mut needed = 1;
    for tenant in tenants.filter(|tenant| tenant.controller == serial && tenant.namespace as usize == place.1 + 1) {
        if tenant.extents == whole {
            tenant.extents = vec![Extent { first: 0, blocks }];
        } else {
            needed = tenant.extents.iter().filter_map(|extent| extent.end()).fold(needed, u64::max);
        }
    }
    disk.ensure_holds(needed.saturating_mul(block_bytes), &name)?;
    namespace.size = blocks.saturating_mul(block_bytes);
    Ok(())
}

/// The image a tenant's namespace lies in, if it is a file.
fn file_of(prepared: &Prepared, disk: Option<&UserDisk>, tenant: &str) -> Option<PathBuf> {
    let scenario = &prepared.scenario;
    let tenant = scenario.tenants.iter().find(|one| one.name == tenant)?;
    let (index, controller) = scenario.controller(&tenant.controller)?;
    if scenario.namespace(tenant)?.backend != Backend::File {
        return None;
    }
    let number = tenant.namespace as usize;
    match disk.filter(|_| qemu::user_place(scenario) == Some((index, number.wrapping_sub(1)))) {
        Some(disk) => Some(disk.path.clone()),
        None => Some(qemu::image_file(&prepared.folder, &controller.name, number)),
    }
}

/// The images a scenario's files are, with their bytes, but for the user's disk.
fn files<'a>(scenario: &'a Scenario, disk: Option<&'a UserDisk>) -> impl Iterator<Item = (&'a Controller, usize)> {
    let user = disk.and_then(|_| qemu::user_place(scenario));
    scenario.controllers.iter().enumerate().flat_map(move |(c, controller)| {
        let numbers = 0..controller.namespaces.len();
        numbers.filter(move |n| user != Some((c, *n))).map(move |n| (controller, n))
    })
}

fn make_disks(scenario: &Scenario, folder: &Path, disk: Option<&UserDisk>) -> Result<()> {
    for (controller, number) in files(scenario, disk) {
        let Some(namespace) = controller.namespaces.get(number) else { continue };
        if namespace.backend == Backend::File {
            let path = qemu::image_file(folder, &controller.name, number + 1);
            disk::create(&path, namespace.size, namespace.content)?;
        }
    }
    Ok(())
}

fn remove_disks(scenario: &Scenario, folder: &Path) {
    for (controller, number) in files(scenario, None) {
        // The user's disk and null ones were never there.
        let _ = fs::remove_file(qemu::image_file(folder, &controller.name, number + 1));
    }
    let _ = fs::remove_file(folder.join("image.elf"));
}

/// A new folder for a run; the oldest of the scenario's are removed.
fn run_folder(project: &Project, scenario: &str) -> Result<PathBuf> {
    let runs = project.target_folder("runs")?;
    let prefix = format!("{scenario}-");
    let mut numbers: Vec<u64> = fs::read_dir(&runs)
        .context("cannot read target/runs")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(&prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let mut next = numbers.last().map_or(1, |last| last + 1);
    for old in numbers.iter().take(numbers.len().saturating_sub(KEPT)) {
        // Somebody may be looking into it; it will go another time.
        let _ = fs::remove_dir_all(runs.join(format!("{prefix}{old}")));
    }
    loop {
        let folder = runs.join(format!("{prefix}{next}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            // Another run of the same scenario was quicker.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => next += 1,
            Err(error) => return Err(error).with_context(|| format!("cannot make {}", project.shown(&folder))),
        }
    }
}

/// How a run came to its end.
enum End {
    Complete,
    TimedOut,
    Gone(String),
}

fn wait(machine: &mut Machine, collector: &mut Collector<'_>, scenario: &Scenario, limit: Duration) -> Result<End> {
    let mut complete: Option<Instant> = None;
    loop {
        let patience = if complete.is_some() { QUIET } else { Duration::from_millis(500) };
        let bytes = machine.read(patience)?;
        if let Some(bytes) = &bytes {
            collector.take(bytes, machine.age())?;
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

/// Takes the line apart: logs to the log file and the terminal, reports to the results.
pub(crate) struct Collector<'a> {
    results: Results,
    decoder: Decoder,
    reader: Reader,
    serial: File,
    log: BufWriter<File>,
    show: Option<&'a Filter>,
}

impl<'a> Collector<'a> {
    /// A collector that writes its logs into `folder`, and those lines that `show` lets through to the terminal.
    pub(crate) fn new(decoder: Decoder, folder: &Path, show: Option<&'a Filter>) -> Result<Self> {
        let create = |name: &str| {
            File::create(folder.join(name)).with_context(|| format!("cannot write {}", folder.join(name).display()))
        };
        Ok(Self {
            results: Results::default(),
            decoder,
            reader: Reader::new(),
            serial: create("serial")?,
            log: BufWriter::new(create("log")?),
            show,
        })
    }

    /// Takes bytes of the line that came `at` after QEMU's start.
    pub(crate) fn take(&mut self, bytes: &[u8], at: Duration) -> Result<()> {
        self.serial.write_all(bytes).context("cannot write the run's log: is the disk full?")?;
        let mut lines = Vec::new();
        let (results, decoder) = (&mut self.results, &self.decoder);
        self.reader.feed(bytes, &mut |piece| lines.push(piece_line(piece, decoder, results, at)));
        lines.into_iter().try_for_each(|line| self.write(&line))
    }

    /// Takes what is left at the end, or at a pause, and writes everything out.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let mut lines = Vec::new();
        let (results, decoder) = (&mut self.results, &self.decoder);
        self.reader.finish(&mut |piece| lines.push(piece_line(piece, decoder, results, Duration::MAX)));
        lines.into_iter().try_for_each(|line| self.write(&line))?;
        self.log.flush().context("cannot write the run's log: is the disk full?")
    }

    fn write(&mut self, line: &Written) -> Result<()> {
        let text = match line {
            Written::Log(line) => {
                if self.show.is_some_and(|filter| filter.shows(&line.component, line.level)) {
                    eprintln!("{}", line.text);
                }
                &line.text
            }
            Written::Other(text) => text,
        };
        writeln!(self.log, "{text}").context("cannot write the run's log: is the disk full?")
    }
}

/// A line of the log file.
enum Written {
    Log(Line),
    Other(String),
}

fn piece_line(piece: Piece<'_>, decoder: &Decoder, results: &mut Results, at: Duration) -> Written {
    let Piece::Frame { component, kind, bytes } = piece else {
        let Piece::Noise(bytes) = piece else { return Written::Other(String::new()) };
        return Written::Other(String::from_utf8_lossy(bytes).trim_end().to_owned());
    };
    let name = decoder.name(component);
    match kind {
        Kind::Log => Written::Log(decoder.line(component, bytes)),
        Kind::Report => match Report::decode(bytes) {
            Some(report) if missing::may_say(component, &name, &report) => {
                let text = format!("{:>12} {name:<16} {report:?}", "");
                results.add(report, at);
                Written::Other(text)
            }
            Some(report) => {
                results.fail(&name, "it reports what is not its own to report");
                Written::Other(format!("{name} reports what is not its own: {report:?}"))
            }
            None => {
                results.fail(&name, "it reports bytes that do not decode");
                Written::Other(format!("{name} reports {} bytes that do not decode", bytes.len()))
            }
        },
        Kind::Clock => {
            let now = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            results.set_clock(now, at);
            Written::Other(format!("{:>12.6} {name:<16} the line's time", now as f64 / 1e9))
        }
        Kind::Lost => {
            let lost = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let text = format!("{name}: {lost} bytes of the log are lost so far");
            results.lost_log_bytes.insert(name, lost);
            Written::Other(text)
        }
    }
}

/// A word as a shell takes it.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests;
