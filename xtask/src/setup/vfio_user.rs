//! A QEMU with the device `vfio-user-pci`, installed privately below `target/tools/`.
//!
//! Debian 12's QEMU has only the server side of vfio-user. This one comes from Debian 13's backports. It has its own copy of every
//! shared library that it needs, the loader included, and starts from its folder: the machine's packages stay as they are. `apt`
//! fetches the packages, `mirror` finds their source. Left out: the device's server.

mod apt;
mod mirror;

use super::said;
use crate::progress::Step;
use crate::project::Project;
use anyhow::{Context, Result, ensure};
use apt::PrivateApt;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Packages whose dependencies are all that QEMU needs.
const PACKAGES: &[&str] = &["qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios", "ipxe-qemu"];
/// Kept of the packages' files. The others are for installed systems: documents, accounts, programs that run as root.
const KEPT: &[&str] = &["usr/lib", "usr/lib64", FIRMWARE[0], FIRMWARE[1], PROGRAM];
const PROGRAM: &str = "usr/bin/qemu-system-x86_64";
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Folders of firmware, in QEMU's order. It would search the machine's own after them.
const FIRMWARE: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];

/// The sentence for a machine without it.
pub(crate) const MISSING: &str = "QEMU's device vfio-user-pci is missing; install a QEMU that has it below target/ with: cargo xtask setup --with-vfio-user";

/// The device that this QEMU is for.
const DEVICE: &str = "vfio-user-pci";
/// Time QEMU may take to print a text.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// Folder of the project that holds the installed QEMU.
const FOLDER: &str = "target/tools/qemu-vfio-user";
/// The packages' files, in the folder.
const ROOT: &str = "root";
/// File in the folder: a line with the recipe, and one with QEMU's version.
const STAMP: &str = "stamp";
/// Changes when [`install`] leaves other files in the folder, or makes them in another way.
const RECIPE: &str = "recipe 1";

/// An installed QEMU with the device `vfio-user-pci`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VfioUserQemu {
    root: PathBuf,
    version: String,
}

impl VfioUserQemu {
    fn at(folder: &Path, version: String) -> Self {
        Self { root: folder.join(ROOT), version }
    }

    /// QEMU's version and, in parentheses, its package's.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The command that starts QEMU; its only arguments for QEMU are the folders of firmware.
    ///
    /// The process has the loader's name. It can list a device's options (`-device NAME,help`), but not all devices: for that, QEMU
    /// would load every module, also those of the machine's QEMU.
    pub(crate) fn command(&self) -> Command {
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

/// The QEMU that is installed; `None` if there is none, or one of another recipe.
///
/// # Errors
/// The stamp cannot be read.
pub(crate) fn installed(project: &Project) -> Result<Option<VfioUserQemu>> {
    let folder = project.path(FOLDER);
    match fs::read_to_string(folder.join(STAMP)) {
        Ok(text) => Ok(stamped(&text).map(|version| VfioUserQemu::at(&folder, version))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {FOLDER}/{STAMP}: remove {FOLDER}")),
    }
}

/// Installs QEMU, unless it is installed.
///
/// Nothing is in QEMU's folder until everything is. After an interruption, the next call starts from nothing.
///
/// # Errors
/// The packages cannot be fetched or unpacked, or their QEMU lacks the device.
pub(crate) fn install(project: &Project) -> Result<VfioUserQemu> {
    if let Some(qemu) = installed(project)? {
        return Ok(qemu);
    }
    project.target_folder("tools")?;
    let folder = project.path(FOLDER);
    let step = Step::new("installing a QEMU with vfio-user");
    let _lock = lock(&folder.with_extension("lock"), &step)?;
    // Another process may have installed it since.
    if let Some(qemu) = installed(project)? {
        return Ok(qemu);
    }
    let part = folder.with_extension("part");
    remove(&part)?;
    let version = fill(&part, &step)?;
    remove(&folder)?;
    fs::rename(part.join("whole"), &folder).with_context(|| format!("cannot move the QEMU to {FOLDER}"))?;
    remove(&part)?;
    Ok(VfioUserQemu::at(&folder, version))
}

/// Waits until no other process installs; the lock ends with the file, or with this process.
fn lock(path: &Path, step: &Step) -> Result<File> {
    let cannot = || format!("cannot lock {}", path.display());
    let file = File::create(path).with_context(cannot)?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => step.say("waiting for another process that installs it"),
        Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
    }
    file.lock().with_context(cannot)?;
    Ok(file)
}

/// Makes the installation in `part/whole`; returns QEMU's version.
fn fill(part: &Path, step: &Step) -> Result<String> {
    let apt = PrivateApt::new(part.join("apt"), &mirror::of_this_machine())?;
    step.say("fetching package lists, some 10 MB");
    apt.update()?;
    step.line(&format!("{}, below {FOLDER}", apt.plan(PACKAGES)?));
    step.say("downloading");
    let packages = apt.download(PACKAGES)?;
    step.say("unpacking");
    let unpacked = part.join("unpacked");
    packages.iter().try_for_each(|package| unpack(package, &unpacked))?;
    let root = part.join("whole").join(ROOT);
    keep(&unpacked, &root)?;
    let version = checked_version(&root)?;
    let stamp = part.join("whole").join(STAMP);
    fs::write(&stamp, stamp_of(&version)).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(version)
}

fn unpack(package: &Path, to: &Path) -> Result<()> {
    let output = Command::new("dpkg-deb")
        .arg("-x")
        .args([package, to])
        .stdin(Stdio::null())
        .output()
        .context("cannot run dpkg-deb: this set-up is for Debian 12 and its relatives")?;
    ensure!(
        output.status.success(),
        "cannot unpack {}: {}; make room there, or start again",
        package.display(),
        String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("dpkg-deb said nothing")
    );
    Ok(())
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

fn stamp_of(version: &str) -> String {
    format!("{RECIPE}\n{version}\n")
}

/// The version in a stamp of this recipe.
fn stamped(stamp: &str) -> Option<String> {
    let (recipe, version) = stamp.split_once('\n')?;
    (recipe == RECIPE).then(|| version.trim_end().to_owned())
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    const VERSION: &str = "11.1.3 (Debian 1:11.1.3+ds-1~bpo13+1)";

    #[test]
    fn the_command_has_loader_libraries_program_and_firmware_of_one_folder() {
        let command = VfioUserQemu::at(Path::new("/q"), VERSION.to_owned()).command();
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
    fn only_a_stamp_of_this_recipe_counts() {
        let place = tempfile::tempdir().unwrap();
        let project = Project::at(place.path());
        assert_eq!(installed(&project).unwrap(), None);
        let folder = place.path().join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(installed(&project).unwrap(), None, "no stamp");
        fs::write(folder.join(STAMP), stamp_of(VERSION)).unwrap();
        assert_eq!(installed(&project).unwrap().unwrap().version(), VERSION);
        assert_eq!(install(&project).unwrap(), VfioUserQemu::at(&folder, VERSION.to_owned()));
        fs::write(folder.join(STAMP), format!("recipe 0\n{VERSION}\n")).unwrap();
        assert_eq!(installed(&project).unwrap(), None, "another recipe");
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
