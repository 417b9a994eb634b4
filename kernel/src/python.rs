//! Python packages in environments of their own under `target/`: those that seL4's code generators import, and others.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{complaint, files};

/// The packages of seL4's code generators, their versions and hashes.
pub(crate) const GENERATORS: &str = include_str!("../python-requirements.txt");

/// Makes the environment in `folder` if it is not there, and returns the folder with its programs. `requirements` are pip's, with
/// hashes, and `of` says whose packages they are.
///
/// Fails when Python has no `venv` module, and when the packages cannot be fetched. The error is one sentence with the remedy.
pub fn environment(folder: &Path, requirements: &str, of: &str, log: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let programs = folder.join("bin");
    let installed = folder.join("installed-requirements.txt");
    let is_installed = || fs::read_to_string(&installed).is_ok_and(|text| text == requirements);
    if is_installed() {
        return Ok(programs);
    }
    // Several tests may want it at once the first time: one makes it, and the others wait.
    let lock = folder.with_extension("lock");
    let cannot = || format!("cannot lock {}", lock.display());
    folder.parent().map_or(Ok(()), fs::create_dir_all).with_context(cannot)?;
    let held = File::create(&lock).with_context(cannot)?;
    held.lock().with_context(cannot)?;
    if is_installed() {
        return Ok(programs);
    }
    log(&format!("python: fetching the packages of {of}"));
    files::remove_folder(folder)?;
    run(
        Command::new("python3").arg("-m").arg("venv").arg(folder),
        "cannot make a Python environment",
        "install what it needs with: apt-get install python3 python3-venv",
    )?;
    let wanted = folder.join("requirements.txt");
    files::write_whole(&wanted, requirements.as_bytes())?;
    run(
        Command::new(programs.join("python"))
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"])
            .arg("-r")
            .arg(&wanted),
        &format!("cannot fetch the Python packages of {of}"),
        "run this again once pypi.org, or what pip is configured to use in its place, can be reached",
    )?;
    files::copy_whole(&wanted, &installed)?;
    Ok(programs)
}

/// Runs `command`; an error has the failure, the command's complaint and the fix in one sentence.
fn run(command: &mut Command, failure: &str, fix: &str) -> Result<()> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("{failure}, since {program} does not run; {fix}"))?;
    if !output.status.success() {
        bail!("{failure}, and {program} says: {}; {fix}", complaint::line(&output));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_one_sentence_with_the_fix() {
        let mut fails = Command::new("sh");
        fails.args(["-c", "echo one >&2; echo ERROR: no route >&2; echo three >&2; exit 1"]);
        let error = format!("{:#}", run(&mut fails, "cannot fetch", "go online").unwrap_err());
        assert_eq!(error, "cannot fetch, and sh says: no route; go online");
        let error = format!("{:#}", run(&mut Command::new("/nonexistent"), "cannot fetch", "go online").unwrap_err());
        assert!(error.starts_with("cannot fetch, since /nonexistent does not run; go online"), "{error}");
        assert!(run(&mut Command::new("true"), "", "").is_ok());
    }
}
