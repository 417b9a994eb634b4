//! `cargo xtask device`: serves a controller of a scenario over vfio-user, for a QEMU that somebody starts by hand.

use crate::contents;
use anyhow::{Context, Result, ensure};
use capdl::Scenario;
use capdl::scenario::Controller;
use clap::Args;
use sim::Exported;
use sim_vfio_user::{ClientEnd, Server};
use std::path::PathBuf;
use std::process::ExitCode;
use xtask::arguments::{self, Settings};
use xtask::machine::disk::{UserDisk, Writing};
use xtask::out;
use xtask::project::Project;

/// How QEMU attaches the device.
const ATTACH: &str = "\
QEMU needs the device vfio-user-pci (10.1 or later) and memory that it shares:

  qemu-system-x86_64 -M q35,memory-backend=ram -m 1G \\
    -object memory-backend-memfd,id=ram,size=1G,share=on \\
    -device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"PATH\"}}'

Behind an IOMMU, before the device: -device intel-iommu,caching-mode=on
`cargo xtask setup --with-vfio-user` installs such a QEMU below target/tools/.";

/// Arguments of the command.
#[derive(Debug, Args)]
#[command(after_help = ATTACH)]
pub(crate) struct Device {
    /// The scenario: a name in scenarios/, or a TOML file
    #[arg(default_value = "boot")]
    scenario: String,
    #[command(flatten)]
    settings: Settings,
    /// The UNIX socket to listen at
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The controller of the scenario; the first without it
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    /// A raw image or any file as the first namespace's content; it is not changed
    #[arg(long, value_name = "PATH")]
    disk: Option<PathBuf>,
    /// Seed of all random choices; the scenario's own without it
    #[arg(long, allow_negative_numbers = true, value_parser = arguments::seed)]
    seed: Option<u64>,
}

/// Serves one client after the other, until the user ends it.
pub(crate) fn run(project: &Project, device: &Device) -> Result<ExitCode> {
    let scenario = Scenario::load_with(project.scenario(&device.scenario)?, None, &device.settings.set)?;
    let (index, controller) = chosen(&scenario, device.controller.as_deref())?;
    ensure!(
        controller.virtual_functions == 0,
        "the controller '{}' has virtual functions, which QEMU hides of such a device: take virtual_functions away, or name \
         another controller",
        controller.name
    );
    let disk = device.disk.as_deref().map(|path| UserDisk::open(path, Writing::Forgotten)).transpose()?;
    let mut disks: Vec<_> = controller.namespaces.iter().map(contents::of).collect();
    if let (Some(disk), Some(first)) = (&disk, disks.first_mut()) {
        *first = contents::of_file(&disk.path)?;
    }
    let seed = device.seed.unwrap_or(scenario.seed);
    let mut exported = Exported::new(&scenario, index, &disks, &scenario.faults, seed)?;
    let server = Server::bind(&device.socket)?;
    out::line(format_args!("{} listens at {}; end with Ctrl-C", controller.name, device.socket.display()))?;
    server.run(&mut exported, &mut |end| {
        // A reader of this output that has gone away does not end the server.
        let _ = match end {
            ClientEnd::Failed(error) => out::line(format_args!("the client failed: {error}")),
            ClientEnd::Left | ClientEnd::Stopped => out::line(format_args!("the client has left")),
        };
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The scenario's controller of this name, or its first one.
pub(super) fn chosen<'a>(scenario: &'a Scenario, name: Option<&str>) -> Result<(usize, &'a Controller)> {
    let all = &scenario.controllers;
    let found = match name {
        Some(name) => scenario.controller(name),
        None => all.first().map(|first| (0, first)),
    };
    found.with_context(|| {
        let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
        let named = name.map_or_else(|| "a controller".to_owned(), |name| format!("the controller '{name}'"));
        format!("the scenario '{}' does not have {named}: it has {}", scenario.name, names.join(", "))
    })
}
