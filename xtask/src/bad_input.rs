//! What the commands say to input that is wrong: one sentence with the place and the mend, a status that is not zero,
//! and nothing left behind.
//!
//! The commands are run as a user runs them.

use crate::project::Project;
use crate::test::Counted;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One wrong input.
pub(crate) struct Case {
    /// What is wrong with it.
    pub(crate) name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// What the sentence must hold.
    says: &'static [&'static str],
}

/// All of them.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "a scenario that is not there",
        arguments: &["demo", "dmeo"],
        environment: &[],
        says: &["'dmeo'", "demo"],
    },
    Case {
        name: "a key nobody knows",
        arguments: &["demo", "FOLDER/unknown-key.toml"],
        environment: &[],
        says: &["unknown-key.toml:3", "colour"],
    },
    Case {
        name: "overlapping extents",
        arguments: &["demo", "FOLDER/overlap.toml"],
        environment: &[],
        says: &["overlap.toml", "overlap"],
    },
    Case {
        name: "a tenant without queue pairs",
        arguments: &["demo", "FOLDER/no-pairs.toml"],
        environment: &[],
        says: &["no-pairs.toml", "queue pair"],
    },
    Case {
        name: "more queue pairs than the controller has",
        arguments: &["demo", "FOLDER/too-many.toml"],
        environment: &[],
        says: &["too-many.toml", "queue pairs"],
    },
    Case {
        name: "a disk that is not there",
        arguments: &["demo", "--disk", "FOLDER/none.img"],
        environment: &[],
        says: &["none.img", "cannot be opened"],
    },
    Case {
        name: "a folder as disk",
        arguments: &["demo", "--disk", "FOLDER"],
        environment: &[],
        says: &["is a folder"],
    },
    Case {
        name: "a disk that is too small",
        arguments: &["demo", "--disk", "FOLDER/small.img"],
        environment: &[],
        says: &["small.img", "1000 bytes", "truncate -s"],
    },
    Case {
        name: "no space for the disk image",
        arguments: &["demo", "FOLDER/no-space.toml"],
        environment: &[],
        says: &["no space for a disk image", "are needed"],
    },
    Case {
        name: "no QEMU",
        arguments: &["setup"],
        environment: &[("CAPNVME_QEMU", "FOLDER/no-such-qemu")],
        says: &["cannot run QEMU", "apt-get install qemu-system-x86"],
    },
    Case {
        name: "another version of QEMU",
        arguments: &["setup"],
        environment: &[("CAPNVME_QEMU", "FOLDER/old-qemu")],
        says: &["QEMU 5.1", "7.2"],
    },
    Case {
        name: "a log level nobody knows",
        arguments: &["demo", "--log", "loud"],
        environment: &[],
        says: &["'loud'"],
    },
];

const HEAD: &str = "name = \"t\"\ndescription = \"t\"\n";
const CONTROLLER: &str = "[[controller]]\nname = \"a\"\nqueue_pairs = 4\n[[controller.namespace]]\nsize = \"16M\"\n";

/// With an image that is written in full, larger than any disk this runs on.
const VAST_CONTROLLER: &str =
    "[[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"65536G\"\ncontent = \"pattern\"\n";

fn tenant(name: &str, queue_pairs: u16, first: u64) -> String {
    format!(
        "[[tenant]]\nname = \"{name}\"\nqueue_pairs = {queue_pairs}\nextents = [{{ first = {first}, blocks = 100 }}]\n\
         [tenant.workload.bench]\n"
    )
}

/// Writes the wrong inputs, and says into which folder.
pub(crate) fn prepare(project: &Project) -> Result<PathBuf> {
    let folder = project.target_folder("bad-input")?;
    let files = [
        ("unknown-key.toml", format!("{HEAD}colour = \"red\"\n{CONTROLLER}{}", tenant("w", 1, 0))),
        ("overlap.toml", format!("{HEAD}{CONTROLLER}{}{}", tenant("v", 1, 0), tenant("w", 1, 99))),
        ("no-pairs.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 0, 0))),
        ("too-many.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 5, 0))),
        ("no-space.toml", format!("{HEAD}{VAST_CONTROLLER}{}", tenant("w", 1, 0))),
        ("small.img", "x".repeat(1000)),
        ("old-qemu", "#!/bin/sh\necho QEMU emulator version 5.1.0\n".to_owned()),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    use std::os::unix::fs::PermissionsExt;
    let program = folder.join("old-qemu");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).context("cannot make a file executable")?;
    Ok(folder)
}

/// Runs the command of `case`, whose files are in `folder`, and judges what it says.
pub(crate) fn check(project: &Project, folder: &Path, case: &Case) -> Result<Counted> {
    let placed = |text: &str| text.replace("FOLDER", &folder.display().to_string());
    let before = runs(project);
    let program = std::env::current_exe().context("this program cannot be found")?;
    let output = Command::new(program)
        .current_dir(project.root())
        .args(case.arguments.iter().map(|argument| placed(argument)))
        .envs(case.environment.iter().map(|(name, value)| (*name, placed(value))))
        .output()
        .context("cannot run the command")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let sentence = text.lines().find(|line| line.starts_with("error: ")).context("it says no error")?;
    ensure!(!output.status.success(), "it ends with status 0");
    ensure!(text.lines().skip_while(|line| *line != sentence).count() == 1, "it says more than one sentence: {text}");
    for word in case.says {
        ensure!(sentence.contains(word), "it does not say '{word}', but: {sentence}");
    }
    ensure!(!text.contains("panicked"), "it panics: {text}");
    ensure!(runs(project) == before, "it leaves a run's folder behind");
    Ok(Counted::one())
}

/// Folders of runs.
fn runs(project: &Project) -> usize {
    fs::read_dir(project.path("target/runs")).map_or(0, Iterator::count)
}
