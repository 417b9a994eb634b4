//! The tests of each fix on the running kernel: the root task of `kernel/regress/` in QEMU, with the fix and without it.
//!
//! [`check`] does both for one fix; `xtask test` calls it. The root task gets the name of the test through a `fw_cfg` file
//! and writes its verdict to a line that QEMU keeps in a file: the debug console on x86_64, the serial port on AArch64.
//!
//! Left out: fixes that cannot be seen in a running kernel ([`FixName::Popcount`], for which linking is the test).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::Arch;
use crate::build::{BuildOptions, Kernel, Profile, build, check_multicore_links};
use crate::fixes::{Fix, FixName};
use crate::{boot, complaint, elf, files, qemu};

/// Longest time without a sign of life. Much longer than any step of a test takes, for build machines that are busy.
const SILENCE: Duration = Duration::from_secs(12);
/// Longest time without a sign of life without the fix: so many times what the whole test took with it, and no less than this.
const TIMES: u32 = 2;
const LEAST_SILENCE: Duration = Duration::from_secs(2);
/// Longest time for a whole test.
const LIMIT: Duration = Duration::from_secs(60);
/// Poll interval.
const PAUSE: Duration = Duration::from_millis(50);
/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The defect was not seen.
    Passed,
    /// The root task saw the defect; with its observation.
    Failed(String),
    /// The machine stopped before there was a verdict: the last line the root task wrote.
    Stopped(String),
}

/// Builds the root task for `kernel`'s interface and returns where it is.
///
/// `workspace_root` is the folder of the project's top manifest. Fails when cargo does, for instance because the target
/// is not installed.
pub fn build_rootserver(workspace_root: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let target = crate::target(kernel.arch);
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(workspace_root)
        .args(["build", "--quiet", "--release", "--package", "kernel-regress", "--target", target])
        .arg("--target-dir")
        .arg(workspace_root.join("target"))
        .env("SEL4_KERNEL", &kernel.folder)
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "the kernel's test program cannot be built, and cargo says: {}; if the target is missing, run: rustup target \
         add {target}",
        complaint::line(&output)
    );
    Ok(workspace_root.join("target").join(target).join("release/kernel-regress"))
}

/// A kernel and its root task, as QEMU boots them.
#[derive(Clone, Debug)]
pub struct Bootable {
    arch: Arch,
    /// The kernel; on AArch64 the file with everything in it.
    kernel: PathBuf,
    /// The root task, where it is a file of its own.
    rootserver: Option<PathBuf>,
    /// The kernel with its symbols.
    symbols: PathBuf,
}

impl Bootable {
    /// Puts `kernel` and `rootserver` together. On AArch64 that is a file in `folder`, with the loader, which is built first.
    ///
    /// Fails when the loader cannot be built, and for invalid files.
    pub fn new(workspace_root: &Path, kernel: &Kernel, rootserver: &Path, folder: &Path) -> Result<Self> {
        let arch = kernel.arch;
        if arch == Arch::X86_64 {
            let (elf, rootserver) = (kernel.elf32.clone(), Some(rootserver.to_owned()));
            return Ok(Self { arch, kernel: elf, rootserver, symbols: kernel.elf64.clone() });
        }
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let loader = boot::build_loader(workspace_root)?;
        let image = boot::image(&read(&kernel.elf64)?, &read(&loader)?, &read(rootserver)?)?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file = folder.join(format!("{}.elf", kernel_name(kernel)));
        files::write_whole(&file, &image)?;
        Ok(Self { arch, kernel: file, rootserver: None, symbols: kernel.elf64.clone() })
    }
}

