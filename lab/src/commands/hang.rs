//! Tests a run that hangs: its timeout ends it, it counts as failed, and its log is kept.
//!
//! The command is run as a user runs it. The scenario's one tenant works for ten minutes, and its timeout is three seconds.

use crate::commands::counted::Counted;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::process::Command;
use xtask::project::Project;

/// The name of the test.
pub(crate) const NAME: &str = "a run that hangs is ended with its log";

const SCENARIO: &str = "name = \"hang\"\ndescription = \"never done in time\"\n[expect]\ntimeout_seconds = 3\n\
                        [[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"16M\"\nbackend = \"null\"\n\
                        [[tenant]]\nname = \"v\"\nqueue_pairs = 1\nextents = [{ first = 0, blocks = 1024 }]\n\
                        program.name = \"bench\"\n[tenant.program.config]\nmilliseconds = 600000\noperations = 0\nverify = false\n";

/// Runs it.
pub(crate) fn check(project: &Project) -> Result<Counted> {
    let file = project.target_folder("bad-input")?.join("hang.toml");
    fs::write(&file, SCENARIO).with_context(|| format!("cannot write {}", project.shown(&file)))?;
    let program = std::env::current_exe().context("this program cannot be found")?;
    let output = Command::new(program)
        .current_dir(project.root())
        .arg("demo")
        .arg(&file)
        .output()
        .context("cannot run the command")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(!output.status.success(), "it ends with status 0: {text}");
    for words in ["FAIL hang", "the run took longer than 3 seconds"] {
        ensure!(text.contains(words), "it does not say '{words}', but: {text}");
    }
    let folder = text.split_whitespace().find(|word| word.starts_with("target/runs/")).context("it names no log")?;
    let folder = folder.trim_end_matches([',', '.', ')']).trim_end_matches("/log");
    let log = project.path(folder).join("log");
    let logged = fs::read_to_string(&log).with_context(|| format!("there is no log at {}", project.shown(&log)))?;
    ensure!(logged.contains("nvme-server"), "the log in {folder} says nothing of what the components did");
    Ok(Counted::one())
}
