//! The folder of a run: `target/runs/<scenario>-<number>/`.

use crate::project::Project;
use anyhow::{Context, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Number of earlier runs' folders that are kept for each scenario.
const KEPT: usize = 5;

/// Creates a folder for a run of `scenario`; removes the oldest ones of that scenario.
pub(crate) fn make(project: &Project, scenario: &str) -> Result<PathBuf> {
    let runs = project.target_folder("runs")?;
    let prefix = format!("{scenario}-");
    let mut numbers: Vec<u64> = fs::read_dir(&runs)
        .context("cannot read target/runs")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(&prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let mut next = numbers.last().map_or(1, |last| last + 1);
    for old in numbers.iter().take(numbers.len().saturating_sub(KEPT)) {
        // The folder may be in use; a later run removes it.
        let _ = fs::remove_dir_all(runs.join(format!("{prefix}{old}")));
    }
    loop {
        let folder = runs.join(format!("{prefix}{next}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            // Another run of the same scenario took the number first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => next += 1,
            Err(error) => return Err(error).with_context(|| format!("cannot make {}", project.shown(&folder))),
        }
    }
}

/// Quotes a word for a shell.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_folders_of_a_scenario_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::at(folder.path());
        fs::create_dir_all(folder.path().join("target/runs/other-1")).unwrap();
        let made: Vec<_> = (0..8).map(|_| make(&project, "a").unwrap()).collect();
        let names: Vec<_> = made.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!((names[0], names[7]), ("a-1", "a-8"));
        let left = made.iter().filter(|path| path.exists()).count();
        assert_eq!(left, KEPT + 1, "those before and the new one");
        assert!(made[7].exists() && folder.path().join("target/runs/other-1").exists());
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        assert_eq!(shell_word("q35"), "q35");
        assert_eq!(shell_word(r#"{"driver":"file"}"#), r#"'{"driver":"file"}'"#);
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