/// Boots `bootable` and returns the result of the test named `test`. The machine has stopped after `silence` without a sign of life.
///
/// QEMU is the one that [`qemu::program`] names. The root task's output is kept in `log`. The kernel's output on the serial
/// port (a debug kernel has some) is beside it with the extension `serial` on x86_64, and among it on AArch64. Fails when
/// QEMU cannot be run, and when the test itself could not be done: neither proves anything about the kernel.
fn run(bootable: &Bootable, test: &str, log: &Path, silence: Duration) -> Result<Outcome> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    // An old log must not be taken for this run's.
    File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let program = qemu::program(bootable.arch);
    let mut command = command(&program, bootable, test, log);
    let entries = log.with_extension("entries");
    let watch = Watch::of(test);
    if let Some(watch) = &watch {
        // QEMU logs the processor's registers each time before it runs what begins in this range: the function.
        let address = elf::address(&bootable.symbols, watch.function)?;
        command.args(["-d", "cpu,nochain", "-dfilter", &format!("{address:#x}+1"), "-D"]).arg(&entries);
    }
    let mut machine = Qemu(command.spawn().with_context(|| {
        format!(
            "cannot run QEMU ({}); install it with: apt-get install {}",
            program.display(),
            qemu::package(bootable.arch)
        )
    })?);
    machine.wait(log, silence)?;
    drop(machine);
    let read = |log: &Path| fs::read(log).with_context(|| format!("cannot read {}", log.display()));
    let outcome = outcome(&String::from_utf8_lossy(&read(log)?))
        .with_context(|| format!("test {test}; the log is {}", log.display()))?;
    match watch {
        Some(watch) if outcome == Outcome::Passed => watch.outcome(&String::from_utf8_lossy(&read(&entries)?)),
        _ => Ok(outcome),
    }
}

/// What QEMU logs in a test whose outcome the root task cannot see: the flags with which a function of the kernel begins.
struct Watch {
    /// The function, the first compiled one on a way into the kernel of x86_64.
    function: &'static str,
    /// The flags of RFLAGS that must be clear there.
    flags: u32,
}

impl Watch {
    fn of(test: &str) -> Option<Self> {
        const DF: u32 = 1 << 10;
        match test {
            "interrupt-direction" => Some(Self { function: "c_x64_handle_interrupt", flags: DF }),
            // TF, IF, DF, IOPL, NT, RF, AC, ID.
            "syscall-flags-others" => Some(Self { function: "c_handle_syscall", flags: 0x25_7700 }),
            _ => None,
        }
    }

    /// The outcome in QEMU's log.
    fn outcome(&self, log: &str) -> Result<Outcome> {
        let flags: Vec<u32> = log
            .split("RFL=")
            .skip(1)
            .filter_map(|text| text.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()))
            .collect();
        ensure!(!flags.is_empty(), "QEMU logged no call of {}", self.function);
        Ok(match flags.iter().find(|flags| **flags & self.flags != 0) {
            None => Outcome::Passed,
            Some(flags) => Outcome::Failed(format!("{} begins with flags {flags:#x}", self.function)),
        })
    }
}

