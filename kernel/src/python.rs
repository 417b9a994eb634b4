//! The Python packages that seL4's code generators import, in an environment of their own under `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::files;

/// The packages, their versions and hashes.
const REQUIREMENTS: &str = include_str!("../python-requirements.txt");

/// Makes the environment in `folder` if it is not there, and gives the folder with its programs.
///
/// Fails when Python has no `venv` module, and when the packages cannot be fetched.
pub(crate) fn environment(folder: &Path, log: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let programs = folder.join("bin");
    let installed = folder.join("installed-requirements.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == REQUIREMENTS) {
        return Ok(programs);
    }
    log("python: fetching the packages of seL4's code generators");
    files::remove_folder(folder)?;
    run(Command::new("python3").arg("-m").arg("venv").arg(folder))
        .context("cannot make a Python environment; the Debian package for it is python3-venv")?;
    let wanted = folder.join("requirements.txt");
    files::write_whole(&wanted, REQUIREMENTS.as_bytes())?;
    run(Command::new(programs.join("python"))
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r"])
        .arg(&wanted))
    .context("cannot fetch the Python packages of seL4's code generators")?;
    files::copy_whole(&wanted, &installed)?;
    Ok(programs)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
