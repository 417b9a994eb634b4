//! The commands of a first run on QEMU, a module each.

pub mod demo;
pub mod new;
pub mod qemu;
pub mod scenarios;
pub mod setup;

use crate::machine::model::Serve;
use crate::project::Project;
use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// A command of this crate.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make this machine ready: packages, Rust target, kernel
    Setup(setup::Setup),
    /// Run a scenario on seL4 in QEMU and show what happened
    Demo(demo::Demo),
    /// Create a client program: a crate with a test and a scenario
    New(new::New),
    /// Keep a scenario running, with its log on the terminal; --debug waits for gdb
    Qemu(qemu::Qemu),
    /// List the scenarios, with what each shows and where it runs
    Scenarios(scenarios::Scenarios),
}

/// Runs a command; returns its exit code. `serve` serves the simulator's controllers, in a program that has the simulator.
///
/// # Errors
/// Whatever keeps the command from its work, in one sentence.
pub fn run(project: &Project, command: &Command, serve: Option<Serve>) -> Result<ExitCode> {
    match command {
        Command::Setup(setup) => setup::run(project, setup),
        Command::Demo(demo) => demo::run(project, demo, serve),
        Command::New(new) => new::run(project, new),
        Command::Qemu(qemu) => qemu::run(project, qemu),
        Command::Scenarios(scenarios) => scenarios::run(project, scenarios),
    }
}
