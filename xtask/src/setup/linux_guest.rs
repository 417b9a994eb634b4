//! A Linux for virtual machines: Debian's kernel for clouds, and the programs that use disks, unpacked privately.
//!
//! The installation keeps the kernel and an archive in cpio's format "newc". The kernel unpacks the archive into its first file
//! system: the programs, the libraries that each needs, and the modules of I/O schedulers. Left out: the first process and its job, which are
//! in a second archive for each run.

use super::private::{Installed, Tool};
use super::said;
use super::vfio_user::{LIBRARIES, LOADER};
use crate::project::Project;
use anyhow::{Context, Result};
use cpio::newc::{self, Builder};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const TOOL: Tool = Tool {
    name: "linux-guest",
    what: "a Linux guest",
    option: "--with-linux",
    packages: &["linux-image-cloud-amd64", "busybox-static", "fio", "nvme-cli", "e2fsprogs", "kmod"],
    recipe: "recipe 1",
};

/// The sentence for a machine without it.
pub const MISSING: &str = "the Linux guest is missing; install it below target/ with: cargo xtask setup --with-linux";

/// Programs of the packages.
const PROGRAMS: &[&str] =
    &["usr/bin/busybox", "usr/bin/fio", "usr/bin/kmod", "usr/sbin/nvme", "usr/sbin/mke2fs", "usr/sbin/e2fsck"];
/// Other names of programs.
const LINKS: &[(&str, &str)] = &[
    ("bin", "usr/bin"),
    ("sbin", "usr/sbin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("usr/bin/sh", "busybox"),
    ("usr/bin/insmod", "kmod"),
    ("usr/sbin/mkfs.ext4", "mke2fs"),
];
/// Folders; those without files are for mounts.
const FOLDERS: &[&str] =
    &["dev", "etc", "mnt", "proc", "sys", "tmp", "usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"];
/// I/O schedulers, as modules in the kernel's folder of modules.
const SCHEDULERS: &[&str] = &["mq-deadline", "bfq"];

const KERNEL: &str = "vmlinuz";
const ARCHIVE: &str = "programs.cpio";
const DIRECTORY_MODE: u32 = 0o040_755;
const FILE_MODE: u32 = 0o100_755;
const LINK_MODE: u32 = 0o120_777;
/// Time the loader may take to list a program's libraries.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// An installed Linux guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinuxGuest {
    folder: PathBuf,
    version: String,
}

impl LinuxGuest {
    fn of(installed: Installed) -> Self {
        Self { folder: installed.folder, version: installed.version }
    }

    /// The kernel's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The kernel's file.
    pub fn kernel(&self) -> PathBuf {
        self.folder.join(KERNEL)
    }

    /// Writes the guest's first file system to `path`: the programs, and these files, by their paths without the first slash.
    ///
    /// # Errors
    /// The archive cannot be read or written.
    pub fn write_files(&self, path: &Path, files: &[(&str, &[u8])]) -> Result<()> {
        let cannot = || format!("cannot write {}", path.display());
        fs::copy(self.folder.join(ARCHIVE), path).with_context(cannot)?;
        let mut archive = Archive { out: File::options().append(true).open(path).with_context(cannot)?, inode: 0 };
        let written = files.iter().try_for_each(|(name, bytes)| archive.add(name, FILE_MODE, bytes));
        written.and_then(|()| archive.finish()).with_context(cannot)
    }
}

/// The guest that is installed, see [`Tool::installed`].
pub fn installed(project: &Project) -> Result<Option<LinuxGuest>> {
    Ok(TOOL.installed(project)?.map(LinuxGuest::of))
}

/// Installs the guest, see [`Tool::install`].
///
/// # Errors
/// The packages cannot be fetched or unpacked, or have other files than expected.
pub fn install(project: &Project) -> Result<LinuxGuest> {
    TOOL.install(project, fill).map(LinuxGuest::of)
}

