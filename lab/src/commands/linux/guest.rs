//! A run of a Linux guest: boots it with a controller and a job, and reads what the job reports.

use crate::model;
use anyhow::Result;
use capdl::Scenario;
use kernel::Arch;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use xtask::machine::Machine;
use xtask::machine::qemu::{self, Boot, Parts, Start, Time};
use xtask::project::{Project, write_whole};
use xtask::run::{Device, make_disks};
use xtask::setup::linux_guest::LinuxGuest;
use xtask::setup::vfio_user::VfioUserQemu;

/// Arguments of every guest's kernel. Programs may read registers while a driver has them.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet mitigations=off panic=-1 iomem=relaxed";
/// Beginning of the lines of the serial line that are reports.
const REPORT: &str = "capnvme: ";
/// File of a run's folder.
pub(super) const COUNTS: &str = "counts";
/// The last report of every job.
const DONE: &str = "done";
/// Longest wait for bytes of the serial line before it is seen whether the guest has ended.
const SILENCE: Duration = Duration::from_secs(1);
/// Time a guest may take, on a machine with other work.
const LIMIT: Duration = Duration::from_secs(600);
/// Time in which its first process has to say something, on such a machine. It takes some ten seconds on a quiet one.
const BOOT: Duration = Duration::from_secs(120);

/// The programs that every run needs.
pub(crate) struct Tools {
    pub(super) qemu: VfioUserQemu,
    pub(super) guest: LinuxGuest,
}

/// A run.
pub(super) struct Run<'a> {
    /// Name of its folder below `target/linux/`.
    pub(super) name: String,
    /// The machine and its controller.
    pub(super) scenario: &'a Scenario,
    /// The owner of the controller: the simulator or QEMU.
    pub(super) device: Device,
    /// Further arguments of the kernel.
    pub(super) kernel: &'a str,
    /// Whether the firmware leaves the controller alone.
    pub(super) only_linux: bool,
    /// The instruction counter, which needs QEMU's own controller; its output goes to the file `counts` in the run's folder.
    pub(super) counter: Option<&'a Path>,
    /// The first process and the job, and files that they use, by path.
    pub(super) files: &'a [(&'a str, &'a [u8])],
}

impl Run<'_> {
    /// Runs the job to its end; returns its reports in order, without what marks them. A guest that does not come to its first process
    /// is booted once more: two emulated processors on a loaded machine now and then stand still in Linux's start, also with QEMU's
    /// own controller.
    ///
    /// # Errors
    /// The guest does not start, does not end in time, or ends before its job does.
    pub(super) fn reports(&self, project: &Project, tools: &Tools) -> Result<Reports> {
        let first = self.boot(project, tools)?;
        if !first.is_silent {
            return Ok(first);
        }
        Ok(Reports { unsteady: first.failures().pop(), ..self.boot(project, tools)? })
    }

    fn boot(&self, project: &Project, tools: &Tools) -> Result<Reports> {
        let folder = project.target_folder(&format!("linux/{}", self.name))?;
        make_disks(self.scenario, &folder, None)?;
        let files = folder.join("files.cpio");
        tools.guest.write_files(&files, self.files)?;
        let models = match self.device {
            Device::Qemu => None,
            Device::Model => Some(model::serve(self.scenario, &folder, None)?),
        };
        let sockets = models.as_ref().map(|models| models.sockets());
        let linux = tools.guest.kernel();
        let argument = format!("out={}", folder.join(COUNTS).display());
        let time = self.counter.map_or(Time::Real, |plugin| Time::Counted { plugin, argument: &argument });
        let parts = Parts {
            boot: Boot::Linux {
                kernel: &linux,
                files: &files,
                arguments: &format!("{KERNEL_ARGUMENTS} {}", self.kernel),
                only_linux: self.only_linux,
            },
            scenario: self.scenario,
            images: &folder,
            disk: None,
            time,
            models: sockets.as_deref(),
            start: Start::AtOnce,
        };
        let qemu = match self.counter {
            Some(_) => Command::new(kernel::qemu::program(Arch::X86_64)),
            None => tools.qemu.command(),
        };
        let machine = Machine::start_with(qemu, &qemu::arguments(&parts)?, &folder, &[])?;
        let (serial, hang) = read_to_end(machine)?;
        write_whole(&folder.join("serial"), &serial)?;
        let mut failed = models.map_or_else(Vec::new, |models| models.end().0);
        let reports = reports(&String::from_utf8_lossy(&serial));
        // They are large, and can be made again.
        let _ = fs::remove_file(&files);
        xtask::run::remove_disks(self.scenario, &folder);
        let log = shown(project, &folder);
        match hang {
            Some(hang) => failed.push(format!("{hang}; see {log}")),
            None if reports.last().map(String::as_str) != Some(DONE) => {
                failed.push(format!("the guest ended before its job; see {log}"));
            }
            None => {}
        }
        let is_silent = serial.is_empty();
        Ok(Reports { lines: reports, failed, serial: log, is_silent, unsteady: None })
    }
}

