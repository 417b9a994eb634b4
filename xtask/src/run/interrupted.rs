//! Runs that the user interrupts: files that nobody needs are removed, and a line says what stays and how to go on.
//!
//! The signal ends this program, and QEMU with it (`machine`).

use crate::out;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::exit;
use std::sync::{Mutex, Once, PoisonError};

/// Exit code of a program that SIGINT ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// The runs that are going on.
static RUNS: Mutex<BTreeMap<u64, Left>> = Mutex::new(BTreeMap::new());
static HANDLER: Once = Once::new();

/// Files that an interrupted command leaves, or a sentence about them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Left {
    /// The folder of a run on QEMU, as messages show it, without these large files.
    Folder {
        /// The folder.
        shown: String,
        /// The files.
        without: Vec<PathBuf>,
    },
    /// The folder of a run that can be repeated: nothing of it.
    Nothing {
        /// The folder, as messages show it.
        shown: String,
        /// The folder.
        folder: PathBuf,
    },
    /// A sentence, without its beginning and full stop.
    Said(String),
}

/// A run, or a command of many, is going on as long as this is there.
pub struct Going(u64);

impl Going {
    /// The command that leaves this if it is interrupted now.
    pub fn on(left: Left) -> Self {
        // Without a handler an interrupted run leaves its files, as a killed one does. A signal that is ignored, as by nohup, stays so.
        HANDLER.call_once(|| drop(ctrlc::try_set_handler(end)));
        runs(|runs| {
            let number = runs.last_key_value().map_or(0, |(last, _)| last + 1);
            runs.insert(number, left);
            Self(number)
        })
    }

    /// Replaces the sentence.
    pub fn say(&self, sentence: String) {
        runs(|runs| runs.insert(self.0, Left::Said(sentence)));
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        runs(|runs| runs.remove(&self.0));
    }
}

fn runs<R>(act: impl FnOnce(&mut BTreeMap<u64, Left>) -> R) -> R {
    act(&mut RUNS.lock().unwrap_or_else(PoisonError::into_inner))
}

fn end() {
    for left in runs(std::mem::take).into_values() {
        out::note(format_args!("interrupted: {}", left.clear()));
    }
    exit(INTERRUPTED);
}

impl Left {
    /// Removes what nobody needs; returns a sentence about what stays.
    fn clear(&self) -> String {
        match self {
            Self::Folder { shown, without } => {
                let removed = without.iter().filter(|file| fs::remove_file(file).is_ok()).count();
                let images = if removed == 0 { "" } else { ", without its images" };
                format!("{shown} stays{images}")
            }
            Self::Nothing { shown, folder } => match fs::remove_dir_all(folder) {
                Ok(()) => "nothing stays; the same command makes the same run".into(),
                Err(_) => format!("{shown} stays"),
            },
            Self::Said(sentence) => sentence.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_run_keeps_its_log_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (image, log) = (folder.path().join("a-1.img"), folder.path().join("log"));
        fs::write(&image, b"").unwrap();
        fs::write(&log, b"").unwrap();
        let without = vec![image.clone(), folder.path().join("image.elf")];
        let going = Going::on(Left::Folder { shown: "target/runs/a-1".into(), without });
        let left = || runs(|runs| runs.get(&going.0).cloned()).unwrap();
        assert_eq!(left().clear(), "target/runs/a-1 stays, without its images");
        assert!(!image.exists() && log.exists());
        assert_eq!(left().clear(), "target/runs/a-1 stays");
        let number = going.0;
        drop(going);
        assert!(runs(|runs| runs.get(&number).is_none_or(|left| matches!(left, Left::Said(_)))));
    }

    #[test]
    fn an_interrupted_simulation_keeps_no_folder_and_a_command_of_many_says_its_last_sentence() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a-1");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("log"), b"").unwrap();
        let left = Left::Nothing { shown: "target/runs/a-1".into(), folder: folder.clone() };
        assert!(left.clear().starts_with("nothing stays") && !folder.exists());
        assert_eq!(left.clear(), "target/runs/a-1 stays");
        let going = Going::on(Left::Said("first".into()));
        going.say("second".into());
        assert_eq!(runs(|runs| runs.get(&going.0).map(Left::clear)), Some("second".into()));
    }
}
