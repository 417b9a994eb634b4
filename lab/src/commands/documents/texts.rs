//! The texts of the project.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use xtask::project::Project;

/// Folders without files of the project.
const FOREIGN: [&str; 3] = [".git", "target", "kernel/source"];

/// Extensions of the files that cite and link, of figures and their data, and of schemas.
const ENDINGS: [&str; 6] = ["md", "rs", "toml", "csv", "svg", "json"];

/// Texts by their paths below the project's root.
pub(in crate::commands) type Texts = BTreeMap<String, String>;

/// All texts of the project.
///
/// # Errors
/// A folder or a file that cannot be read.
pub(in crate::commands) fn gathered(project: &Project) -> Result<Texts> {
    let mut texts = Texts::new();
    gather(project.root(), Path::new(""), &mut texts)?;
    Ok(texts)
}

fn gather(root: &Path, folder: &Path, texts: &mut Texts) -> Result<()> {
    let unreadable = || format!("cannot read {}", root.join(folder).display());
    for entry in fs::read_dir(root.join(folder)).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type().with_context(unreadable)?;
        if kind.is_dir() && !FOREIGN.iter().any(|foreign| path == Path::new(foreign)) {
            gather(root, &path, texts)?;
        } else if kind.is_file() && path.extension().is_some_and(|ending| ENDINGS.iter().any(|ours| ending == *ours)) {
            let text =
                fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
            texts.insert(path.display().to_string(), text);
        }
    }
    Ok(())
}

/// The number of the line at byte `place`, from 1.
pub(super) fn line(text: &str, place: usize) -> usize {
    text.bytes().take(place).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
pub(super) fn texts(texts: &[(&str, &str)]) -> Texts {
    texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}
