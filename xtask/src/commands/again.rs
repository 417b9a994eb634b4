//! Runs a command again by the whole program, which has the simulator and the commands for developers.
//!
//! The program of a first demo is compiled without them: that takes half the time.

#![cfg(not(feature = "all-commands"))]

use crate::project::Project;
use anyhow::{Error, Result, ensure};
use clap::Args;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Set for the whole program: a small one that finds it, such as in a part of a soak (`xtask/scale/part.sh`), builds nothing.
const WHOLE: &str = "CAPNVME_WHOLE_PROGRAM";

/// The refusal of a small program that must not build.
const SMALL: &str =
    "target/debug/xtask is the small program, without this command: build the whole one with: cargo build -p xtask";

/// Arguments of a command that only the whole program understands.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Again {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _all: Vec<OsString>,
}

pub(crate) use Again as Bench;
pub(crate) use Again as Check;
pub(crate) use Again as Completions;
pub(crate) use Again as Conformance;
pub(crate) use Again as Device;
pub(crate) use Again as Docs;
pub(crate) use Again as Experiment;
pub(crate) use Again as Fuzz;
pub(crate) use Again as Linux;
pub(crate) use Again as Sim;
pub(crate) use Again as Soak;
pub(crate) use Again as Sweep;
pub(crate) use Again as Test;

/// Whether these arguments ask for the help of such a command.
pub(crate) fn is_help(mut arguments: impl Iterator<Item = OsString>, commands: &clap::Command) -> bool {
    let asks = arguments.nth(1).is_some_and(|word| word == "help");
    let about = arguments.next().filter(|_| asks).and_then(|word| commands.find_subcommand(word));
    about.is_some_and(clap::Command::is_disable_help_flag_set)
}

/// Builds the whole program, and becomes it. Returns only if that fails.
pub(crate) fn run(project: &Project, _: &Again) -> Result<ExitCode> {
    whole(project)
}

/// Becomes the whole program for a command whose options need it. Returns only if that fails.
pub(crate) fn whole(project: &Project) -> Result<ExitCode> {
    ensure!(env::var_os(WHOLE).is_none(), "{SMALL}");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--package", "xtask", "--manifest-path"]).arg(project.path("Cargo.toml"));
    cargo.arg("--").args(env::args_os().skip(1)).env(WHOLE, "1");
    Err(Error::new(cargo.exec()).context("cannot run cargo"))
}
