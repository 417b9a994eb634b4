//! A run that the user interrupts: its images and its boot image are removed, and a line says what stays.
//!
//! The signal ends this program, and QEMU with it (`machine`). Left out: runs in the simulator, which have no images.

use crate::out;
use std::fs;
use std::path::PathBuf;
use std::process::exit;
use std::sync::{Mutex, Once, PoisonError};

/// Exit code of a program that SIGINT ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// The runs that are going on.
static RUNS: Mutex<Vec<Run>> = Mutex::new(Vec::new());
static HANDLER: Once = Once::new();

/// A run.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    /// Its folder, as messages show it.
    shown: String,
    /// Files that nobody needs once it is interrupted.
    files: Vec<PathBuf>,
}

/// A run is going on as long as this is there.
pub(crate) struct Going(String);

impl Going {
    /// The run of this folder, as messages show it, with its large files.
    pub(crate) fn on(shown: String, files: Vec<PathBuf>) -> Self {
        // Without a handler an interrupted run leaves its files, as a killed one does. A signal that is ignored, as by nohup, stays so.
        HANDLER.call_once(|| drop(ctrlc::try_set_handler(end)));
        runs(|runs| runs.push(Run { shown: shown.clone(), files }));
        Self(shown)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        runs(|runs| runs.retain(|run| run.shown != self.0));
    }
}

fn runs<R>(act: impl FnOnce(&mut Vec<Run>) -> R) -> R {
    act(&mut RUNS.lock().unwrap_or_else(PoisonError::into_inner))
}

fn end() {
    for run in runs(std::mem::take) {
        out::note(format_args!("{}", run.clear()));
    }
    exit(INTERRUPTED);
}

impl Run {
    /// Removes the files; returns a sentence about what stays.
    fn clear(&self) -> String {
        let removed = self.files.iter().filter(|file| fs::remove_file(file).is_ok()).count();
        let images = if removed == 0 { "" } else { ", without its images" };
        format!("interrupted: {} stays{images}", self.shown)
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
        let going = Going::on("target/runs/a-1".into(), vec![image.clone(), folder.path().join("image.elf")]);
        let run = runs(|runs| runs.iter().find(|run| run.shown == "target/runs/a-1").cloned()).unwrap();
        assert_eq!(run.clear(), "interrupted: target/runs/a-1 stays, without its images");
        assert!(!image.exists() && log.exists());
        assert_eq!(run.clear(), "interrupted: target/runs/a-1 stays");
        drop(going);
        assert!(runs(|runs| runs.iter().all(|run| run.shown != "target/runs/a-1")));
    }
}
