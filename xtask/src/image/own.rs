//! Users' own crates, which a scenario names by their folders: builds them for seL4, and links them into the simulator.
//!
//! Such a crate is a library with `pub async fn run(platform, environment)`. For each use a program is generated that depends on
//! it, in a `workspace` with the project's crates. Neighbours: `programs` builds the project's own programs. Left out: running the
//! results.

use crate::cargo::{self, cargo_in};
use crate::image::programs;
use crate::image::workspace::{Dependencies, Workspace};
use crate::progress::Step;
use crate::project::Project;
use anyhow::{Context, Result, ensure};
use capdl::Scenario;
use capdl::programs::own_base;
use capdl::scenario::Own;
use kernel::Kernel;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::{Table, Value};

/// The generated crate of the simulator.
const SIMULATOR: &str = "own-simulator";

/// Builds the crates of a scenario for seL4; returns their ELF files by name.
pub fn build(
    project: &Project,
    kernel: &Kernel,
    level: &str,
    scenario: &Scenario,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut built = BTreeMap::new();
    if scenario.own_programs().is_empty() {
        return Ok(built);
    }
    let workspace = workspace(project, scenario)?;
    for own in scenario.own_programs() {
        let name = &own.name;
        let step = Step::new(format!("building {name} for seL4"));
        let package = for_sel4(own);
        let folder = workspace.path(&package);
        let elf = programs::build_elsewhere(project, kernel, level, &folder, (&package, name), &step)?;
        built.insert(name.clone(), elf);
    }
    Ok(built)
}

/// Builds the program of the crate `lab` again, with the crates of a scenario linked into its simulator; returns its path.
pub fn simulator(project: &Project, scenario: &Scenario) -> Result<PathBuf> {
    let step = Step::new("building the simulator with your program");
    let workspace = workspace(project, scenario)?;
    let target = project.path("target");
    let mut command = cargo_in(&workspace.path(SIMULATOR));
    command.args(["build", "--target-dir"]).arg(&target);
    cargo::build(&mut command, "the simulator with your program", &step)?;
    Ok(target.join("debug").join(simulator_with(scenario)))
}

/// The command that runs `simulator` as cargo runs this program.
pub fn command(project: &Project, simulator: &Path) -> Command {
    let mut command = Command::new(simulator);
    command.env("CARGO_MANIFEST_DIR", project.path("xtask"));
    command
}

/// Makes the workspace of a scenario's crates, with a program for seL4 of each and their simulator.
fn workspace(project: &Project, scenario: &Scenario) -> Result<Workspace> {
    check(scenario)?;
    let crates = scenario.own_programs();
    let generated = crates.iter().map(|own| for_sel4(own)).chain([SIMULATOR.to_owned()]).collect();
    let workspace = Workspace::make(project, &together(scenario), generated)?;
    let mut simulator = Dependencies::default();
    simulator.add("sim", &workspace.path("sim"), &[]);
    simulator.add("lab", &workspace.path("lab"), &[]);
    let mut linked = String::new();
    for (index, own) in crates.into_iter().enumerate() {
        let (name, theirs, folder) = (&own.name, own.name.replace('-', "_"), workspace.take(&own.path)?);
        let mut program = Dependencies::default();
        program.add("platform-sel4", &workspace.path("platform/sel4"), &[]);
        program.add(name, &folder, &["sel4"]);
        let main = format!(
            "//! The program for seL4.\n\n#![no_std]\n#![no_main]\n\nplatform_sel4::component!({theirs}::run);\n"
        );
        let base = own_base(index).with_context(|| format!("there is no address left for {name}"))?;
        let link = |argument| format!("    println!(\"cargo::rustc-link-arg-bins={{}}\", {argument:?});\n");
        let links = programs::link_arguments(project, base).map(link).concat();
        let build = format!("//! Gives the linker the program's base.\n\nfn main() {{\n{links}}}\n");
        workspace.generate(&for_sel4(own), name, program, &[("src/main.rs", &main), ("build.rs", &build)])?;
        simulator.add(name, &folder, &[]);
        linked.push_str(&format!(
            "(\"{name}\", |platform, environment| Box::pin({theirs}::run(platform, environment))), "
        ));
    }
    let main = format!(
        "//! The project's commands, with programs of somebody's own in the simulator.\n\n\
         fn main() -> std::process::ExitCode {{\n    sim::link(&[{linked}]);\n    lab::main()\n}}\n"
    );
    workspace.generate(SIMULATOR, &simulator_with(scenario), simulator, &[("src/main.rs", &main)])?;
    Ok(workspace)
}

/// The names of a scenario's crates as one.
fn together(scenario: &Scenario) -> String {
    scenario.own_programs().iter().map(|own| own.name.as_str()).collect::<Vec<_>>().join("-and-")
}

/// The generated crate of a program for seL4.
fn for_sel4(own: &Own) -> String {
    format!("{}-for-sel4", own.name)
}

/// The simulator's program.
fn simulator_with(scenario: &Scenario) -> String {
    format!("simulator-with-{}", together(scenario))
}

/// Checks that each crate of a scenario exists under the name of its folder.
pub fn check(scenario: &Scenario) -> Result<()> {
    scenario.own_programs().into_iter().try_for_each(check_crate)
}

fn check_crate(own: &Own) -> Result<()> {
    let (name, path) = (&own.name, own.path.display());
    let file = own.path.join("Cargo.toml");
    let read = fs::read_to_string(&file);
    let theirs = read.with_context(|| format!("{path} is no crate: make one with cargo xtask new {path}"))?;
    let theirs: Table = theirs.parse().with_context(|| format!("{} is no TOML", file.display()))?;
    let package = theirs.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    ensure!(
        package == Some(name),
        "the crate in {path} is called {}: give it the name of its folder, {name}",
        package.unwrap_or("nothing")
    );
    Ok(())
}
