//! Builds the programs that run on seL4.
//!
//! Each program is built by a cargo call of its own, because each has an address of its own: instructions are counted by
//! component, by address (see `bench`). The address is an argument of the last link alone, so that the dependencies are compiled
//! once.

use crate::cargo::cargo_in;
use crate::progress::Step;
use crate::project::Project;
use anyhow::{Context, Result, ensure};
use capdl_spec::Specification;
use kernel::Kernel;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The root task's program.
pub(crate) const ROOT_TASK: &str = "root-task";

/// Every program and its link address.
pub(crate) const PROGRAMS: &[(&str, u64)] = &[
    (ROOT_TASK, 0x0040_0000),
    ("console", 0x0200_0000),
    ("pci-server", 0x0300_0000),
    ("nvme-server", 0x0400_0000),
    ("bench", 0x0500_0000),
    ("digest", 0x0600_0000),
    ("hostile", 0x0700_0000),
    ("nvme-probe", 0x0800_0000),
    ("policy", 0x0900_0000),
    ("flood", 0x0a00_0000),
    ("iommu-server", 0x0b00_0000),
    ("edu-driver", 0x0c00_0000),
    ("signal", 0x0d00_0000),
];

/// The root task of the conformance suite, which runs without the others.
pub(crate) const INTERPRETER: &str = "sim-conformance";

/// The feature of every program for seL4.
pub(crate) const FEATURES: &str = "sel4";
/// The features of the root task that executes kill orders.
pub(crate) const INJECTING: &str = "sel4,fault-injection";

/// Lines of the compiler's complaint that an error shows.
const SHOWN_LINES: usize = 40;

/// The built programs: ELF files with debug information, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    files: BTreeMap<&'static str, Vec<u8>>,
    /// The root task with fault injection, built for the first system that has kill orders.
    injecting: OnceLock<Vec<u8>>,
    /// The lowest level of log messages compiled in.
    level: String,
}

impl Programs {
    /// The ELF file of the program `name`.
    pub(crate) fn elf(&self, name: &str) -> Result<&[u8]> {
        self.files.get(name).map(Vec::as_slice).with_context(|| format!("there is no program {name}"))
    }

    /// The ELF file of the root task that boots `specification`: with fault injection only if that has kill orders.
    pub(crate) fn root_task(&self, project: &Project, kernel: &Kernel, specification: &Specification) -> Result<&[u8]> {
        if specification.kills.is_empty() {
            return self.elf(ROOT_TASK);
        }
        if let Some(built) = self.injecting.get() {
            return Ok(built);
        }
        let built = build_injecting(project, kernel, &self.level)?;
        Ok(self.injecting.get_or_init(|| built))
    }

    /// The lowest level of log messages compiled in.
    pub(crate) fn level(&self) -> &str {
        &self.level
    }

    /// The components' programs in the form that the system's model takes.
    pub(crate) fn for_model(&self) -> capdl::Programs {
        let components = self.files.iter().filter(|(name, _)| **name != ROOT_TASK);
        components.fold(capdl::Programs::new(), |programs, (name, elf)| programs.with(name, elf.clone()))
    }
}

/// Builds all programs for `kernel`. `level` is the lowest level of log messages compiled in.
pub(crate) fn build(project: &Project, kernel: &Kernel, level: &str) -> Result<Programs> {
    let step = Step::new("building the programs for seL4");
    let mut files = BTreeMap::new();
    for (name, base) in PROGRAMS {
        step.tick(name);
        files.insert(*name, build_one(project, kernel, level, (name, FEATURES), *base, &step)?);
    }
    Ok(Programs { files, injecting: OnceLock::new(), level: level.to_owned() })
}

/// Builds the root task that executes kill orders; returns its ELF file.
pub(crate) fn build_injecting(project: &Project, kernel: &Kernel, level: &str) -> Result<Vec<u8>> {
    let step = Step::new("building the root task with fault injection");
    let base = PROGRAMS.iter().find(|(name, _)| *name == ROOT_TASK).context("the root task has no address")?.1;
    build_one(project, kernel, level, (ROOT_TASK, INJECTING), base, &step)
}

/// Whether the ELF file of a root task contains the module that executes kill orders, by its debug information.
pub(crate) fn injects(elf: &[u8]) -> bool {
    const MODULE: &[u8] = b"injection.rs";
    elf.windows(MODULE.len()).any(|bytes| bytes == MODULE)
}

/// Builds the conformance suite's program for `kernel`; returns its ELF file.
pub(crate) fn build_interpreter(project: &Project, kernel: &Kernel) -> Result<Vec<u8>> {
    let step = Step::new("building the interpreter of conformance sequences");
    build_one(project, kernel, "info", (INTERPRETER, FEATURES), 0x0040_0000, &step)
}

