//! `cargo xtask setup`: makes this machine ready for all commands.

use crate::out;
use crate::project::Project;
use crate::setup::packages::Consent;
use crate::setup::{linux_guest, prepare_browser, prepare_everything, prepare_nvme_cli, prepare_schedulers, vfio_user};
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct Setup {
    /// Install missing packages through sudo without asking
    #[arg(long)]
    yes: bool,
    /// Install a QEMU with the device vfio-user-pci too, below target/tools
    #[arg(long)]
    with_vfio_user: bool,
    /// Install that QEMU and a Linux guest too, below target/tools
    #[arg(long)]
    with_linux: bool,
    /// Install Debian's Slurm and GNU parallel too, for the tests of parts on several machines
    #[arg(long)]
    with_slurm: bool,
    /// Install Debian's nvme-cli too, for the command nvme and its tests
    #[arg(long)]
    with_nvme_cli: bool,
    /// Install Debian's Chromium and Prometheus too, for the tests of the page of a running system
    #[arg(long)]
    with_browser: bool,
}

/// Installs and builds what is missing.
///
/// # Errors
/// A part that cannot be installed or built.
pub(crate) fn run(project: &Project, setup: &Setup) -> Result<ExitCode> {
    let consent = if setup.yes { Consent::Given } else { Consent::NotAsked };
    let kernel = prepare_everything(project, consent)?;
    if setup.with_slurm {
        prepare_schedulers(consent)?;
        out::line(format_args!("ready: Slurm and GNU parallel"))?;
    }
    if setup.with_nvme_cli {
        prepare_nvme_cli(consent)?;
        out::line(format_args!("ready: nvme-cli"))?;
    }
    if setup.with_browser {
        prepare_browser(consent)?;
        out::line(format_args!("ready: Chromium and Prometheus"))?;
    }
    if setup.with_vfio_user || setup.with_linux {
        let qemu = vfio_user::install(project)?;
        out::line(format_args!("ready: QEMU {} has vfio-user-pci", qemu.version()))?;
    }
    if setup.with_linux {
        let guest = linux_guest::install(project)?;
        out::line(format_args!("ready: Linux {} is a guest", guest.version()))?;
    }
    out::line(format_args!("ready: the kernel is {}", project.shown(&kernel.elf32)))?;
    Ok(ExitCode::SUCCESS)
}