/// Shows that the fix `name` is needed and works on `arch`: its tests pass on kernels with all fixes, release and debug, and
/// none of them passes on one that lacks this fix.
///
/// `logs` is the folder for the runs' logs, `say` gets one line per step. Fails when one of the two is not so, and names it;
/// and for every reason for which [`build()`] fails or QEMU cannot be run.
pub fn check(workspace_root: &Path, name: FixName, arch: Arch, logs: &Path, say: &mut dyn FnMut(&str)) -> Result<()> {
    if name == FixName::Popcount {
        return check_popcount(workspace_root, arch, say);
    }
    let options = BuildOptions { arch, ..BuildOptions::default() };
    // One program for all: neither profile nor fixes change the kernel's interface.
    let rootserver = build_rootserver(workspace_root, &build(workspace_root, &options, say)?)?;
    let mut longest = Duration::ZERO;
    for profile in [Profile::Release, Profile::Debug] {
        let with = build(workspace_root, &BuildOptions { profile, ..options.clone() }, say)?;
        let bootable = Bootable::new(workspace_root, &with, &rootserver, logs)?;
        let start = Instant::now();
        let outcomes = run_all(&bootable, name, logs, &with, SILENCE);
        longest = longest.max(start.elapsed());
        for (test, outcome) in outcomes {
            let outcome = outcome?;
            ensure!(
                outcome == Outcome::Passed,
                "kernel fix '{name}' does not help ({profile:?} kernel, test {test}): {outcome:?}"
            );
            say(&format!("{test}: passes on the {profile:?} kernel with the fix"));
        }
    }
    let silence = longest.saturating_mul(TIMES).clamp(LEAST_SILENCE, SILENCE);
    for profile in spoiled_profiles(name) {
        let options = BuildOptions { profile: *profile, without: vec![name], ..options.clone() };
        let without = build(workspace_root, &options, say)?;
        let bootable = Bootable::new(workspace_root, &without, &rootserver, logs)?;
        for (test, outcome) in run_all(&bootable, name, logs, &without, silence) {
            match outcome? {
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

/// Runs all tests of a fix at the same time: a machine that stopped is noticed only by its long silence.
fn run_all(
    bootable: &Bootable,
    name: FixName,
    logs: &Path,
    kernel: &Kernel,
    silence: Duration,
) -> Vec<(&'static str, Result<Outcome>)> {
    let run = |test| run(bootable, test, &log_file(logs, test, kernel), silence);
    std::thread::scope(|scope| {
        let running: Vec<_> = tests(name).iter().map(|test| (*test, scope.spawn(move || run(test)))).collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| bail!("the run of QEMU panicked"))
        };
        running.into_iter().map(|(test, thread)| (test, ended(thread))).collect()
    })
}

/// The root task's tests of a fix; each shows the defect in another way.
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
        FixName::SyscallFlags => &["syscall-flags-nested-task", "syscall-flags-others"],
        FixName::InterruptDirection => &["interrupt-direction"],
        FixName::SegmentBases => &["segment-bases-schedule", "segment-bases-fastpath"],
        FixName::UserTop => &["user-top-page", "user-top-buffer"],
        FixName::SuspendAfterCall => &["suspend-after-call"],
        FixName::TimerOwner => &["timer-owner"],
        FixName::FpuOwner => &["fpu-owner"],
        FixName::FrameRemap => &["frame-remap"],
        FixName::FrameFlush => &["frame-flush"],
        FixName::FastpathAsid => &["fastpath-asid"],
        FixName::FastpathReply => &["fastpath-reply"],
        FixName::ShortSignal => &["short-signal"],
        FixName::ShortWait => &["short-wait"],
    }
}

/// Whether the clock of the test's machine counts instructions.
fn is_counted(test: &str) -> bool {
    ["fastpath-reply", "short-signal", "short-wait"].contains(&test)
}

/// The kernels to build without the fix: the debug kernel only where the defect shows in another way there, because it takes
/// time.
fn spoiled_profiles(name: FixName) -> &'static [Profile] {
    match name {
        FixName::EndpointBadge => &[Profile::Release, Profile::Debug],
        _ => &[Profile::Release],
    }
}

fn log_file(logs: &Path, test: &str, kernel: &Kernel) -> PathBuf {
    logs.join(format!("{test}-on-{}.log", kernel_name(kernel)))
}

