//! `nvme` under the preload library.

use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::cargo;
use xtask::project::Project;

/// The sentence of a machine without nvme-cli.
pub(crate) const MISSING: &str = "nvme-cli is missing; install it with: cargo xtask setup --with-nvme-cli";
/// Folders of programs that a user's search path may lack.
const MORE_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];
/// A node that no machine has; the library says so.
const ABSENT: &str = "/dev/nvme-absent";
/// The library, below the project's folder.
const LIBRARY: &str = "target/debug/libnvme_preload.so";

/// nvme-cli and the library for it.
pub(crate) struct NvmeCli {
    program: PathBuf,
    library: PathBuf,
}

/// The path of `nvme`, if it is installed.
pub(crate) fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join("nvme")).find(|program| program.is_file())
}

impl NvmeCli {
    /// Looks for nvme-cli and builds the library.
    ///
    /// # Errors
    /// [`MISSING`], a library that cannot be built, or a path that the loader cannot take.
    pub(crate) fn prepare(project: &Project) -> Result<Self> {
        let program = installed().context(MISSING)?;
        let library = project.path(LIBRARY);
        // The loader reads a list, and goes on without what it does not find.
        ensure!(
            !library.display().to_string().contains([' ', ':', '$']),
            "the path {} has a space, a colon or a dollar sign, which the loader of programs cannot take: move the checkout",
            library.display()
        );
        let mut build = cargo::cargo_in(project.root());
        build.args(["build", "--quiet", "--package", "nvme-preload", "--target-dir"]).arg(project.path("target"));
        let built = build.output().context("cannot run cargo; install Rust from https://rustup.rs")?;
        let said = String::from_utf8_lossy(&built.stderr);
        ensure!(built.status.success(), "the library for nvme-cli cannot be built:\n{}", said.trim());
        ensure!(library.is_file(), "cargo has left no {LIBRARY}");
        let found = Self { program, library };
        found.is_led()?;
        Ok(found)
    }

    /// Checks that `nvme` runs with the library: without it a command would reach this machine's devices.
    fn is_led(&self) -> Result<()> {
        let nowhere = ["id-ctrl", ABSENT].map(OsString::from);
        let output = self.command(Path::new("/"), nowhere).output().context("cannot run nvme")?;
        ensure!(
            String::from_utf8_lossy(&output.stderr).contains("capnvme: "),
            "{} does not load {}: is it Debian's, of this machine's architecture, and without a set-user-ID bit?",
            self.program.display(),
            self.library.display()
        );
        Ok(())
    }

    /// `nvme` with these arguments, for the controller that is served at `folder`.
    pub(crate) fn command(&self, folder: &Path, arguments: impl IntoIterator<Item = OsString>) -> Command {
        let mut command = self.other(&self.program, folder);
        command.args(arguments);
        command
    }

    /// Another program with the library.
    pub(crate) fn other(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", &self.library).env(nvme_passthrough::FOLDER, folder);
        command
    }
}
