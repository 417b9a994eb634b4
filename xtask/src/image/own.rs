//! Users' own crates, which a scenario names by their folders: builds them for seL4, and links them into the simulator.
//!
//! Such a crate is a library with `pub async fn run(platform, environment)`. For each use a crate below `target/own/` is
//! generated that depends on it, with the profiles and the lock file of this project. Neighbours: `programs` builds the project's
//! own programs. Left out: running the results.

use crate::cargo::cargo_in;
use crate::image::programs;
use crate::progress::Step;
use crate::project::{Project, write_whole};
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

/// Package of the simulator with a user's crates.
const SIMULATOR: &str = "own-simulator";
/// Lines of the compiler's complaint that an error shows.
const SHOWN_LINES: usize = 40;

/// Builds the crates of a scenario for seL4; returns their ELF files by name.
pub(crate) fn build(
    project: &Project,
    kernel: &Kernel,
    level: &str,
    scenario: &Scenario,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut built = BTreeMap::new();
    for (index, own) in scenario.own_programs().into_iter().enumerate() {
        let step = Step::new(format!("building {} for seL4", own.name));
        let base = own_base(index).with_context(|| format!("there is no address left for {}", own.name))?;
        let folder = project.target_folder(&format!("own/{}", own.name))?;
        let mut manifest = manifest(project, &own.name)?;
        let mut sel4 = Table::new();
        sel4.insert("path".into(), text(project.path("platform/sel4")));
        dependencies(&mut manifest).insert("platform-sel4".into(), Value::Table(sel4));
        depend(&mut manifest, own, &["sel4"])?;
        let main = "//! The program for seL4.\n\n#![no_std]\n#![no_main]\n\nplatform_sel4::component!(theirs::run);\n";
        generate(project, &folder, &manifest, &main.replace("theirs", &theirs(own)))?;
        let elf = programs::build_elsewhere(project, kernel, level, &folder, (&own.name, base), &step)?;
        built.insert(own.name.clone(), elf);
    }
    Ok(built)
}

/// Builds this program again, with the crates of a scenario linked into its simulator; returns its path.
pub(crate) fn simulator(project: &Project, scenario: &Scenario) -> Result<PathBuf> {
    let _step = Step::new("building the simulator with your program");
    let folder = project.target_folder("own/simulator")?;
    let mut manifest = manifest(project, SIMULATOR)?;
    for (name, path) in [("sim", "sim"), ("xtask", "xtask")] {
        let mut ours = Table::new();
        ours.insert("path".into(), text(project.path(path)));
        dependencies(&mut manifest).insert(name.into(), Value::Table(ours));
    }
    let mut linked = String::new();
    for own in scenario.own_programs() {
        depend(&mut manifest, own, &[])?;
        let (name, theirs) = (&own.name, theirs(own));
        linked.push_str(&format!(
            "(\"{name}\", |platform, environment| Box::pin({theirs}::run(platform, environment))), "
        ));
    }
    let main = format!(
        "//! The project's commands, with programs of somebody's own in the simulator.\n\n\
         fn main() -> std::process::ExitCode {{\n    sim::link(&[{linked}]);\n    xtask::main()\n}}\n"
    );
    generate(project, &folder, &manifest, &main)?;
    let target = project.path("target");
    let mut command = cargo_in(&folder);
    command.args(["build", "--quiet", "--target-dir"]).arg(&target);
    finish(&mut command, "the simulator with your program")?;
    Ok(target.join("debug").join(SIMULATOR))
}

/// Whether the simulator lacks a program of the scenario.
pub(crate) fn is_missing(scenario: &Scenario) -> bool {
    scenario.own_programs().iter().any(|own| !sim::is_linked(&own.name))
}

/// The command that runs `simulator` as cargo runs this program.
pub(crate) fn command(project: &Project, simulator: &Path) -> Command {
    let mut command = Command::new(simulator);
    command.env("CARGO_MANIFEST_DIR", project.path("xtask"));
    command
}

/// The beginning of a generated crate's manifest. It has a workspace of its own, so that it joins no other one.
fn manifest(project: &Project, name: &str) -> Result<Table> {
    let top = project.path("Cargo.toml");
    let top = fs::read_to_string(&top).with_context(|| format!("cannot read {}", project.shown(&top)))?;
    let top: Table = top.parse().context("the top manifest is no TOML")?;
    let mut package = Table::new();
    package.insert("name".into(), Value::String(name.into()));
    package.insert("edition".into(), Value::String("2024".into()));
    let mut manifest = Table::new();
    manifest.insert("package".into(), Value::Table(package));
    manifest.insert("workspace".into(), Value::Table(Table::new()));
    manifest.insert("dependencies".into(), Value::Table(Table::new()));
    manifest.extend(top.get("profile").map(|profile| ("profile".to_owned(), profile.clone())));
    Ok(manifest)
}

fn dependencies(manifest: &mut Table) -> &mut Table {
    let dependencies = manifest.entry("dependencies").or_insert_with(|| Value::Table(Table::new()));
    dependencies.as_table_mut().expect("it was made a table")
}

/// Checks that each crate of a scenario exists under the name of its folder.
pub(crate) fn check(scenario: &Scenario) -> Result<()> {
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

/// Adds the user's crate as a dependency.
fn depend(manifest: &mut Table, own: &Own, features: &[&str]) -> Result<()> {
    check_crate(own)?;
    let name = &own.name;
    let mut dependency = Table::new();
    let path = own.path.canonicalize().with_context(|| format!("{} cannot be found", own.path.display()))?;
    dependency.insert("path".into(), text(path));
    let features: Vec<_> = features.iter().map(|feature| Value::String((*feature).into())).collect();
    dependency.insert("features".into(), Value::Array(features));
    dependency.insert("package".into(), Value::String(name.clone()));
    dependencies(manifest).insert(format!("own-{name}"), Value::Table(dependency));
    Ok(())
}

/// Name of the user's crate inside of a generated one.
fn theirs(own: &Own) -> String {
    format!("own_{}", own.name.replace('-', "_"))
}

fn text(path: PathBuf) -> Value {
    Value::String(path.display().to_string())
}

/// Writes a crate, unless it is already there with this content: unchanged files are not built again.
fn generate(project: &Project, folder: &Path, manifest: &Table, main: &str) -> Result<()> {
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        let is_there = fs::read_to_string(&file).is_ok_and(|there| there == text);
        if is_there { Ok(()) } else { write_whole(&file, text.as_bytes()) }
    };
    fs::create_dir_all(folder.join("src")).with_context(|| format!("cannot make {}", project.shown(folder)))?;
    write("Cargo.toml", &manifest.to_string())?;
    write("src/main.rs", main)?;
    let (lock, theirs) = (project.path("Cargo.lock"), folder.join("Cargo.lock"));
    let changed = |file: &Path| fs::metadata(file).and_then(|known| known.modified()).ok();
    if changed(&theirs) < changed(&lock) {
        fs::copy(&lock, &theirs).with_context(|| format!("cannot copy {}", project.shown(&lock)))?;
    }
    Ok(())
}

fn finish(command: &mut Command, what: &str) -> Result<()> {
    let output = command.output().context("cannot run cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = said.lines().collect();
    let shown = lines.get(lines.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default().join("\n");
    ensure!(output.status.success(), "{what} cannot be built:\n{shown}");
    Ok(())
}
