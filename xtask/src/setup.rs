//! `cargo xtask setup`: prepares everything that the other commands need. They run it themselves, so users need not.
//!
//! It checks the packages, the Rust target of programs for seL4, QEMU's version, and the kernel. Parts that are there already are
//! not changed; the whole check then takes a fraction of a second. `vfio_user` installs a second QEMU and `linux_guest` a Linux, on request
//! only, as are the packages of Slurm.

pub mod chosen_kernel;
pub mod linux_guest;
pub mod packages;
mod private;
pub mod vfio_user;

use crate::progress::Step;
use crate::project::Project;
use anyhow::{Context, Result, bail, ensure};
use kernel::{Arch, BuildOptions, Kernel};
use packages::{Consent, Use};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Release of QEMU that the project is tested with.
const QEMU: (u32, u32) = (7, 2);
/// Time QEMU may take to print its version.
const VERSION_WAIT: Duration = Duration::from_secs(10);
/// Environment variable that allows any version of QEMU.
const ANY_QEMU_VARIABLE: &str = "CAPNVME_ANY_QEMU";

/// Prepares the build machine for systems on one architecture's machine, and builds the kernel for `options`.
pub fn prepare(project: &Project, consent: Consent, options: &BuildOptions) -> Result<Kernel> {
    prepare_tools(consent, Use::Machine(options.arch))?;
    build_kernel(project, options)
}

/// Prepares the build machine for all commands, and builds the x86_64 kernel.
pub fn prepare_everything(project: &Project, consent: Consent) -> Result<Kernel> {
    prepare_tools(consent, Use::Everything)?;
    build_kernel(project, &BuildOptions::default())
}

/// Installs Slurm and GNU parallel.
pub fn prepare_schedulers(consent: Consent) -> Result<()> {
    packages::ensure_installed(consent, Use::Schedulers)
}

/// Installs nvme-cli.
pub fn prepare_nvme_cli(consent: Consent) -> Result<()> {
    packages::ensure_installed(consent, Use::NvmeCli)
}

/// Installs a browser and Prometheus, for the tests of the page of a running system.
pub fn prepare_browser(consent: Consent) -> Result<()> {
    packages::ensure_installed(consent, Use::Browser)
}

/// Prepares packages, targets and QEMU, without the kernel.
fn prepare_tools(consent: Consent, used: Use) -> Result<()> {
    packages::ensure_installed(consent, used)?;
    used.architectures().into_iter().try_for_each(|arch| {
        ensure_target(kernel::target(arch))?;
        check_qemu(arch)
    })
}

/// The kernel for `options`, built if it is missing.
pub fn build_kernel(project: &Project, options: &BuildOptions) -> Result<Kernel> {
    let mut step = None;
    // The step appears with the builder's first message, so one without work is not shown.
    kernel::build(project.root(), options, &mut |line| {
        step.get_or_insert_with(|| Step::new("building the kernel")).say(line);
    })
    .with_context(|| match options.installed {
        Some(_) => "the installed kernel cannot be used",
        None => "the kernel cannot be built",
    })
}

fn ensure_target(target: &str) -> Result<()> {
    let listed = Command::new("rustup").args(["target", "list", "--installed"]).output().context(
        "cannot run rustup, which installs the Rust target of programs for seL4; install it from https://rustup.rs",
    )?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    if listed.lines().any(|one| one == target) {
        return Ok(());
    }
    let _step = Step::new(format!("installing the Rust target {target}"));
    let added = Command::new("rustup").args(["target", "add", target]).output().context("cannot run rustup")?;
    ensure!(
        added.status.success(),
        "installing the Rust target failed: {}; once its server can be reached, run: rustup target add {target}",
        String::from_utf8_lossy(&added.stderr).lines().last().unwrap_or("rustup said nothing")
    );
    Ok(())
}

