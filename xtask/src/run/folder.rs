//! The folder of a run, `target/runs/<scenario>-<number>/`, or of a sweep.

use crate::project::{Project, write_whole};
use crate::reports::live_log::HAPPENED;
use crate::reports::run_page;
use crate::telemetry::saved::{BLKTRACE_FILE, PERFETTO_FILE};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Number of earlier runs' folders that are kept for each scenario.
const KEPT: usize = 5;

/// Creates a folder for a run of `scenario`; removes the oldest ones of that scenario.
pub fn make(project: &Project, scenario: &str) -> Result<PathBuf> {
    make_numbered(project, "runs", scenario, KEPT)
}

/// Creates the folder `target/<below>/<name>-<number>`; removes the oldest ones of that name, and keeps so many.
pub fn make_numbered(project: &Project, below: &str, name: &str, kept: usize) -> Result<PathBuf> {
    let parent = project.target_folder(below)?;
    let prefix = format!("{name}-");
    let mut numbers: Vec<u64> = fs::read_dir(&parent)
        .with_context(|| format!("cannot read target/{below}"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(&prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let mut next = numbers.last().map_or(1, |last| last.saturating_add(1));
    for old in numbers.iter().take(numbers.len().saturating_sub(kept)) {
        // The folder may be in use; a later run removes it.
        let _ = fs::remove_dir_all(parent.join(format!("{prefix}{old}")));
    }
    loop {
        let folder = parent.join(format!("{prefix}{next}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            // Another run took the number first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && next < u64::MAX => next += 1,
            Err(error) => return Err(error).with_context(|| format!("cannot make {}", project.shown(&folder))),
        }
    }
}

/// Function of the program `command` for an image that was removed.
const GONE: &str = "gone() { echo 'the disk images are gone: run the scenario with --keep' >&2; exit 1; }\n";

/// Files of a run, by the names that its results have for them.
const FILES: [(&str, &str); 13] = [
    ("log", "log"),
    ("serial", "serial"),
    ("events", "events"),
    ("happened", HAPPENED),
    ("report", run_page::NAME),
    ("timeline", "timeline.svg"),
    ("system", "system.cdl"),
    ("capabilities", "system.svg"),
    ("command", "command"),
    ("qemu", "qemu"),
    ("counts", "counts"),
    ("trace", PERFETTO_FILE),
    ("blktrace", BLKTRACE_FILE),
];

/// The files of a run that are there, and its folder, relative to the project.
pub fn files(project: &Project, folder: &Path) -> BTreeMap<&'static str, String> {
    let file = |(name, file): &(&'static str, &str)| {
        let path = folder.join(file);
        path.is_file().then(|| (*name, project.shown(&path)))
    };
    FILES.iter().filter_map(file).chain([("folder", project.shown(folder))]).collect()
}

/// Writes the program `command` of a run: QEMU with these words, if the images are there. Ctrl-C ends it, which a run's own QEMU hands to the machine.
pub(crate) fn write_command<'a>(
    folder: &Path,
    words: impl Iterator<Item = &'a OsStr>,
    images: impl Iterator<Item = PathBuf>,
) -> Result<()> {
    let is_gone = |image: PathBuf| format!("[ -e {} ] || gone\n", shell_word(&image.to_string_lossy()));
    let images: String = images.map(is_gone).collect();
    let words: Vec<_> = words.map(|word| shell_word(&word.to_string_lossy())).collect();
    let line = words.join(" ").replace(",signal=off", ",signal=on");
    let file = folder.join("command");
    write_whole(&file, format!("#!/bin/sh\n{GONE}{images}exec {line}\n").as_bytes())?;
    fs::set_permissions(&file, Permissions::from_mode(0o755))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Quotes a word for a shell.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The option with each of these words, as a shell takes them.
pub fn options<T: ToString>(option: &str, words: impl IntoIterator<Item = T>) -> String {
    words.into_iter().map(|word| format!(" {option} {}", shell_word(&word.to_string()))).collect()
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
    fn files_that_are_there_are_named() {
        let root = tempfile::tempdir().unwrap();
        let project = Project::at(root.path());
        let folder = make(&project, "a").unwrap();
        fs::write(folder.join("timeline.svg"), b"").unwrap();
        let named = [("folder", "target/runs/a-1"), ("timeline", "target/runs/a-1/timeline.svg")];
        assert_eq!(files(&project, &folder), named.map(|(name, file)| (name, file.to_owned())).into());
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        assert_eq!(shell_word("q35"), "q35");
        assert_eq!(shell_word(r#"{"driver":"file"}"#), r#"'{"driver":"file"}'"#);
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }

    #[test]
    fn a_command_can_be_run() {
        let folder = tempfile::tempdir().unwrap();
        let images = || ["it's", "b"].map(|name| folder.path().join(name)).into_iter();
        write_command(folder.path(), ["echo", "a b", "stdio,signal=off"].map(OsStr::new).into_iter(), images())
            .unwrap();
        let run = || std::process::Command::new(folder.path().join("command")).output().unwrap();
        let refusal = String::from_utf8(run().stderr).unwrap();
        assert_eq!(refusal, "the disk images are gone: run the scenario with --keep\n");
        images().for_each(|image| fs::write(image, b"").unwrap());
        assert_eq!(String::from_utf8(run().stdout).unwrap(), "a b stdio,signal=on\n");
    }
}
