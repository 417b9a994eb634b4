//! A QEMU with the device `vfio-user-pci`, installed privately.
//!
//! Debian 12's QEMU has only the server side of vfio-user. This one comes from Debian 13's backports, and starts from its folder.
//! Left out: the device's server.

use super::private::{Installed, Tool};
use super::said;
use crate::project::Project;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const TOOL: Tool = Tool {
    name: "qemu-vfio-user",
    what: "a QEMU with vfio-user",
    option: "--with-vfio-user",
    packages: &["qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios", "ipxe-qemu"],
    recipe: "recipe 1",
};
/// Kept of the packages' files. The others are for installed systems: documents, accounts, programs that run as root.
const KEPT: &[&str] = &["usr/lib", "usr/lib64", FIRMWARE[0], FIRMWARE[1], PROGRAM];
const PROGRAM: &str = "usr/bin/qemu-system-x86_64";
/// The loader and the libraries of Debian's packages for this architecture.
pub(super) const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
pub(super) const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Folders of firmware, in QEMU's order. It would search the machine's own after them.
const FIRMWARE: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];

/// The sentence for a machine without it.
pub const MISSING: &str = "QEMU's device vfio-user-pci is missing; install a QEMU that has it below target/ with: cargo xtask setup --with-vfio-user";

/// The device that this QEMU is for.
const DEVICE: &str = "vfio-user-pci";
/// Time QEMU may take to print a text.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// The packages' files, in the tool's folder.
const ROOT: &str = "root";

/// An installed QEMU with the device `vfio-user-pci`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VfioUserQemu {
    root: PathBuf,
    version: String,
}

impl VfioUserQemu {
    fn of(installed: Installed) -> Self {
        Self { root: installed.folder.join(ROOT), version: installed.version }
    }

    /// QEMU's version and, in parentheses, its package's.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The command that starts QEMU; its only arguments for QEMU are the folders of firmware.
    ///
    /// The process has the loader's name. It can list a device's options (`-device NAME,help`), but not all devices: for that, QEMU
    /// would load every module, also those of the machine's QEMU.
    pub fn command(&self) -> Command {
        command(&self.root)
    }
}

fn command(root: &Path) -> Command {
    let libraries = root.join(LIBRARIES);
    let mut command = Command::new(root.join(LOADER));
    // QEMU searches the machine's folder of modules after this one.
    command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
    command.arg("--library-path").arg(libraries).arg(root.join(PROGRAM));
    for folder in FIRMWARE {
        command.arg("-L").arg(root.join(folder));
    }
    command
}

/// The QEMU that is installed, see [`Tool::installed`].
pub fn installed(project: &Project) -> Result<Option<VfioUserQemu>> {
    Ok(TOOL.installed(project)?.map(VfioUserQemu::of))
}

/// Installs QEMU, see [`Tool::install`].
///
/// # Errors
/// The packages cannot be fetched or unpacked, or their QEMU lacks the device.
pub fn install(project: &Project) -> Result<VfioUserQemu> {
    let fill = |unpacked: &Path, whole: &Path| {
        let root = whole.join(ROOT);
        keep(unpacked, &root)?;
        checked_version(&root)
    };
    TOOL.install(project, fill).map(VfioUserQemu::of)
}

/// Moves the files in [`KEPT`].
fn keep(unpacked: &Path, root: &Path) -> Result<()> {
    for path in KEPT {
        let (from, to) = (unpacked.join(path), root.join(path));
        fs::create_dir_all(to.parent().unwrap_or(root))
            .and_then(|()| fs::rename(&from, &to))
            .with_context(|| format!("cannot move {}, which QEMU's packages should have", from.display()))?;
    }
    Ok(())
}

/// The version of the QEMU in `root`, once it is known to have the device.
fn checked_version(root: &Path) -> Result<String> {
    let text = answer(command(root).arg("--version"))?;
    let version = version(&text).with_context(|| {
        format!("the QEMU of the packages does not start; see why with: {:?}", command(root).arg("--version"))
    })?;
    let qemu = VfioUserQemu { root: root.to_path_buf(), version };
    let options = answer(qemu.command().args(["-device", &format!("{DEVICE},help")]))?;
    ensure!(
        lists_options(&options),
        "the packages' QEMU {} has no {DEVICE}: wait until the mirror has 10.1 or later",
        qemu.version
    );
    Ok(qemu.version)
}

fn answer(command: &mut Command) -> Result<String> {
    let text = said(command, ANSWER_WAIT).with_context(|| format!("cannot run {command:?}"))?;
    text.with_context(|| format!("QEMU does not answer within {} seconds: {command:?}", ANSWER_WAIT.as_secs()))
}

/// Whether QEMU's answer lists options of the device. For a device that it lacks, it ends with success too.
fn lists_options(answer: &str) -> bool {
    answer.starts_with(&format!("{DEVICE} options:"))
}

/// QEMU's and its package's version from the output of `--version`.
fn version(text: &str) -> Option<String> {
    let (_, version) = text.lines().next()?.split_once("version ")?;
    Some(version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    const VERSION: &str = "11.1.3 (Debian 1:11.1.3+ds-1~bpo13+1)";

    #[test]
    fn the_command_has_loader_libraries_program_and_firmware_of_one_folder() {
        let command = VfioUserQemu::of(Installed { folder: "/q".into(), version: VERSION.to_owned() }).command();
        assert_eq!(command.get_program(), "/q/root/usr/lib64/ld-linux-x86-64.so.2");
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(
            arguments,
            [
                "--library-path",
                "/q/root/usr/lib/x86_64-linux-gnu",
                "/q/root/usr/bin/qemu-system-x86_64",
                "-L",
                "/q/root/usr/share/qemu",
                "-L",
                "/q/root/usr/share/seabios"
            ]
        );
        let modules = OsStr::new("/q/root/usr/lib/x86_64-linux-gnu/qemu");
        assert!(command.get_envs().eq([(OsStr::new("QEMU_MODULE_DIR"), Some(modules))]));
    }

    #[test]
    fn the_version_is_found_in_what_qemu_prints() {
        let text = format!("QEMU emulator version {VERSION}\nCopyright (c) 2003-2026 Fabrice Bellard\n");
        assert_eq!(version(&text).as_deref(), Some(VERSION));
        assert_eq!(version(""), None);
    }

    #[test]
    fn a_device_that_qemu_lacks_has_no_options() {
        assert!(lists_options("vfio-user-pci options:\n  addr=<str>\n"));
        assert!(!lists_options(""));
    }

    #[test]
    fn only_the_kept_files_are_moved() {
        let place = tempfile::tempdir().unwrap();
        let (unpacked, root) = (place.path().join("unpacked"), place.path().join("whole/root"));
        for file in [LOADER, PROGRAM, "usr/lib/libc.so", "usr/share/qemu/a", "usr/share/seabios/b", "usr/bin/passwd"] {
            fs::create_dir_all(unpacked.join(file).parent().unwrap()).unwrap();
            fs::write(unpacked.join(file), b"").unwrap();
        }
        keep(&unpacked, &root).unwrap();
        assert!([LOADER, PROGRAM, "usr/share/seabios/b"].iter().all(|file| root.join(file).is_file()));
        assert!(!root.join("usr/bin/passwd").exists());
        let error = keep(&unpacked, &root).unwrap_err().to_string();
        assert!(error.ends_with("usr/lib, which QEMU's packages should have"), "{error}");
    }
}