fn check_qemu(arch: Arch) -> Result<()> {
    let program = kernel::qemu::program(arch).display().to_string();
    let text = said(Command::new(kernel::qemu::program(arch)).arg("--version"), VERSION_WAIT).with_context(|| {
        format!("cannot run QEMU ({program}); install it with: sudo apt-get install {}", kernel::qemu::package(arch))
    })?;
    let Some(text) = text else {
        bail!(
            "{program} does not answer --version within {} seconds: name another program in {}",
            VERSION_WAIT.as_secs(),
            kernel::qemu::variable(arch)
        );
    };
    if std::env::var_os(ANY_QEMU_VARIABLE).is_some() {
        return Ok(());
    }
    check_version(arch, &program, &text)
}

/// Output of `command`; `None` if it takes longer than `limit`. Then it is killed, with its children.
fn said(command: &mut Command, limit: Duration) -> io::Result<Option<String>> {
    let deadline = Instant::now() + limit;
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = piped.process_group(0).spawn()?;
    let (sender, receiver) = mpsc::channel();
    if let Some(mut output) = child.stdout.take() {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.read_to_end(&mut bytes).map(|_| bytes);
            // The receiver is gone once the limit is over.
            let _ = sender.send(read);
        });
    }
    let read = receiver.recv_timeout(limit);
    // The command may close its output and continue.
    while child.try_wait()?.is_none() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    if child.try_wait()?.is_none() || read.is_err() {
        // The rest of the process group may have ended at this moment.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        child.wait()?;
        return Ok(None);
    }
    read.ok().transpose().map(|bytes| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn check_version(arch: Arch, program: &str, text: &str) -> Result<()> {
    let (major, minor) = QEMU;
    let fix = format!(
        "install Debian 12's with: sudo apt-get install {}, name another program in {}, or set {ANY_QEMU_VARIABLE}=1 to \
         try this one",
        kernel::qemu::package(arch),
        kernel::qemu::variable(arch)
    );
    match version(text) {
        Some(found) if found == QEMU => Ok(()),
        Some((a, b)) => bail!("{program} is QEMU {a}.{b}, and this project is for QEMU {major}.{minor}: {fix}"),
        None => bail!("{program} does not say its version, and this project is for QEMU {major}.{minor}: {fix}"),
    }
}

/// Major and minor number from the output of `--version`.
fn version(text: &str) -> Option<(u32, u32)> {
    let (_, after) = text.split_once("version ")?;
    let mut numbers = after.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_qemu_prints() {
        assert_eq!(version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright"), Some((7, 2)));
        assert_eq!(version("QEMU emulator version 10.0.2"), Some((10, 0)));
        assert_eq!(version("hello"), None);
    }

    #[test]
    fn a_program_that_does_not_answer_in_time_is_ended() {
        let shell = |script: &str, limit| said(Command::new("sh").args(["-c", script]), limit).unwrap();
        assert_eq!(shell("echo version 7.2", Duration::from_secs(60)).as_deref(), Some("version 7.2\n"));
        let limit = Duration::from_millis(200);
        for script in ["sleep 600", "echo version 7.2; sleep 600", "exec >&-; sleep 600", "sleep 600 &"] {
            let since = Instant::now();
            assert_eq!(shell(script, limit), None, "{script}");
            assert!(since.elapsed() < Duration::from_secs(60), "{script}");
        }
    }

    #[test]
    fn a_wrong_version_is_refused_with_what_to_do() {
        let error = check_version(Arch::X86_64, "qemu", "QEMU emulator version 5.1.0").unwrap_err().to_string();
        assert!(error.starts_with("qemu is QEMU 5.1, and this project is for QEMU 7.2: install"), "{error}");
        assert!(
            check_version(Arch::X86_64, "qemu", "nothing")
                .unwrap_err()
                .to_string()
                .contains("does not say its version")
        );
        assert!(check_version(Arch::X86_64, "qemu", "QEMU emulator version 7.2.9").is_ok());
    }
}
