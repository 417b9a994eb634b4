//! Builds the programs that run on seL4.
//!
//! One call of cargo builds all of them, for one architecture or both. Each has an address of its own: instructions are counted by
//! component, by address (see `bench`). A wrapper of the compiler gives the linker each program's address.

use crate::cargo::{self, cargo_in};
use crate::progress::Step;
use crate::project::Project;
use anyhow::{Context, Result};
use capdl::Scenario;
use capdl::programs::{ROOT_TASK, Row, TABLE};
use capdl_spec::Role;
use kernel::{Arch, Kernel};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The root task of the conformance suite, which runs without the others.
pub(crate) const INTERPRETER: &str = "sim-conformance";

/// The feature of every program for seL4.
pub const FEATURES: &str = "sel4";
/// The features of the root task that executes kill orders.
pub const INJECTING: &str = "sel4,fault-injection";

/// The built programs: ELF files with debug information, by name.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    files: BTreeMap<&'static str, Vec<u8>>,
    /// The product's root task.
    product: OnceLock<Vec<u8>>,
    /// The root task with fault injection.
    injecting: OnceLock<Vec<u8>>,
    /// The lowest level of log messages compiled in.
    level: String,
}

impl Programs {
    /// The ELF file of the program `name`.
    pub fn elf(&self, name: &str) -> Result<&[u8]> {
        self.files.get(name).map(Vec::as_slice).with_context(|| format!("there is no program {name}"))
    }

    /// The ELF file of the root task, built for the first system that needs it: the one that `injects` faults for a scenario that
    /// [has moments](Scenario::has_moments), or else the product's.
    pub fn root_task(&self, project: &Project, kernel: &Kernel, injects: bool) -> Result<&[u8]> {
        let kept = if injects { &self.injecting } else { &self.product };
        if let Some(built) = kept.get() {
            return Ok(built);
        }
        let (what, features) = if injects { (" with fault injection", INJECTING) } else { ("", FEATURES) };
        let step = Step::new(format!("building the root task{what}"));
        let built = build_one(project, kernel, &self.level, (ROOT_TASK, features), &step)?;
        Ok(kept.get_or_init(|| built))
    }

    /// A copy of these programs in which the root task `product` boots every system.
    pub fn with_product_alone(&self, product: &[u8]) -> Self {
        let always = || OnceLock::from(product.to_vec());
        Self { product: always(), injecting: always(), ..self.clone() }
    }

    /// The lowest level of log messages compiled in.
    pub fn level(&self) -> &str {
        &self.level
    }

    /// The components' programs in the form that the system's model takes.
    pub(crate) fn for_model(&self) -> capdl::Programs {
        self.files.iter().fold(capdl::Programs::new(), |programs, (name, elf)| programs.with(name, elf.clone()))
    }
}

/// Builds programs for `kernel`: those of one scenario, or all of components. `level` is the lowest level of log messages compiled
/// in.
pub fn build(project: &Project, kernel: &Kernel, level: &str, scenario: Option<&Scenario>) -> Result<Programs> {
    let is_used = |row: &Row| scenario.is_none_or(|scenario| runs(scenario, kernel.arch, row));
    let built =
        build_some(project, std::slice::from_ref(kernel), level, is_used)?.pop().context("no programs were built")?;
    scenario.map(|scenario| built.root_task(project, kernel, scenario.has_moments()).map(drop)).transpose()?;
    Ok(built)
}

/// Whether a component of the scenario's system runs this program on this architecture.
fn runs(scenario: &Scenario, arch: Arch, row: &Row) -> bool {
    let is_used = scenario.programs().contains(&row.name) || row.role == Some(Role::IommuServer);
    is_used && row.on.contains(&arch)
}

/// Builds all components' programs for each of the kernels, which differ only in their architectures.
pub fn build_each(project: &Project, kernels: &[Kernel], level: &str) -> Result<Vec<Programs>> {
    build_some(project, kernels, level, |_| true)
}

/// Builds the components' programs that are used.
fn build_some(
    project: &Project,
    kernels: &[Kernel],
    level: &str,
    is_used: impl Fn(&Row) -> bool,
) -> Result<Vec<Programs>> {
    let components = TABLE.iter().filter(|row| row.role.is_some() && is_used(row));
    let names: Vec<_> = components.map(|row| row.name).collect();
    let step = Step::new("building the programs for seL4");
    cargo::build(&mut cargo(project, kernels, level, "build", &names, FEATURES), "the programs for seL4", &step)?;
    let of = |kernel| {
        let read = |name| Ok((name, read(project, kernel, level, name)?));
        let files = names.iter().copied().map(read).collect::<Result<_>>()?;
        Ok(Programs { files, level: level.to_owned(), ..Programs::default() })
    };
    kernels.iter().map(of).collect()
}

/// Whether the ELF file of a root task contains the module that executes kill orders, by its debug information.
pub fn injects(elf: &[u8]) -> bool {
    const MODULE: &[u8] = b"injection.rs";
    elf.windows(MODULE.len()).any(|bytes| bytes == MODULE)
}

