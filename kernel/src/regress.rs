//! What each fix is for, shown on the running kernel: the root task of `kernel/regress/` in QEMU, with the fix and
//! without it.
//!
//! [`check`] does both for one fix; it is what `xtask test` calls. The root task gets the name of the test through a
//! `fw_cfg` file and writes its verdict to the debug console, which QEMU keeps in a file.
//!
//! Left out: the AArch64 kernel, whose one fix of its own ([`FixName::TimerOwner`]) is shown by the system that ticks, and fixes that cannot be seen in a running kernel
//! ([`FixName::Popcount`], for which linking is the test).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::arch::Arch;
use crate::build::{BuildOptions, Kernel, Profile, build, check_multicore_links};
use crate::fixes::{Fix, FixName};
use crate::{complaint, qemu};

/// Longest time without a sign of life. Much longer than any step of a test takes, for build machines that are busy.
const SILENCE: Duration = Duration::from_secs(12);
/// Longest time for a whole test.
const LIMIT: Duration = Duration::from_secs(60);
/// How often to look.
const PAUSE: Duration = Duration::from_millis(50);
/// The target of programs for seL4.
const TARGET: &str = "x86_64-unknown-none";

/// What came of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The defect was not seen.
    Passed,
    /// The root task saw the defect: what it was.
    Failed(String),
    /// The machine stopped before there was a verdict: the last line the root task wrote.
    Stopped(String),
}

/// Builds the root task for `kernel`'s interface and says where it is.
///
/// `workspace_root` is the folder of the project's top manifest. Fails when cargo does, for instance because the target
/// `x86_64-unknown-none` is not installed.
pub fn build_rootserver(workspace_root: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(workspace_root)
        .args(["build", "--quiet", "--release", "--package", "kernel-regress", "--target", TARGET])
        .arg("--target-dir")
        .arg(workspace_root.join("target"))
        .env("SEL4_KERNEL", &kernel.folder)
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "the kernel's test program cannot be built, and cargo says: {}; if the target is missing, run: rustup target \
         add {TARGET}",
        complaint::line(&output)
    );
    Ok(workspace_root.join("target").join(TARGET).join("release/kernel-regress"))
}

/// Boots `kernel` with the root task `rootserver` and gives what came of the test named `test`.
///
/// QEMU is the one that [`qemu::program`] names. What the root task writes is kept in `log`, and what the kernel writes
/// on the serial port (a debug kernel does) beside it with the extension `serial`. Fails when QEMU cannot be run, and
/// when the test itself could not be done: neither says anything about the kernel.
pub fn run(kernel: &Kernel, rootserver: &Path, test: &str, log: &Path) -> Result<Outcome> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    // An old log must not be taken for this run's.
    File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let program = qemu::program(kernel.arch);
    let mut machine = Qemu(command(&program, kernel, rootserver, test, log).spawn().with_context(|| {
        let program = program.display();
        format!("cannot run QEMU ({program}); install it with: apt-get install qemu-system-x86")
    })?);
    machine.wait(log)?;
    let text = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    outcome(&String::from_utf8_lossy(&text)).with_context(|| format!("test {test}; the log is {}", log.display()))
}

/// Shows that the fix `name` is needed and works: its tests pass on kernels with all fixes, release and debug, and none
/// of them passes on one that lacks this fix.
///
/// `logs` is the folder for the runs' logs, `say` gets one line per step. Fails, saying which of the two was not so,
/// and for every reason for which [`build()`] and [`run`] fail.
pub fn check(workspace_root: &Path, name: FixName, logs: &Path, say: &mut dyn FnMut(&str)) -> Result<()> {
    if name == FixName::Popcount {
        return check_popcount(workspace_root, say);
    }
    // One program for all: neither profile nor fixes change the kernel's interface.
    let rootserver = build_rootserver(workspace_root, &build(workspace_root, &BuildOptions::default(), say)?)?;
    for profile in [Profile::Release, Profile::Debug] {
        let with = build(workspace_root, &BuildOptions { profile, ..BuildOptions::default() }, say)?;
        for test in tests(name) {
            let outcome = run(&with, &rootserver, test, &log_file(logs, test, &with))?;
            ensure!(
                outcome == Outcome::Passed,
                "kernel fix '{name}' does not help ({profile:?} kernel, test {test}): {outcome:?}"
            );
            say(&format!("{test}: passes on the {profile:?} kernel with the fix"));
        }
    }
    for profile in spoiled_profiles(name) {
        let without = build(
            workspace_root,
            &BuildOptions { profile: *profile, without: vec![name], ..BuildOptions::default() },
            say,
        )?;
        for test in tests(name) {
            match run(&without, &rootserver, test, &log_file(logs, test, &without))? {
                Outcome::Passed => {
                    bail!("test {test} passes on the {profile:?} kernel without fix '{name}', so it shows nothing")
                }
                Outcome::Failed(what) => say(&format!("{test}: fails without the fix: {what}")),
                Outcome::Stopped(last) => {
                    say(&format!("{test}: without the fix the {profile:?} kernel stops, last line '{last}'"));
                }
            }
        }
    }
    Ok(())
}

