//! `cargo xtask qemu`: keeps a scenario running, with its log on the terminal; with `--debug` QEMU waits for gdb.

use crate::arguments::Settings;
use crate::image::programs;
use crate::machine::Machine;
use crate::machine::disk::{UserDisk, Writing};
use crate::machine::qemu::Start;
use crate::out;
use crate::project::Project;
use crate::records::decode::{Filter, Level};
use crate::run::{self, Collector, Device, Options, Prepared, Runner};
use crate::setup::chosen_kernel::{self, ChosenKernel};
use crate::setup::packages::Consent;
use anyhow::{Error, Result};
use capdl::Scenario;
use capdl::programs::ROOT_TASK;
use capdl_spec::Specification;
use clap::Args;
use kernel::{Arch, BuildOptions, Kernel, Profile};
use std::collections::BTreeSet;
use std::iter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct Qemu {
    /// The scenario: a name in scenarios/, or a TOML file
    scenario: String,
    #[command(flatten)]
    settings: Settings,
    /// The architecture: x86_64 or aarch64
    #[arg(long, default_value = "x86_64")]
    arch: String,
    #[command(flatten)]
    kernel: ChosenKernel,
    /// Leave out the IOMMU: devices then reach all memory, and only the server's checks isolate tenants
    #[arg(long)]
    no_iommu: bool,
    /// Stop before the first instruction and wait for gdb; the kernel is the one with assertions
    #[arg(long)]
    debug: bool,
    /// A raw image or any file as the disk; it is not changed
    #[arg(long, value_name = "PATH")]
    disk: Option<PathBuf>,
    /// Let the tenants write to the disk of --disk
    #[arg(long, requires = "disk")]
    write: bool,
    /// Log lines to show: LEVEL, or COMPONENT=LEVEL; several with commas
    #[arg(long, value_name = "FILTER")]
    log: Vec<String>,
    /// Install missing packages through sudo without asking
    #[arg(long)]
    yes: bool,
}

/// Runs until QEMU ends or the user ends it.
pub fn run(project: &Project, qemu: &Qemu) -> Result<ExitCode> {
    let file = project.scenario(&qemu.scenario)?;
    let arch: Arch = qemu.arch.parse().map_err(Error::msg)?;
    let mut scenario = Scenario::load_with(&file, Some(arch), &qemu.settings.set)?;
    run::suits(&scenario, &qemu.scenario, arch, Device::Qemu)?;
    if qemu.no_iommu {
        run::leave_out_iommu(&mut scenario)?;
    }
    let filter = Filter::parse(&qemu.log, Level::Info)?.of_scenario(&scenario)?;
    let writing = if qemu.write { Writing::Kept } else { Writing::Forgotten };
    let disk = qemu.disk.as_deref().map(|path| UserDisk::open(path, writing)).transpose()?;
    let profile = if qemu.debug { Profile::Debug } else { Profile::Release };
    let consent = if qemu.yes { Consent::Given } else { Consent::NotAsked };
    let options = BuildOptions { profile, ..qemu.kernel.options(arch)? };
    let kernel = chosen_kernel::prepare(project, consent, &options)?;
    chosen_kernel::suits(&kernel, &scenario)?;
    let programs = programs::build(project, &kernel, filter.compiled(), Some(&scenario))?;
    let runner = Runner { project, kernel: &kernel, programs: &programs, serve: None };
    let (no_iommu, settings) = (qemu.no_iommu, qemu.settings.set.as_slice());
    let options = Options { disk: disk.as_ref(), settings, show: Some(&filter), no_iommu, ..Options::default() };
    let start = if qemu.debug { Start::WaitsForGdb } else { Start::AtOnce };
    let prepared = runner.prepare(&file, options, start)?;
    if qemu.debug {
        out::line(format_args!("{}", gdb(project, &kernel, filter.compiled(), &prepared.system.specification)))?;
    }
    out::line(format_args!("the log is {}/log; end with Ctrl-C", project.shown(&prepared.folder)))?;
    watch(&runner, &prepared, &filter)
}

fn watch(runner: &Runner<'_>, prepared: &Prepared, filter: &Filter) -> Result<ExitCode> {
    let mut collector = Collector::new(runner.decoder(prepared)?, &prepared.folder, Some(filter))?;
    let mut machine = Machine::start(runner.kernel.arch, &prepared.arguments, &prepared.folder)?;
    loop {
        if let Some(bytes) = machine.read(Duration::from_millis(200))? {
            collector.take(&bytes, machine.age())?;
        } else {
            // Write out the log so far, so that the file can be read.
            collector.finish()?;
        }
        if let Some(why) = machine.gone()? {
            out::line(format_args!("QEMU has ended: {why}"))?;
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The command that attaches gdb, with the symbols of the kernel and of every program of the system: their addresses do not overlap.
fn gdb(project: &Project, kernel: &Kernel, level: &str, specification: &Specification) -> String {
    let components: BTreeSet<_> = specification.components.iter().map(|component| component.program.as_str()).collect();
    let symbols: Vec<_> = iter::once(ROOT_TASK)
        .chain(components)
        .map(|name| format!("-ex 'add-symbol-file {}'", project.shown(&programs::path(project, kernel, level, name))))
        .collect();
    format!(
        "the machine waits; in the project's folder run:\n  gdb {} {} -ex 'target remote :1234'",
        project.shown(&kernel.elf64),
        symbols.join(" ")
    )
}
