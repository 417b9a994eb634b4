//! Tests that parts of a soak and of a sweep, made by the scripts of `lab/scale/`, have the results of the whole.
//!
//! GNU parallel and a Slurm of this machine ([`slurm`]) make the parts. One task of Slurm is cancelled and made again. Left out: several
//! machines, and Kubernetes.

mod slurm;

use crate::commands::counted::Counted;
use anyhow::{Context, Result, ensure};
use slurm::Slurm;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;
use xtask::project::Project;

/// The sentence for a machine without a scheduler.
const MISSING: &str = "Slurm or GNU parallel is missing; install both with: cargo xtask setup --with-slurm";

/// Number of parts.
const PARTS: u8 = 4;
/// Times that a task is cancelled: one that has ended before is made again.
const TRIES: u8 = 5;
/// Seconds that a scheduler's command may take.
const SECONDS: &str = "600";
const SOAK: &[&str] = &["soak", "--count", "12"];
/// Seeds of each part of [`SOAK`].
const SEEDS: usize = 3;
const SWEEP: &[&str] = &["sweep", "boot", "--vary", "tenant.alice.depth=1,2,4", "--vary", "seed=1,2"];

/// A program that runs the parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scheduler {
    Parallel,
    Slurm,
}

impl Scheduler {
    /// Every scheduler.
    pub(crate) const ALL: [Self; 2] = [Self::Parallel, Self::Slurm];

    /// Name of the scheduler.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Parallel => "GNU parallel",
            Self::Slurm => "Slurm",
        }
    }

    /// The sentence of a machine that lacks it.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let is_there = match self {
            Self::Parallel => is_gnu_parallel(),
            Self::Slurm => slurm::PROGRAMS.iter().all(|name| program(name).is_some()),
        };
        (!is_there).then_some(MISSING)
    }

    /// Runs its test.
    pub(crate) fn check(self, project: &Project) -> Result<Counted> {
        match self {
            Self::Parallel => {
                let run = Run::new(project, "parallel")?;
                run.judge(|command, folder| parallel(&run, command, folder))
            }
            Self::Slurm => {
                let run = Run::new(project, "slurm")?;
                let slurm = Slurm::start(&run.folder)?;
                run.judge(|command, folder| match command {
                    SOAK => cancelled_and_resumed(&run, &slurm, folder),
                    _ => slurm.submit(&run, command, folder),
                })
            }
        }
    }
}

/// A test in its folder.
struct Run<'a> {
    project: &'a Project,
    folder: PathBuf,
}

impl<'a> Run<'a> {
    /// A test in an empty folder.
    fn new(project: &'a Project, name: &str) -> Result<Self> {
        let folder = project.target_folder("scale")?.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", project.shown(&folder)))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", project.shown(&folder)))?;
        Ok(Self { project, folder })
    }

    /// Compares what `make` leaves in the folder that it gets with the commands in one piece.
    fn judge(&self, make: impl Fn(&[&str], &Path) -> Result<()>) -> Result<Counted> {
        let [parts, whole] = ["soak", "soak.jsonl"].map(|name| self.folder.join(name));
        make(SOAK, &parts)?;
        self.xtask(SOAK, "--json", slice::from_ref(&whole))?;
        let files = files(&parts)?;
        self.xtask(SOAK, "--merge", &files)?;
        let merged = files.iter().map(|file| read(file)).collect::<Result<String>>()?;
        ensure!(seeds(&merged) == seeds(&read(&whole)?), "the parts of the soak differ from the whole");
        let [parts, whole, merged] = ["sweep", "sweep.whole", "sweep.merged"].map(|name| self.folder.join(name));
        make(SWEEP, &parts)?;
        self.xtask(SWEEP, "--out", slice::from_ref(&whole))?;
        let out = [merged.clone(), "--merge".into()];
        self.xtask(&["sweep"], "--out", &[&out, self::files(&parts)?.as_slice()].concat())?;
        let [whole, merged] = [whole, merged].map(|folder| read(&folder.join("sweep.csv")));
        ensure!(whole? == merged?, "the parts of the sweep differ from the whole");
        Ok(Counted::one())
    }

    /// Runs a command of this program, which must succeed.
    fn xtask(&self, command: &[&str], option: &str, paths: &[PathBuf]) -> Result<()> {
        let program = std::env::current_exe().context("this program cannot be found")?;
        let mut run = Command::new(program);
        succeed(run.current_dir(self.project.root()).args(command).arg(option).args(paths))
    }
}

/// Lets GNU parallel make the parts.
fn parallel(run: &Run<'_>, command: &[&str], folder: &Path) -> Result<()> {
    let mut parallel = Command::new("timeout");
    parallel.current_dir(run.project.root()).args([SECONDS, "parallel", "--will-cite", "-j", "2"]);
    parallel.args(["lab/scale/part.sh", "{}", &PARTS.to_string()]).arg(folder).args(command);
    succeed(parallel.args(["--jobs", "1", ":::"]).args((0..PARTS).map(|part| part.to_string())))
}

/// Cancels a task of Slurm as soon as it has a line, and submits all tasks again. The first lines must stay.
fn cancelled_and_resumed(run: &Run<'_>, slurm: &Slurm, folder: &Path) -> Result<()> {
    let file = folder.join("1.jsonl");
    let mut tries = 0;
    let killed = loop {
        tries += 1;
        slurm.submit_and_cancel(run, SOAK, folder, "1", || read(&file).is_ok_and(|text| text.contains('\n')))?;
        let text = read(&file)?;
        if seeds(&text).len() < SEEDS {
            break text;
        }
        ensure!(tries < TRIES, "a task made all of its seeds before it was cancelled, {TRIES} times");
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    };
    slurm.submit(run, SOAK, folder)?;
    let lines = killed.rfind('\n').and_then(|end| killed.get(..=end)).unwrap_or_default();
    ensure!(read(&file)?.starts_with(lines), "the lines of the cancelled task are lost");
    Ok(())
}

/// The lines of seeds, without those of canaries and a part at the end.
fn seeds(text: &str) -> BTreeSet<&str> {
    text.split_inclusive('\n').filter(|line| line.ends_with('\n') && line.contains("\"seed\":")).collect()
}

/// The files of lines in a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("there is no {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect())
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Runs a command, which must succeed.
fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    let said: Vec<_> = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).into();
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, said.concat().trim());
    Ok(())
}

/// A program of the system.
fn program(name: &str) -> Option<PathBuf> {
    // A user's path lacks the daemons' folder.
    ["/usr/sbin", "/usr/bin"].map(|folder| Path::new(folder).join(name)).into_iter().find(|path| path.is_file())
}

/// Whether the program `parallel` is GNU's; moreutils has another one of that name.
fn is_gnu_parallel() -> bool {
    let output = Command::new("parallel").arg("--version").output();
    output.is_ok_and(|output| output.stdout.starts_with(b"GNU parallel"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_part_runs_the_program_that_was_built() {
        let place = tempfile::tempdir().unwrap();
        let [script, program] = ["lab/scale/part.sh", "target/debug/lab"].map(|file| place.path().join(file));
        for file in [&script, &program] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("scale/part.sh"), &script).unwrap();
        fs::write(&program, "#!/bin/sh\necho \"$*\"\n").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let mut part = Command::new("sh");
        part.arg(&script).args(["0", "2", "lines", "soak"]).current_dir(place.path());
        let said = String::from_utf8(part.output().unwrap().stdout).unwrap();
        assert_eq!(said, "soak --part 0/2 --json lines/0.jsonl --resume\n");
    }
}
