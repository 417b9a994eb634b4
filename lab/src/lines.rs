//! Files of results with a line of JSON for each run.
//!
//! A line is written with one call when its run is over. A program that is killed leaves whole lines and at most a part of one at the
//! end, which [`Lines::resume`] removes. Nothing else is ever taken out of a file: one with other content is refused as it is. Files
//! are merged by writing one behind the other. Left out: what a line says.

use anyhow::{Context, Result, bail, ensure};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

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
pub(crate) struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    /// Makes the file.
    ///
    /// # Errors
    /// A file that is there already (its runs would be lost), or to which another command writes.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        refuse_special(path)?;
        let file = OpenOptions::new().create_new(true).append(true).open(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => anyhow::anyhow!(
                "{} is there already: add --resume to make the runs that it lacks, or name another file",
                path.display()
            ),
            _ => anyhow::Error::new(error).context(format!("cannot write {}", path.display())),
        })?;
        lock(path, &file)?;
        Ok(Self { file, path: path.to_path_buf() })
    }

    /// Opens the file, if it is there, and removes a part of a line at its end. Returns its lines, too.
    ///
    /// # Errors
    /// Content that is no such line, which is left as it is, or a file to which another command writes.
    pub(crate) fn resume<L: Line>(path: &Path) -> Result<(Self, Vec<L>)> {
        refuse_special(path)?;
        let cannot = || format!("cannot write {}", path.display());
        let mut file = OpenOptions::new().create(true).append(true).open(path).with_context(cannot)?;
        lock(path, &file)?;
        let bytes = fs::read(path).with_context(cannot)?;
        let Parsed { lines, end } = parse(path, &bytes)?;
        file.set_len(end as u64).with_context(cannot)?;
        if bytes.get(..end).is_some_and(|whole| whole.last().is_some_and(|last| *last != b'\n')) {
            file.write_all(b"\n").with_context(cannot)?;
        }
        Ok((Self { file, path: path.to_path_buf() }, lines))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn add<L: Line>(&mut self, line: &L) -> Result<()> {
        let written = Written { format: L::FORMAT, version: L::VERSION, line };
        let text = serde_json::to_string(&written).context("a run does not encode")? + "\n";
        let cannot = || format!("cannot write {}: mend that, and go on with --resume", self.path.display());
        self.file.write_all(text.as_bytes()).with_context(cannot)
    }
}

/// Refuses what is there and no file: a device or a pipe may have no end.
fn refuse_special(path: &Path) -> Result<()> {
    let what = match fs::metadata(path) {
        Ok(there) if there.is_dir() => "folder",
        Ok(there) if !there.is_file() => "device or pipe",
        _ => return Ok(()),
    };
    bail!("{} is a {what}: name a file", path.display())
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
/// A file that cannot be read, or content that is no such line.
pub(crate) fn read<L: Line>(path: &Path) -> Result<Vec<L>> {
    refuse_special(path)?;
    let bytes = fs::read(path).with_context(|| format!("cannot read {}: name a file of runs", path.display()))?;
    parse(path, &bytes).map(|parsed| parsed.lines)
}

/// Content of a file.
struct Parsed<L> {
    lines: Vec<L>,
    /// End of the last line in bytes, without a part of one behind it.
    end: usize,
}

fn parse<L: Line>(path: &Path, bytes: &[u8]) -> Result<Parsed<L>> {
    let (mut lines, mut end) = (Vec::new(), 0);
    for (index, piece) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if piece != b"\n" && !is_part::<L>(piece) {
            lines.push(parse_one(&format!("{}:{}", path.display(), index + 1), piece)?);
        }
        if !is_part::<L>(piece) {
            end += piece.len();
        }
    }
    Ok(Parsed { lines, end })
}

/// Whether a writer that was killed may have left this: the beginning of a line without its end.
fn is_part<L: Line>(piece: &[u8]) -> bool {
    let head = format!("{{\"format\":\"{}\",\"version\":{}", L::FORMAT, L::VERSION);
    let is_cut = serde_json::from_slice::<IgnoredAny>(piece).is_err_and(|error| error.is_eof());
    is_cut && !piece.ends_with(b"\n") && (piece.starts_with(head.as_bytes()) || head.as_bytes().starts_with(piece))
}

fn parse_one<L: Line>(place: &str, line: &[u8]) -> Result<L> {
    let Ok(Form { format, version }) = serde_json::from_slice(line) else {
        bail!("{place}: the line is no run: name a file of runs");
    };
    ensure!(format == L::FORMAT, "{place}: the line is of {format}, not of {}: name another file", L::FORMAT);
    ensure!(version == L::VERSION, "{place}: the line is {format} {version}: use the version that wrote it");
    serde_json::from_slice(line).with_context(|| format!("{place}: the line is no run"))
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

    /// Resumes a file with this content. Returns the numbers of its lines or the refusal, and the content afterwards.
    fn resumed(content: &[u8]) -> (Result<Vec<u32>, String>, Vec<u8>) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("runs");
        fs::write(&path, content).unwrap();
        let lines = Lines::resume::<Number>(&path).map(|(_, lines)| lines.into_iter().map(|one| one.number).collect());
        (lines.map_err(|error| error.to_string()), fs::read(&path).unwrap())
    }

    #[test]
    fn only_a_part_of_a_line_is_taken_out_of_a_file() {
        let line = br#"{"format":"number","version":1,"number":7}"#;
        let whole = [line.as_slice(), b"\n"].concat();
        for cut in 0..line.len() {
            let content = [&whole, &line[..cut]].concat();
            assert_eq!(resumed(&content), (Ok(vec![7]), whole.clone()), "{cut}");
        }
        // A line that lacks nothing but its end is one.
        assert_eq!(resumed(line), (Ok(vec![7]), whole.clone()));
        let others: [&[u8]; 6] =
            [b"my notes", b"my notes\nmore", b"{\"a\": 1", &[0; 9], b"{\"format\":\"other\",\"ver", b"[1,\n{\"form"];
        for other in others {
            for content in [other.to_vec(), [&whole, other].concat()] {
                let (refused, left) = resumed(&content);
                assert!(refused.is_err(), "{refused:?}");
                assert_eq!(left, content);
            }
        }
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        for (path, what) in [("/dev/zero", "is a device or pipe"), ("/", "is a folder")] {
            let path = Path::new(path);
            let refusals = [Lines::create(path).err(), Lines::resume::<Number>(path).err(), read::<Number>(path).err()];
            for refused in refusals {
                assert!(refused.is_some_and(|error| error.to_string().contains(what)));
            }
        }
    }
}