/// The cargo command `verb` (`rustc` or `clippy`) for one program with its features, up to the compiler's own arguments.
pub(crate) fn cargo(
    project: &Project,
    kernel: &Kernel,
    level: &str,
    verb: &str,
    (name, features): (&str, &str),
) -> Command {
    let mut command = cargo_in(project.root());
    command
        // With the version, because an external crate is also called `digest`.
        .args([
            verb,
            "--release",
            "--package",
            &format!("{name}@{}", env!("CARGO_PKG_VERSION")),
            "--features",
            features,
            "--target",
            kernel::target(kernel.arch),
            "--bin",
            name,
        ]);
    for_sel4(&mut command, project, kernel, level);
    command
}

/// Adds the arguments and environment that every build for seL4 has.
fn for_sel4(command: &mut Command, project: &Project, kernel: &Kernel, level: &str) {
    command
        .arg("--target-dir")
        .arg(folder(project, kernel, level))
        .env("CAPNVME_SEL4", &kernel.folder)
        .env("DEFMT_LOG", level)
        // The places of log messages are read from the debug information.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "full")
        .env("RUSTFLAGS", FLAGS.join(" "))
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
}

/// Builds the program of a crate in another folder, linked at `base`; returns its ELF file.
pub(crate) fn build_elsewhere(
    project: &Project,
    kernel: &Kernel,
    level: &str,
    elsewhere: &Path,
    (name, base): (&str, u64),
    step: &Step,
) -> Result<Vec<u8>> {
    let mut command = cargo_in(elsewhere);
    command.args(["rustc", "--release", "--target", kernel::target(kernel.arch), "--bin", name]);
    for_sel4(&mut command, project, kernel, level);
    finish(command, project, kernel, level, (name, base), step)
}

/// Compiler flags of every program: fixed addresses, and the places of the strings that log messages name. The target's code
/// model stays: the standard library's parts are compiled for it, and addresses below 2 GiB suit it as well.
const FLAGS: &[&str] = &["-Crelocation-model=static", "-Clink-arg=-Tdefmt.x", "-Clink-arg=-znorelro"];

/// Builds one program with its features; returns its ELF file.
fn build_one(
    project: &Project,
    kernel: &Kernel,
    level: &str,
    (name, features): (&str, &str),
    base: u64,
    step: &Step,
) -> Result<Vec<u8>> {
    let command = cargo(project, kernel, level, "rustc", (name, features));
    finish(command, project, kernel, level, (name, base), step)
}

/// Runs a build, with arguments for the last link alone; returns the program's ELF file.
fn finish(
    mut command: Command,
    project: &Project,
    kernel: &Kernel,
    level: &str,
    (name, base): (&str, u64),
    step: &Step,
) -> Result<Vec<u8>> {
    command.arg("--").args(link_arguments(project, name, base));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let mut said = Vec::new();
    if let Some(errors) = child.stderr.take() {
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            step.tick(&format!("{name}: {}", line.trim()));
            said.push(line);
        }
    }
    let status = child.wait().context("cannot wait for cargo")?;
    ensure!(status.success(), "the program {name} cannot be built:\n{}", last(&said, SHOWN_LINES).join("\n"));
    let path = path(project, kernel, level, name);
    fs::read(&path).with_context(|| format!("cannot read {}", project.shown(&path)))
}

/// Path of a program's ELF file. Both forms of the root task have one path, which holds the one built last.
pub(crate) fn path(project: &Project, kernel: &Kernel, level: &str, name: &str) -> PathBuf {
    folder(project, kernel, level).join(kernel::target(kernel.arch)).join("release").join(name)
}

/// Folder of the builds. The kernel's numbers and the log level are compiled in, so each pair has a folder of its own and is not
/// rebuilt when the other was. The flags also differ from the build machine's.
fn folder(project: &Project, kernel: &Kernel, level: &str) -> PathBuf {
    let kernel = kernel.folder.file_name().unwrap_or_default().to_string_lossy();
    project.path("target").join(format!("sel4-{kernel}-{level}"))
}

fn link_arguments(project: &Project, name: &str, base: u64) -> Vec<String> {
    // The root task's script sets its base, and the payload's place beside the program's.
    let script = if [ROOT_TASK, INTERPRETER].contains(&name) { "root-task.ld" } else { "component.ld" };
    let script = project.path("platform/sel4").join(script);
    vec![format!("-Clink-arg=-T{}", script.display()), format!("-Clink-arg=--defsym=__image_base={base:#x}")]
}

fn last(lines: &[String], count: usize) -> &[String] {
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default()
}