fn kernel_name(kernel: &Kernel) -> String {
    kernel.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn check_popcount(workspace_root: &Path, arch: Arch, say: &mut dyn FnMut(&str)) -> Result<()> {
    let name = FixName::Popcount;
    check_multicore_links(workspace_root, arch, &[], say)
        .context("the multi-core kernel does not link with all fixes")?;
    say(&format!("{name}: the multi-core kernel links with the fix"));
    match check_multicore_links(workspace_root, arch, &[name], say) {
        Ok(()) => bail!("the multi-core kernel links without kernel fix '{name}', so the fix is not needed"),
        Err(error) => {
            let reason = format!("{error:#}");
            ensure!(reason.contains("popcount"), "the multi-core kernel fails for another reason: {reason}");
            say(&format!("{name}: the multi-core kernel does not link without the fix"));
            Ok(())
        }
    }
}

/// Every fix of every architecture's kernel, in order, for a caller that checks them all.
pub fn all() -> impl Iterator<Item = (FixName, Arch)> {
    Arch::ALL.into_iter().flat_map(|arch| Fix::of(arch).map(move |fix| (fix.name, arch)))
}

fn command(program: &OsStr, bootable: &Bootable, test: &str, log: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["-nodefaults", "-display", "none", "-no-reboot"]);
    match bootable.arch {
        Arch::X86_64 => command
            .args(["-M", "q35", "-cpu", "Nehalem", "-smp", "1", "-m", "256"])
            // First, so that the devices after it are behind it.
            .args(["-device", "intel-iommu"])
            .args(["-device", "edu,addr=4"])
            .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"])
            .arg("-debugcon")
            .arg(file_option(log))
            .arg("-serial")
            .arg(file_option(&log.with_extension("serial"))),
        Arch::Aarch64 => command.args(boot::MACHINE.split(' ')).arg("-serial").arg(file_option(log)),
    };
    command
        .args(["-fw_cfg", &format!("name=opt/capnvme/regress,string={test}")])
        .arg("-kernel")
        .arg(&bootable.kernel)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(rootserver) = &bootable.rootserver {
        command.arg("-initrd").arg(rootserver);
    }
    if is_counted(test) {
        // Four nanoseconds an instruction: the x86 kernel calibrates its clock for a fixed time, which takes seconds with one.
        command.args(["-icount", "shift=2,sleep=off"]);
    }
    command
}

/// QEMU's name for a file that takes a port's output. A comma in the path is doubled.
fn file_option(path: &Path) -> String {
    format!("file:{}", path.display().to_string().replace(',', ",,"))
}

/// A running QEMU, which is ended when this value is dropped.
struct Qemu(Child);

impl Qemu {
    /// Waits until it has ended or given a verdict, or has been silent or running for too long.
    fn wait(&mut self, log: &Path, silence: Duration) -> Result<()> {
        let start = Instant::now();
        let mut last_sign = start;
        let mut length = 0;
        while self.0.try_wait().context("cannot wait for QEMU")?.is_none() {
            let now = Instant::now();
            let new_length = fs::metadata(log).map_or(0, |metadata| metadata.len());
            if new_length != length {
                length = new_length;
                last_sign = now;
                // Some machines do not end themselves.
                let text = fs::read(log).unwrap_or_default();
                if verdict(&String::from_utf8_lossy(&text)).is_some_and(|line| line.ends_with('\n')) {
                    return Ok(());
                }
            }
            if now - last_sign > silence || now - start > LIMIT {
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

/// The verdict in the root task's output, as far as it was written.
fn verdict(text: &str) -> Option<&str> {
    text.split_inclusive('\n').find_map(|line| line.trim_start_matches('\r').strip_prefix("verdict: "))
}

/// The outcome that the root task's output reports.
fn outcome(text: &str) -> Result<Outcome> {
    match verdict(text).map(str::trim_end) {
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
    fn flags_are_found_in_qemus_log() {
        let log = |flags: &str| format!("RAX=0000000000000000\nRIP=ffffffff80110000 RFL={flags} [-------] CPL=0\n");
        let watch = Watch::of("interrupt-direction").unwrap();
        assert_eq!(watch.outcome(&log("00000046")).unwrap(), Outcome::Passed);
        let outcome = watch.outcome(&[log("00000046"), log("00000446")].concat()).unwrap();
        assert_eq!(outcome, Outcome::Failed("c_x64_handle_interrupt begins with flags 0x446".into()));
        assert!(watch.outcome("").is_err());
    }

    #[test]
    fn every_fix_that_shows_in_a_running_kernel_has_a_test_there() {
        for (name, arch) in all() {
            assert_eq!(tests(name).is_empty(), name == FixName::Popcount, "{name} on {arch}");
        }
    }

    #[test]
    fn a_comma_in_a_path_does_not_end_the_option() {
        assert_eq!(file_option(Path::new("/a,b")), "file:/a,,b");
    }
}
