//! `cargo xtask nvme`: Debian's nvme-cli, unmodified, on a controller.
//!
//! With `--run` that is the controller of a running system, whose NVMe server executes what the scenario allows. Otherwise a scenario's
//! controller lives in the simulator for one command. `--serve` keeps one, and `--at` leads commands to it.

mod answers;
mod decoding;
pub(crate) mod rows;
mod running;
pub(crate) mod subcommands;

use crate::commands::device;
use crate::contents;
use crate::live::administration;
use crate::nvme_cli::FarEnd;
use crate::nvme_cli::model::Model;
use crate::nvme_cli::program::NvmeCli;
use crate::nvme_cli::server::Server;
use anyhow::{Context, Result, ensure};
use capdl::Scenario;
use clap::Args;
use nvme_passthrough::SOCKET;
use sim::Exported;
use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use xtask::arguments::Settings;
use xtask::out;
use xtask::project::Project;

/// Arguments of the command.
#[derive(Debug, Args)]
pub(crate) struct Nvme {
    /// The scenario: a name in scenarios/, or a TOML file
    #[arg(long, default_value = "demo")]
    scenario: String,
    #[command(flatten)]
    settings: Settings,
    /// The controller of the scenario; the first without it
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    /// Keep the controller and serve it at this folder, until Ctrl-C
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["at", "arguments"])]
    serve: Option<PathBuf>,
    /// Use the controller of the run that goes on: the newest of this scenario; of any without a name
    #[arg(
        long,
        value_name = "SCENARIO",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["scenario", "set", "controller", "serve", "at"]
    )]
    run: Option<String>,
    /// Use the controller that is served at this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["scenario", "set", "controller"])]
    at: Option<PathBuf>,
    /// Arguments of nvme, whose controller is /dev/nvme0
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// Runs nvme-cli; returns its exit status.
pub(crate) fn run(project: &Project, nvme: &Nvme) -> Result<ExitCode> {
    let chosen = || {
        let scenario = Scenario::load_with(project.scenario(&nvme.scenario)?, None, &nvme.settings.set)?;
        controller(&scenario, nvme.controller.as_deref())
    };
    if let Some(folder) = &nvme.serve {
        let server = Server::start(folder, Box::new(chosen()?))?;
        let shown = folder.display();
        out::line(format_args!("/dev/nvme0 is served; use it with: cargo xtask nvme --at {shown} -- ARGS"))?;
        server.wait();
        return Ok(ExitCode::SUCCESS);
    }
    let arguments = nvme.arguments.clone();
    let status = match (&nvme.at, &nvme.run) {
        (Some(folder), _) => {
            let shown = folder.display();
            ensure!(
                UnixStream::connect(folder.join(SOCKET)).is_ok(),
                "no controller is served at {shown}: serve one with cargo xtask nvme --serve {shown}"
            );
            NvmeCli::prepare(project)?.command(folder, arguments).status()
        }
        (None, run) => {
            let controller: Box<dyn FarEnd> = match run {
                Some(run) => {
                    let run = Some(run.as_str()).filter(|run| !run.is_empty());
                    Box::new(administration::controller(project, run)?)
                }
                None => Box::new(chosen()?),
            };
            let folder = tempfile::tempdir().context("there is no place for a socket")?;
            let program = NvmeCli::prepare(project)?;
            let _server = Server::start(folder.path(), controller)?;
            program.command(folder.path(), arguments).status()
        }
    };
    Ok(code(status.context("cannot run nvme")?))
}

/// A scenario's controller of this name, or its first one, ready for commands.
fn controller(scenario: &Scenario, name: Option<&str>) -> Result<Model> {
    let (index, controller) = device::chosen(scenario, name)?;
    ensure!(
        controller.virtual_functions == 0,
        "the controller '{}' has virtual functions, which the model cannot have alone: take virtual_functions away, or name \
         another controller",
        controller.name
    );
    let disks: Vec<_> = controller.namespaces.iter().map(contents::of).collect();
    let exported = Exported::new(scenario, index, &disks, &scenario.faults, scenario.seed)?;
    Ok(Model::new(exported)?)
}

/// The exit status of a program as ours; after a signal that of a shell.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| signal + 128));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
