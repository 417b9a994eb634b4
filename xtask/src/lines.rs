//! Files of results with a line of JSON for each run.
//!
//! A line is written with one call when its run is over. A program that is killed leaves whole lines and at most a part of one at the
//! end, which [`Lines::resume`] removes. Files are merged by writing one behind the other. Left out: what a line says.

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Content of a line.
pub(crate) trait Line: Serialize + DeserializeOwned {
    /// Name of the form of a line.
    const FORMAT: &'static str;
    /// Version of the form.
    const VERSION: u32;
}

/// A line with its form.
#[derive(Serialize)]
struct Written<'a, L> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    line: &'a L,
}

/// The form of a line.
#[derive(Deserialize)]
struct Form {
    format: String,
    version: u32,
}

/// A file to which lines are added.
pub(crate) struct Lines(File);

impl Lines {
    /// Makes the file.
    ///
    /// # Errors
    /// A file that is there already (its runs would be lost), or to which another command writes.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create_new(true).append(true).open(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => anyhow::anyhow!(
                "{} is there already: add --resume to make the runs that it lacks, or name another file",
                path.display()
            ),
            _ => anyhow::Error::new(error).context(format!("cannot write {}", path.display())),
        })?;
        lock(path, &file)?;
        Ok(Self(file))
    }

    /// Opens the file, if it is there, and removes a part of a line at its end. Returns its lines, too.
    ///
    /// # Errors
    /// A line of another form, or a file to which another command writes.
    pub(crate) fn resume<L: Line>(path: &Path) -> Result<(Self, Vec<L>)> {
        let cannot = || format!("cannot write {}", path.display());
        let file = OpenOptions::new().create(true).append(true).open(path).with_context(cannot)?;
        lock(path, &file)?;
        let bytes = fs::read(path).with_context(cannot)?;
        file.set_len(whole(&bytes).len() as u64).with_context(cannot)?;
        Ok((Self(file), parse(path, &bytes)?))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn add<L: Line>(&mut self, line: &L) -> Result<()> {
        let written = Written { format: L::FORMAT, version: L::VERSION, line };
        let text = serde_json::to_string(&written).context("a run does not encode")? + "\n";
        self.0.write_all(text.as_bytes()).context("cannot write the line of a run")
    }
}

/// Keeps the file for this command until it ends. A file system without locks gives none.
fn lock(path: &Path, file: &File) -> Result<()> {
    let is_taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    ensure!(!is_taken, "another command writes to {}: wait for its end, or name another file", path.display());
    Ok(())
}

/// Reads the lines of a file; a part of a line at its end is left out.
///
/// # Errors
/// A file that cannot be read, or a line of another form.
pub(crate) fn read<L: Line>(path: &Path) -> Result<Vec<L>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}: name a file of runs", path.display()))?;
    parse(path, &bytes)
}

/// The bytes up to the end of the last whole line.
fn whole(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or_default()
}

fn parse<L: Line>(path: &Path, bytes: &[u8]) -> Result<Vec<L>> {
    let mut lines = Vec::new();
    for (index, line) in whole(bytes).split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let place = format!("{}:{}", path.display(), index + 1);
        let Ok(Form { format, version }) = serde_json::from_slice(line) else {
            bail!("{place}: the line is no run: name a file of runs");
        };
        ensure!(format == L::FORMAT, "{place}: the line is of {format}, not of {}: name another file", L::FORMAT);
        ensure!(version == L::VERSION, "{place}: the line is {format} {version}: use the version that wrote it");
        lines.push(serde_json::from_slice(line).with_context(|| format!("{place}: the line is no run"))?);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(PartialEq, Debug, Serialize, Deserialize)]
    struct Number {
        number: u32,
    }

    impl Line for Number {
        const FORMAT: &'static str = "number";
        const VERSION: u32 = 1;
    }

    #[test]
    fn a_file_has_one_writer_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("runs");
        let mut first = Lines::create(&path).unwrap();
        first.add(&Number { number: 1 }).unwrap();
        let refused = Lines::resume::<Number>(&path).map(|_| ()).unwrap_err().to_string();
        assert!(refused.starts_with("another command writes to "), "{refused}");
        drop(first);
        assert_eq!(Lines::resume::<Number>(&path).unwrap().1, [Number { number: 1 }]);
    }
}