/// Builds the conformance suite's program for `kernel`; returns its ELF file.
pub fn build_interpreter(project: &Project, kernel: &Kernel) -> Result<Vec<u8>> {
    let step = Step::new("building the interpreter of conformance sequences");
    build_one(project, kernel, "info", (INTERPRETER, FEATURES), &step)
}

/// The cargo command `verb` (`build` or `clippy`) for some of the programs, or all of their crates without any.
///
/// All crates are selected in any case. So their dependencies have the same features in each call, and are compiled once.
pub fn cargo(
    project: &Project,
    kernels: &[Kernel],
    level: &str,
    verb: &str,
    programs: &[&str],
    features: &str,
) -> Command {
    let mut command = cargo_in(project.root());
    command.args([verb, "--features", features]);
    for_sel4(&mut command, project, kernels, level);
    for name in programs {
        command.args(["--bin", name]);
    }
    command
}

/// Adds the arguments and environment that every build for seL4 has.
fn for_sel4(command: &mut Command, project: &Project, kernels: &[Kernel], level: &str) {
    command.arg("--release");
    for Row { name, .. } in TABLE {
        // With the version, because an external crate is also called `digest`.
        command.args(["--package", &format!("{name}@{}", env!("CARGO_PKG_VERSION"))]);
    }
    command.args(["--package", INTERPRETER]);
    if let Some(kernel) = kernels.first() {
        command.arg("--target-dir").arg(folder(project, kernel, level));
    }
    for kernel in kernels {
        command.args(["--target", kernel::target(kernel.arch)]);
        command.env(format!("CAPNVME_SEL4_{}", kernel.arch.name()), &kernel.folder);
    }
    let base = |row: &Row| {
        // The interpreter is a root task.
        let interpreter = (row.name == ROOT_TASK).then_some(INTERPRETER);
        let names = [row.name].into_iter().chain(interpreter);
        names.map(|name| format!(" {}={:#x}", name.replace('-', "_"), row.base)).collect::<String>()
    };
    let bases: String = TABLE.iter().map(base).collect();
    command
        .env("CAPNVME_BASES", bases + " ")
        .env("RUSTC_WORKSPACE_WRAPPER", project.path("platform/sel4/rustc-with-base"))
        .env("DEFMT_LOG", level)
        // The places of log messages are read from the debug information.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "full")
        .env("RUSTFLAGS", FLAGS.join(" "))
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
}

/// Builds the program `name` of the crate `package` in another workspace with the project's crates; returns its ELF file.
pub(crate) fn build_elsewhere(
    project: &Project,
    kernel: &Kernel,
    level: &str,
    elsewhere: &Path,
    (package, name): (&str, &str),
    step: &Step,
) -> Result<Vec<u8>> {
    let mut command = cargo_in(elsewhere);
    command.args(["build", "--features", FEATURES, "--package", package, "--bin", name]);
    for_sel4(&mut command, project, std::slice::from_ref(kernel), level);
    cargo::build(&mut command, &format!("the program {name}"), step)?;
    read(project, kernel, level, name)
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
    step: &Step,
) -> Result<Vec<u8>> {
    /// Held until the file is read: both forms of the root task have one path.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = cargo(project, std::slice::from_ref(kernel), level, "build", &[name], features);
    cargo::build(&mut command, &format!("the program {name}"), step)?;
    read(project, kernel, level, name)
}

/// A built program's ELF file.
fn read(project: &Project, kernel: &Kernel, level: &str, name: &str) -> Result<Vec<u8>> {
    let path = path(project, kernel, level, name);
    fs::read(&path).with_context(|| format!("cannot read {}", project.shown(&path)))
}

/// The linker's arguments for a component's program at `base`: those that the wrapper gives for the project's own programs.
pub(crate) fn link_arguments(project: &Project, base: u64) -> [String; 2] {
    let script = project.path("platform/sel4/component.ld");
    [format!("-T{}", script.display()), format!("--defsym=__image_base={base:#x}")]
}

/// Path of a program's ELF file. Both forms of the root task have one path, which holds the one built last.
pub fn path(project: &Project, kernel: &Kernel, level: &str, name: &str) -> PathBuf {
    folder(project, kernel, level).join(kernel::target(kernel.arch)).join("release").join(name)
}

/// Folder of the builds, one for both architectures. What else of the kernel is compiled in and the log level make another one, which
/// is not rebuilt when the first was. The flags also differ from the build machine's.
fn folder(project: &Project, kernel: &Kernel, level: &str) -> PathBuf {
    let kernel_name = kernel.folder.file_name().unwrap_or_default().to_string_lossy();
    let without_architecture = kernel_name.strip_prefix(&format!("{}-", kernel.arch.name()));
    project.path("target").join(format!("sel4-{}-{level}", without_architecture.unwrap_or(&kernel_name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_needs_the_programs_of_its_components() {
        let boot = Scenario::load(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/boot.toml"))).unwrap();
        let of = |arch| -> Vec<_> { TABLE.iter().filter(|row| runs(&boot, arch, row)).map(|row| row.name).collect() };
        assert_eq!(of(Arch::X86_64), ["console", "pci-server", "nvme-server", "bench", "policy"]);
        assert_eq!(of(Arch::Aarch64), ["console", "pci-server", "nvme-server", "bench", "policy", "iommu-server"]);
    }
}
