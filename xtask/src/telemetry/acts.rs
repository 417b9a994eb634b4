//! Acts of operators on a run, in words: the file `acts` in the run's folder. Whoever asks for an act adds it with its outcome, and the
//! run takes it into its timeline.
//!
//! Left out: who may act. The act has been carried out, or refused, when it is noted.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

const FILE: &str = "acts";

/// An act on a component, in words, with its outcome.
type Act = (String, String);

/// Notes an act on the component `who`.
///
/// # Errors
/// The file cannot be written.
pub fn note(folder: &Path, who: &str, words: &str) -> Result<()> {
    let path = folder.join(FILE);
    // A line of the log must not become two.
    let [who, words] = [who, words].map(|text| text.replace(char::is_control, " "));
    let mut line = serde_json::to_string(&(who, words))?;
    line.push('\n');
    let file = File::options().append(true).create(true).open(&path);
    // A line is written at once, so that two operators do not mix theirs.
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .with_context(|| format!("cannot write {}: is the disk full?", path.display()))
}

/// Reader of a run's acts.
#[derive(Debug)]
pub struct Acts {
    path: PathBuf,
    file: Option<File>,
    /// The begin of a line that is being written.
    part: Vec<u8>,
}

impl Acts {
    /// The acts on the run with this folder, none read yet.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        Self { path: folder.join(FILE), file: None, part: Vec::new() }
    }

    /// The acts that were noted since the last call.
    pub fn more(&mut self) -> Vec<Act> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let read = self.file.as_mut().and_then(|file| file.read_to_end(&mut self.part).ok());
        let end = self.part.iter().rposition(|byte| *byte == b'\n').filter(|_| read.is_some());
        let lines: Vec<u8> = self.part.drain(..end.map_or(0, |end| end + 1)).collect();
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_read_once_and_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut acts = Acts::of(folder.path());
        assert_eq!(acts.more(), []);
        note(folder.path(), "alice", "set class=high: in force\nafter 2 us").unwrap();
        note(folder.path(), "nvme-server", "kill: refused").unwrap();
        let act = |who: &str, words: &str| (who.to_owned(), words.to_owned());
        let first = act("alice", "set class=high: in force after 2 us");
        assert_eq!(acts.more(), [first, act("nvme-server", "kill: refused")]);
        let mut file = File::options().append(true).open(folder.path().join(FILE)).unwrap();
        file.write_all(b"no act\n[\"bob\",").unwrap();
        assert_eq!(acts.more(), [], "a line is not whole");
        file.write_all(b"\"pause\"]\n").unwrap();
        assert_eq!(acts.more(), [act("bob", "pause")]);
    }
}
