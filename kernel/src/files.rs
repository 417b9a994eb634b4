//! Files written whole or not at all, and copies of folders.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes `bytes` to `path` so that a reader finds the old file or the new one, never a part.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = part_name(path);
    fs::write(&part, bytes)
        .and_then(|()| fs::rename(&part, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Copies the file `from` to `to`, whole or not at all.
pub(crate) fn copy_whole(from: &Path, to: &Path) -> Result<()> {
    let part = part_name(to);
    fs::copy(from, &part)
        .and_then(|_| fs::rename(&part, to))
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
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

/// Removes the folder `path` with all it holds; that it is not there is fine.
pub(crate) fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove the folder {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes the file `path`; that it is not there is fine.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn part_name(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}
