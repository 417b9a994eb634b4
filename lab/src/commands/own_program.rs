//! Tests a user's own program, as a newcomer creates it: outside of the project, with its test, in the simulator and on seL4.
//! Also tests files that a program keeps in a session, read by other software.

use crate::commands::counted::Counted;
use anyhow::{Context, Result, ensure};
use kernel::Arch;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use xtask::cargo::cargo_in;
use xtask::commands::new;
use xtask::image::{own, programs};
use xtask::project::Project;
use xtask::setup;
use xtask::setup::chosen_kernel::ChosenKernel;

/// The program's folder and name.
const NAME: &str = "my-program";
/// A file that `scenarios/fat.toml` writes, and its content.
const FILE: (&str, &str) = ("::DIR/HELLO.TXT", "In a folder.\n");

/// Creates a program, tests it, and runs it in the simulator and on seL4. The run's results must contain the program's own value, and
/// its ELF file must be at the path that `qemu` prints for gdb.
pub(crate) fn check(project: &Project) -> Result<Counted> {
    let place = tempfile::tempdir().context("there is no place for a program")?;
    let folder = new::make(project, &place.path().join(NAME))?;
    let test = cargo_in(&folder).args(["test", "--quiet", "--target-dir"]).arg(project.path("target")).output();
    succeeded(&test.context("cannot run cargo")?, "its test")?;
    // An earlier test may have left an ELF file at that path.
    let kernel = setup::build_kernel(project, &ChosenKernel::default().options(Arch::X86_64)?)?;
    let elf = programs::path(project, &kernel, "info", NAME);
    let _ = fs::remove_file(&elf);
    let (scenario, json) = (folder.join(format!("{NAME}.toml")), folder.join("results.json"));
    for world in ["--sim", "--arch=x86_64"] {
        let mut demo = this_program(project)?;
        demo.arg("demo").arg(&scenario).args([world, "--json"]).arg(&json);
        succeeded(&demo.output().context("cannot run the command")?, &format!("demo {world}"))?;
        let results = fs::read(&json).context("there are no results")?;
        let results: Value = serde_json::from_slice(&results).context("the results are no JSON")?;
        let own = &results["values"][0];
        ensure!(own["name"] == "blocks" && own["number"] == 256.0, "demo {world} has its result as {own}");
    }
    ensure!(elf.is_file(), "gdb would not find the program: there is no {}", project.shown(&elf));
    Ok(Counted::one())
}

/// Lets the program `fat` write files on seL4 to a volume with a file of mtools, which must find both in the image.
pub(crate) fn check_files(project: &Project) -> Result<Counted> {
    let place = tempfile::tempdir().context("there is no place for an image")?;
    let image = place.path().join("fat.img");
    fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).context("cannot make an image")?;
    let mtools = |command: &str, rest: &[&OsStr]| {
        let output = Command::new(command).arg("-i").arg(&image).args(rest).output();
        succeeded(&output.with_context(|| format!("cannot run {command} of mtools"))?, command)
    };
    let readme = project.path("README.md");
    mtools("mformat", &["::".as_ref()])?;
    mtools("mcopy", &[readme.as_ref(), "::".as_ref()])?;
    let mut demo = this_program(project)?;
    demo.args(["demo", "fat", "--write", "--disk"]).arg(&image);
    succeeded(&demo.output().context("cannot run the command")?, "demo fat")?;
    let read = mtools("mtype", &[FILE.0.as_ref()])?;
    ensure!(read == FILE.1, "mtools read {} as {read:?}", FILE.0);
    let kept = mtools("mtype", &["::README.md".as_ref()])?;
    ensure!(kept.as_bytes() == fs::read(&readme)?, "a file that was there before the run is another one");
    Ok(Counted::one())
}

fn this_program(project: &Project) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
    command.current_dir(project.root());
    Ok(command)
}

/// Standard output of a command that succeeded.
fn succeeded(output: &Output, what: &str) -> Result<String> {
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = printed.lines().chain(errors.lines()).rev().take(8).collect::<Vec<_>>();
    ensure!(output.status.success(), "{what} failed: {}", last.into_iter().rev().collect::<Vec<_>>().join("; "));
    Ok(printed)
}

/// Simulates a scenario with users' own programs twice, by a simulator that has them linked: it must pass, and the second run
/// must equal the first.
pub(crate) fn simulate(project: &Project, scenario: &Path, simulator: &Path, arch: &str) -> Result<Counted> {
    let run = || {
        let mut sim = own::command(project, simulator);
        let output = sim.current_dir(project.root()).arg("sim").arg(scenario).args(["--arch", arch]).output();
        let printed = succeeded(&output.context("cannot run the simulator")?, "the simulation")?;
        Ok::<_, anyhow::Error>(printed.lines().last().map(str::to_owned))
    };
    ensure!(run()? == run()?, "two runs of one seed differ");
    Ok(Counted::one())
}
