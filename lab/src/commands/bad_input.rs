//! Checks the commands on wrong input: each prints one sentence with the place and the fix, ends with a status that is not zero,
//! and leaves nothing behind.
//!
//! The commands are run as a user runs them. `arguments`, `cases` and `reading` list the wrong inputs, `files` writes
//! their files.

mod arguments;
mod cases;
mod files;
mod reading;

pub(crate) use files::prepare;

use crate::commands::counted::Counted;
use anyhow::{Context, Result, bail, ensure};
use kernel::installed::VARIABLES;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use xtask::project::Project;

/// A wrong input.
pub(crate) struct Case {
    /// The defect of the input; names the test.
    pub(crate) name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    rights: Rights,
    output: Output,
    place: Place,
    /// Phrases that the sentence must contain; if empty, the command must print no sentence.
    says: &'static [&'static str],
    /// Further sentences, a line each: the phrase that each begins with.
    others: &'static [&'static str],
}

/// Rights of the command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rights {
    /// The rights of this process.
    Ours,
    /// File permissions hold for the command, even if it runs as root.
    WithinPermissions,
}

/// Destination of the command's standard output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// A reader that takes all of it.
    Read,
    /// A device without room.
    Full,
    /// A pipe whose reader has closed it.
    Closed,
}

/// Folder in which the command is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The project's folder.
    Project,
    /// The root folder, without cargo.
    Elsewhere,
}

/// All cases.
pub(crate) fn cases() -> impl Iterator<Item = &'static Case> {
    [arguments::CASES, cases::CASES, reading::CASES].into_iter().flatten()
}

/// A command that takes longer is waiting for something. The longest one here builds programs first.
const LONGEST: Duration = Duration::from_secs(600);

/// Runs the command of `case`, whose files are in `folder`, and judges its status and its sentence.
pub(crate) fn check(project: &Project, folder: &Path, case: &Case) -> Result<Counted> {
    let placed = |text: &str| text.replace("FOLDER", &folder.display().to_string());
    let before = runs(project);
    let mut command = command(case.rights)?;
    for name in VARIABLES {
        command.env_remove(name);
    }
    command
        .current_dir(project.root())
        .args(case.arguments.iter().map(|argument| placed(argument)))
        .envs(case.environment.iter().map(|(name, value)| (*name, placed(value))))
        .stdin(Stdio::null())
        .stdout(output(case.output)?);
    if case.place == Place::Elsewhere {
        command.current_dir("/").env_remove("CARGO_MANIFEST_DIR");
    }
    let (status, text) = run(command, &folder.join(format!("{}.stderr", case.name)))?;
    ensure!(!status.success(), "it ends with status 0");
    ensure!(!text.contains("panicked"), "it panics: {text}");
    ensure!(runs(project) == before, "it leaves a run's folder behind");
    let sentence = text.lines().find(|line| line.starts_with("error: "));
    if case.says.is_empty() {
        ensure!(sentence.is_none(), "it says an error: {text}");
        return Ok(Counted::one());
    }
    let sentence = sentence.context("it says no error")?;
    let others: Vec<_> = text.lines().skip_while(|line| *line != sentence).skip(1).collect();
    ensure!(others.len() == case.others.len(), "it says {} sentences more: {text}", others.len());
    for (line, phrase) in others.iter().zip(case.others) {
        ensure!(line.starts_with(&placed(phrase)), "it does not begin a line with '{phrase}', but: {line}");
    }
    for word in case.says {
        ensure!(sentence.contains(word), "it does not say '{word}', but: {sentence}");
    }
    Ok(Counted::one())
}

/// Runs `command`; returns its status and its standard error, which is also kept in the file `errors`.
fn run(mut command: Command, errors: &Path) -> Result<(ExitStatus, String)> {
    let file = File::create(errors).with_context(|| format!("cannot write {}", errors.display()))?;
    let mut child = command.stderr(file).spawn().context("cannot run the command")?;
    let deadline = Instant::now() + LONGEST;
    let status = loop {
        match child.try_wait().context("cannot wait for the command")? {
            Some(status) => break status,
            None if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
            None => {
                // It may have ended at this moment.
                let _ = child.kill();
                child.wait().context("cannot wait for the command")?;
                bail!("it waits for longer than {} seconds", LONGEST.as_secs());
            }
        }
    };
    let text = fs::read(errors).with_context(|| format!("cannot read {}", errors.display()))?;
    Ok((status, String::from_utf8_lossy(&text).into_owned()))
}

fn output(output: Output) -> Result<Stdio> {
    Ok(match output {
        Output::Read => Stdio::null(),
        Output::Full => File::options().write(true).open("/dev/full").context("cannot open /dev/full")?.into(),
        Output::Closed => io::pipe().context("cannot make a pipe")?.1.into(),
    })
}

/// This program, with the rights of the case: without root's power over permissions where the case asks for that.
fn command(rights: Rights) -> Result<Command> {
    let program = std::env::current_exe().context("this program cannot be found")?;
    if rights == Rights::Ours || !rustix::process::geteuid().is_root() {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    let without = "-dac_override,-dac_read_search";
    command.args(["--inh-caps", without, "--bounding-set", without]).arg(program);
    Ok(command)
}

/// Number of run folders.
fn runs(project: &Project) -> usize {
    fs::read_dir(project.path("target/runs")).map_or(0, Iterator::count)
}