/// The root task's tests of a fix; each is one way in which the defect shows.
pub fn tests(name: FixName) -> &'static [&'static str] {
    match name {
        FixName::StackAlignment => &["stack-alignment"],
        FixName::FrameCopy => &["frame-copy-vspace", "frame-copy-io-space"],
        FixName::ContextCache => &["context-cache-table", "context-cache-space"],
        FixName::Popcount => &[],
        FixName::EndpointBadge => &["endpoint-badge"],
        FixName::IoPageTable => &["io-page-table-entries", "io-page-table-copies"],
        FixName::IoSpaceRevoke => {
            &["io-space-revoke-copy", "io-space-revoke-dma", "io-space-revoke-master", "io-space-revoke-mint"]
        }
        FixName::SuspendAfterCall => &["suspend-after-call"],
        FixName::TimerOwner => &[],
    }
}

/// The kernels to spoil: the debug kernel only where the defect shows in another way there, because it takes time.
fn spoiled_profiles(name: FixName) -> &'static [Profile] {
    match name {
        FixName::EndpointBadge => &[Profile::Release, Profile::Debug],
        _ => &[Profile::Release],
    }
}

fn log_file(logs: &Path, test: &str, kernel: &Kernel) -> PathBuf {
    let kernel = kernel.folder.file_name().unwrap_or_default().to_string_lossy();
    logs.join(format!("{test}-on-{kernel}.log"))
}

fn check_popcount(workspace_root: &Path, say: &mut dyn FnMut(&str)) -> Result<()> {
    let name = FixName::Popcount;
    check_multicore_links(workspace_root, &[], say).context("the multi-core kernel does not link with all fixes")?;
    say(&format!("{name}: the multi-core kernel links with the fix"));
    match check_multicore_links(workspace_root, &[name], say) {
        Ok(()) => bail!("the multi-core kernel links without kernel fix '{name}', so the fix is not needed"),
        Err(error) => {
            let reason = format!("{error:#}");
            ensure!(reason.contains("popcount"), "the multi-core kernel fails for another reason: {reason}");
            say(&format!("{name}: the multi-core kernel does not link without the fix"));
            Ok(())
        }
    }
}

/// Every fix of the x86_64 kernel, in order, for a caller that checks them all.
pub fn all() -> impl Iterator<Item = FixName> {
    Fix::of(Arch::X86_64).map(|fix| fix.name)
}

fn command(program: &OsStr, kernel: &Kernel, rootserver: &Path, test: &str, log: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["-M", "q35", "-cpu", "Nehalem", "-smp", "1", "-m", "256"])
        .args(["-nodefaults", "-display", "none", "-no-reboot"])
        // First, so that the devices after it are behind it.
        .args(["-device", "intel-iommu"])
        .args(["-device", "edu,addr=4"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"])
        .arg("-debugcon")
        .arg(file_option(log))
        .arg("-serial")
        .arg(file_option(&log.with_extension("serial")))
        .args(["-fw_cfg", &format!("name=opt/capnvme/regress,string={test}")])
        .arg("-kernel")
        .arg(&kernel.elf32)
        .arg("-initrd")
        .arg(rootserver)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// QEMU's name for a file that takes a port's output. A comma in the path is doubled.
fn file_option(path: &Path) -> String {
    format!("file:{}", path.display().to_string().replace(',', ",,"))
}

/// A running QEMU, ended with this value.
struct Qemu(Child);

impl Qemu {
    /// Waits until it has ended, or has been silent or running for too long.
    fn wait(&mut self, log: &Path) -> Result<()> {
        let start = Instant::now();
        let mut last_sign = start;
        let mut length = 0;
        while self.0.try_wait().context("cannot wait for QEMU")?.is_none() {
            let now = Instant::now();
            let new_length = fs::metadata(log).map_or(0, |metadata| metadata.len());
            if new_length != length {
                length = new_length;
                last_sign = now;
            }
            if now - last_sign > SILENCE || now - start > LIMIT {
                return Ok(());
            }
            sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The outcome that the root task's output stands for.
fn outcome(text: &str) -> Result<Outcome> {
    match text.lines().find_map(|line| line.strip_prefix("verdict: ")) {
        Some("pass") => Ok(Outcome::Passed),
        Some(verdict) => match verdict.split_once(": ") {
            Some(("fail", what)) => Ok(Outcome::Failed(what.to_owned())),
            Some(("broken", what)) => bail!("the test could not be done: {what}"),
            // The machine stopped in the middle of the line.
            _ => Ok(Outcome::Stopped(verdict.to_owned())),
        },
        None => match text.lines().last() {
            Some(line) => Ok(Outcome::Stopped(line.to_owned())),
            None => bail!("the root task wrote nothing: it did not start"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_understood() {
        assert_eq!(outcome("irq 0x0\nverdict: pass\n").unwrap(), Outcome::Passed);
        assert_eq!(outcome("verdict: fail: it writes\n").unwrap(), Outcome::Failed("it writes".into()));
        assert_eq!(outcome("irq 0x0\nirq 0x3\n").unwrap(), Outcome::Stopped("irq 0x3".into()));
    }

    #[test]
    fn a_test_that_could_not_be_done_says_nothing_about_the_kernel() {
        let error = outcome("verdict: broken: retype, error 0xa\n").unwrap_err().to_string();
        assert!(error.contains("retype, error 0xa"), "{error}");
        assert!(outcome("").is_err());
    }

    #[test]
    fn every_fix_that_shows_in_a_running_kernel_has_a_test_there() {
        for name in all() {
            assert_eq!(tests(name).is_empty(), name == FixName::Popcount, "{name}");
        }
    }

    #[test]
    fn a_comma_in_a_path_does_not_end_the_option() {
        assert_eq!(file_option(Path::new("/a,b")), "file:/a,,b");
    }
}