/// Makes the guest's files from the unpacked packages; returns the kernel's version.
fn fill(unpacked: &Path, whole: &Path) -> Result<String> {
    let modules = unpacked.join("usr/lib/modules");
    let versions = fs::read_dir(&modules).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let kernel = versions.with_context(|| format!("cannot read {}", modules.display()))?.pop();
    let kernel = kernel.context("Debian's packages of Linux have no modules")?.path();
    let copied = fs::copy(kernel.join("vmlinuz"), whole.join(KERNEL));
    copied.with_context(|| format!("there is no vmlinuz in {}", kernel.display()))?;
    write_programs(unpacked, &kernel, &whole.join(ARCHIVE))?;
    Ok(kernel.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

fn write_programs(unpacked: &Path, kernel: &Path, path: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut archive = Archive { out: BufWriter::new(File::create(path).with_context(cannot)?), inode: 0 };
    FOLDERS.iter().try_for_each(|folder| archive.add(folder, DIRECTORY_MODE, &[])).with_context(cannot)?;
    LINKS.iter().try_for_each(|(name, to)| archive.add(name, LINK_MODE, to.as_bytes())).with_context(cannot)?;
    let mut add = |name: &str, from: &Path| {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        archive.add(name, FILE_MODE, &bytes).with_context(cannot)
    };
    add(LOADER, &unpacked.join(LOADER))?;
    let mut libraries = BTreeSet::new();
    for program in PROGRAMS {
        add(program, &unpacked.join(program))?;
        libraries.extend(libraries_of(unpacked, program)?);
    }
    for library in &libraries {
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        add(&format!("usr/lib/{name}"), library)?;
    }
    for scheduler in SCHEDULERS {
        add(&format!("usr/lib/{scheduler}.ko.xz"), &kernel.join(format!("kernel/block/{scheduler}.ko.xz")))?;
    }
    archive.finish().with_context(cannot)
}

/// The libraries that a program needs, with all that they need.
fn libraries_of(unpacked: &Path, program: &str) -> Result<BTreeSet<PathBuf>> {
    let libraries = unpacked.join(LIBRARIES);
    // The libraries of Ceph, which fio needs, have a folder of their own.
    let folders = std::env::join_paths([&libraries, &libraries.join("ceph")])?;
    let mut command = Command::new(unpacked.join(LOADER));
    command.arg("--library-path").arg(folders).arg("--list").arg(unpacked.join(program));
    let listed = said(&mut command, ANSWER_WAIT).ok().flatten();
    let listed = listed.with_context(|| format!("the loader does not list the libraries: {command:?}"))?;
    Ok(listed.lines().filter_map(library).collect())
}

/// The file in a line `name => file (address)` of the loader's list.
fn library(line: &str) -> Option<PathBuf> {
    let (_, file) = line.split_once(" => ")?;
    Some(file.rsplit_once(" (")?.0.into())
}

/// An archive that is being written.
struct Archive<W> {
    out: W,
    /// Number of the last entry. Entries of one number would be names of one file.
    inode: u32,
}

impl<W: Write> Archive<W> {
    fn add(&mut self, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.inode += 1;
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut entry = Builder::new(name).ino(self.inode).nlink(1).mode(mode).write(&mut self.out, length);
        entry.write_all(bytes)?;
        entry.finish().map(|_| ())
    }

    fn finish(mut self) -> io::Result<()> {
        newc::trailer(&mut self.out)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_list_names_the_libraries() {
        let line = "\tlibc.so.6 => /a (b)/usr/lib/libc.so.6 (0x00007f21)";
        assert_eq!(library(line), Some("/a (b)/usr/lib/libc.so.6".into()));
        for line in ["\tlinux-vdso.so.1 (0x00007ffd)", "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)", "\tnot a program"] {
            assert_eq!(library(line), None, "{line}");
        }
    }

    #[test]
    fn a_runs_files_follow_the_programs() {
        let place = tempfile::tempdir().unwrap();
        let mut archive = Archive { out: File::create(place.path().join(ARCHIVE)).unwrap(), inode: 0 };
        archive.add("usr", DIRECTORY_MODE, &[]).unwrap();
        archive.finish().unwrap();
        let guest = LinuxGuest { folder: place.path().into(), version: String::new() };
        let path = place.path().join("files");
        guest.write_files(&path, &[("init", b"#!/bin/sh\n"), ("job", b"true\n")]).unwrap();
        let mut reader = File::open(&path).unwrap();
        let mut names = Vec::new();
        // Two archives, each with its trailer.
        while let Ok(entry) = newc::Reader::new(reader) {
            names.push((entry.entry().name().to_owned(), entry.entry().mode(), entry.entry().file_size()));
            reader = entry.finish().unwrap();
        }
        let expected = [
            ("usr", DIRECTORY_MODE, 0),
            ("TRAILER!!!", 0, 0),
            ("init", FILE_MODE, 10),
            ("job", FILE_MODE, 5),
            ("TRAILER!!!", 0, 0),
        ];
        assert_eq!(names, expected.map(|(name, mode, size)| (name.to_owned(), mode, size)));
    }
}
