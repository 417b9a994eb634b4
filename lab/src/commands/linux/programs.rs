//! Programs of our own for Linux guests, compiled by the build machine's compiler.

use super::check::FOLDER;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::process::Command;
use xtask::project::Project;

/// Compiles a source of `lab/linux` with further options; the program needs no library of the guest.
///
/// # Errors
/// There is no compiler, or it refuses the source.
pub(super) fn compile(project: &Project, source: &str, options: &[&str]) -> Result<Vec<u8>> {
    let made = project.target_folder("linux")?.join(source).with_extension("program");
    let output = Command::new("gcc")
        .args(options)
        .args(["-static", "-o"])
        .args([&made, &project.path(FOLDER).join(source)])
        .output()
        .context("cannot run gcc; install it with: cargo xtask setup --yes")?;
    ensure!(output.status.success(), "{source} cannot be compiled: {}", String::from_utf8_lossy(&output.stderr).trim());
    fs::read(&made).with_context(|| format!("cannot read {}", project.shown(&made)))
}