/// Results of a run.
pub(super) struct Reports {
    /// The job's reports.
    pub(super) lines: Vec<String>,
    /// Failures outside the job, one sentence each.
    failed: Vec<String>,
    /// Path of the whole serial line.
    serial: String,
    /// Whether nothing came on the serial line.
    is_silent: bool,
    /// The failure of the first boot, if this is the second.
    unsteady: Option<String>,
}

impl Reports {
    #[cfg(test)]
    pub(super) const fn of(lines: Vec<String>) -> Self {
        Self { lines, failed: Vec::new(), serial: String::new(), is_silent: false, unsteady: None }
    }

    /// The failure of a boot that was repeated.
    pub(super) const fn unsteady(&self) -> Option<&String> {
        self.unsteady.as_ref()
    }

    /// All failures, one sentence each.
    pub(super) fn failures(&self) -> Vec<String> {
        let of_job = self.lines.iter().filter_map(|line| line.strip_prefix("failed: "));
        let of_job = of_job.map(|reason| format!("{reason}; see {}", self.serial));
        of_job.chain(self.failed.iter().cloned()).collect()
    }
}

fn shown(project: &Project, folder: &Path) -> String {
    project.shown(&folder.join("serial"))
}

/// Reads the serial line until the machine is switched off. A guest that is late is ended, and the sentence about it is returned, too.
fn read_to_end(mut machine: Machine) -> Result<(Vec<u8>, Option<String>)> {
    let mut serial = Vec::new();
    let mut waits = machine.waits();
    loop {
        let age = machine.age();
        if age > LIMIT || (serial.is_empty() && age > BOOT) {
            waits.sample(age);
            machine.end()?;
            let ran = waits.end().last().map_or(Duration::ZERO, |sample| sample.ran);
            let hang = hang(&String::from_utf8_lossy(&serial), age, ran);
            return Ok((serial, Some(hang)));
        }
        match machine.read(SILENCE)? {
            Some(bytes) => serial.extend(bytes),
            None if machine.gone()?.is_some() => return Ok((serial, None)),
            None => {}
        }
    }
}

/// Describes a guest that did not end, by its last line and by the processor time of QEMU's busiest thread.
fn hang(serial: &str, age: Duration, ran: Duration) -> String {
    let last = serial.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let said = last.map_or_else(|| "it said nothing".to_owned(), |line| format!("its last line is: {line}"));
    let (age, ran) = (age.as_secs(), ran.as_secs());
    format!("the guest has not ended in {age} s, of which QEMU's busiest thread ran {ran} s; {said}")
}

/// The reports in a serial line.
fn reports(serial: &str) -> Vec<String> {
    serial.lines().filter_map(|line| line.strip_prefix(REPORT)).map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_told_from_the_log() {
        let serial = "boot\r\ncapnvme: passed: a\r\nsubnqn: x.capnvme: y\r\ncapnvme: done\r\n";
        assert_eq!(reports(serial), ["passed: a", "done"]);
    }

    #[test]
    fn a_guest_that_hangs_is_told_by_its_last_line() {
        let hung = hang("SeaBIOS\r\n\r\nBooting from ROM..\r\n\r\n", LIMIT, Duration::from_millis(2_900));
        let expected = "the guest has not ended in 600 s, of which QEMU's busiest thread ran 2 s; its last line is: Booting from ROM..";
        assert_eq!(hung, expected);
        assert!(hang("\n", BOOT, Duration::ZERO).ends_with("ran 0 s; it said nothing"));
    }

    #[test]
    fn a_failed_step_is_a_failure_with_its_log() {
        let lines = vec!["passed: a".to_owned(), "failed: b: status 1".to_owned(), "done".to_owned()];
        let failed = vec!["the model".to_owned()];
        let reports = Reports { failed, serial: "s".to_owned(), ..Reports::of(lines) };
        assert_eq!(reports.failures(), ["b: status 1; see s", "the model"]);
    }
}
