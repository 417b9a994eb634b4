//! Files written whole or not at all, and copies of folders.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// Writes `bytes` to `path` so that a reader finds the old file or the new one, never a part. Several may write one file
/// at a time: the last of them wins.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut part = NamedTempFile::new_in(path.parent().unwrap_or(path))?;
        part.write_all(bytes)?;
        part.persist(path).map(drop).map_err(|error| error.error)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Copies the file `from` to `to`, whole or not at all.
pub(crate) fn copy_whole(from: &Path, to: &Path) -> Result<()> {
    write_whole(to, &fs::read(from).with_context(|| format!("cannot read {}", from.display()))?)
}

/// Copies the folder `from` with all it holds to `to`, over what is there. Permission to execute is kept.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make the folder {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read the folder {}", from.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read the folder {}", from.display()))?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)
                .with_context(|| format!("cannot copy {} to {}", entry.path().display(), target.display()))?;
        }
    }
    Ok(())
}

/// The paths and contents of all files in the folder, in the order of their names.
pub(crate) fn texts(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        if path.is_dir() {
            texts.extend(self::texts(&path)?);
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            texts.extend([name, fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?]);
        }
    }
    Ok(texts)
}

/// Removes the folder `path` with all it holds; a missing folder is no error.
pub(crate) fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove the folder {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes the file `path`; a missing file is no error.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_several_write_at_a_time_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::thread::scope(|scope| {
            for byte in 0..8 {
                let path = &path;
                scope.spawn(move || (0..64).for_each(|_| write_whole(path, &[byte; 4096]).unwrap()));
            }
        });
        let written = fs::read(&path).unwrap();
        assert!(written.len() == 4096 && written.iter().all(|byte| *byte == written[0]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
