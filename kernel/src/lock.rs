//! A single builder at a time per output folder, because two of them would write into each other's source copy.
//!
//! The lock is the operating system's lock on a file: it ends with the process that holds it, so a build that was
//! killed does not block the next one.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

/// The right to write to a folder, until dropped.
pub(crate) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Waits until no other build uses `folder`; logs a line to `log` when it has to wait.
    pub(crate) fn take(folder: &Path, log: &mut dyn FnMut(&str)) -> Result<Self> {
        let path = folder.join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                log(&format!("waiting for another build in {}", folder.display()));
                file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_builder_waits_and_says_so() {
        let folder = std::env::temp_dir().join(format!("kernel-lock-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let first = FolderLock::take(&folder, &mut |_| panic!("must not wait")).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let second = std::thread::spawn({
            let folder = folder.clone();
            move || {
                FolderLock::take(&folder, &mut |line| sender.send(line.to_owned()).unwrap()).unwrap();
            }
        });
        assert!(receiver.recv().unwrap().contains("waiting"));
        drop(first);
        second.join().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
