//! The project's commands: `cargo xtask demo`, `device`, `linux`, `test`, `check`, `qemu`, `scenarios`, `sim`, `sweep`, `soak`, `fuzz`, `bench`,
//! `experiment`, `docs`, `new`, `setup`, `completions`.
//!
//! Each command is a module of `commands`. The modules below them each use only those that follow: `run` (one run of a scenario),
//! `reports`, `judges`, `machine` (QEMU and its disks), `records` (logs and reports of a run), `image` (programs and the boot
//! image), `setup`. An error is one sentence with the place and the fix, and ends the program with status 1. All files that a
//! command leaves are below `target/`.

#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "all-commands"), allow(dead_code, reason = "commands of the whole program use the rest"))]
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic when nobody takes the line: see `out`")]

mod arguments;
mod cargo;
#[cfg(feature = "all-commands")]
mod combinations;
mod commands;
mod destination;
mod image;
mod judges;
#[cfg(feature = "all-commands")]
mod lines;
mod machine;
mod out;
#[cfg(feature = "all-commands")]
mod parallel;
#[cfg(feature = "all-commands")]
mod part;
mod plain;
mod progress;
mod project;
mod records;
mod reports;
mod run;
mod setup;

pub use run::reading;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(not(feature = "all-commands"))]
use commands::again::{
    self, self as bench, self as check, self as completions, self as conformance, self as device, self as docs,
    self as experiment, self as fuzz, self as linux, self as sim, self as soak, self as sweep, self as test,
};
#[cfg(feature = "all-commands")]
use commands::{bench, check, completions, conformance, device, docs, experiment, fuzz, linux, sim, soak, sweep, test};
use commands::{demo, new, qemu, scenarios};
use out::OutputError;
use project::Project;
use setup::packages::Consent;
use std::process::ExitCode;

/// The project's commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version = concat!(env!("CARGO_PKG_VERSION"), " of capnvme"))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make this machine ready: packages, Rust target, kernel
    Setup {
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
    },
    /// Run a scenario on seL4 in QEMU and show what happened
    Demo(demo::Demo),
    /// Create a client program: a crate with a test and a scenario
    New(new::New),
    /// Serve a controller of a scenario to a QEMU with vfio-user
    Device(device::Device),
    /// Let Linux judge the controller model
    Linux(linux::Linux),
    /// Keep a scenario running, with its log on the terminal; --debug waits for gdb
    Qemu(qemu::Qemu),
    /// List the scenarios, with what each shows and where it runs
    Scenarios(scenarios::Scenarios),
    /// Run a scenario in the simulator: once, or with many seeds
    Sim(sim::Sim),
    /// Run a scenario with all combinations of some values in the simulator, and draw figures
    Sweep(sweep::Sweep),
    /// Run random systems with random faults in the simulator
    Soak(soak::Soak),
    /// Search for inputs that violate a law
    Fuzz(fuzz::Fuzz),
    /// Run every test there is
    Test(test::Test),
    /// Check format, lints, direction of dependencies and documentation
    Check(check::Check),
    /// Compare the kernel's model in the simulator with the kernel, call by call
    Conformance(conformance::Conformance),
    /// Measure operations in instructions
    Bench(bench::Bench),
    /// Regenerate a figure: data as CSV, picture as SVG
    Experiment(experiment::Experiment),
    /// Build a book of the documents, or redraw the figures in them
    Docs(docs::Docs),
    /// Print a script that lets a shell complete the commands and their options
    Completions(completions::Completions),
}

/// Columns of help, at most: longer lines are hard to read.
const MOST_HELP_COLUMNS: usize = 100;

/// The commands and their options.
fn command() -> clap::Command {
    Arguments::command().term_width(out::columns().min(MOST_HELP_COLUMNS))
}

/// The program: parses its arguments, runs the command, and reports an error.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(sentence) = arguments::refusal(std::env::args_os()) {
        out::note(format_args!("{sentence}"));
        return ExitCode::FAILURE;
    }
    #[cfg(not(feature = "all-commands"))]
    if again::is_help(std::env::args_os(), &command()) {
        return ended(Project::here().and_then(|project| again::whole(&project)));
    }
    let parsed = command().try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => match arguments::sentence(&error) {
            Some(sentence) => {
                out::note(format_args!("{sentence}"));
                return ExitCode::FAILURE;
            }
            None => error.exit(),
        },
    };
    ended(run(&arguments))
}

/// The program's exit code; an error is reported.
fn ended(result: Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            // A reader that closed the pipe, such as `head`, has all the lines it wants.
            if !matches!(error.downcast_ref(), Some(OutputError::Closed)) {
                out::note(format_args!("error: {error:#}"));
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let project = Project::here()?;
    match &arguments.command {
        Command::Setup { yes, with_vfio_user, with_linux, with_slurm } => {
            #[cfg(not(feature = "all-commands"))]
            if *with_vfio_user || *with_linux {
                return again::whole(&project);
            }
            let consent = if *yes { Consent::Given } else { Consent::NotAsked };
            let kernel = setup::prepare_everything(&project, consent)?;
            if *with_slurm {
                setup::prepare_schedulers(consent)?;
                out::line(format_args!("ready: Slurm and GNU parallel"))?;
            }
            #[cfg(feature = "all-commands")]
            if *with_vfio_user || *with_linux {
                let qemu = setup::vfio_user::install(&project)?;
                out::line(format_args!("ready: QEMU {} has vfio-user-pci", qemu.version()))?;
            }
            #[cfg(feature = "all-commands")]
            if *with_linux {
                let guest = setup::linux_guest::install(&project)?;
                out::line(format_args!("ready: Linux {} is a guest", guest.version()))?;
            }
            out::line(format_args!("ready: the kernel is {}", project.shown(&kernel.elf32)))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Demo(demo) => demo::demo(&project, demo),
        Command::Device(device) => device::run(&project, device),
        Command::Linux(linux) => linux::run(&project, linux),
        Command::New(new) => new::run(&project, new),
        Command::Qemu(qemu) => qemu::run(&project, qemu),
        Command::Scenarios(scenarios) => scenarios::run(&project, scenarios),
        Command::Sim(sim) => sim::run(&project, sim),
        Command::Sweep(sweep) => sweep::run(&project, sweep),
        Command::Soak(soak) => soak::run(&project, soak),
        Command::Fuzz(fuzz) => fuzz::run(&project, fuzz),
        Command::Test(test) => test::run(&project, test),
        Command::Check(check) => check::run(&project, check),
        Command::Conformance(conformance) => conformance::run(&project, conformance),
        Command::Bench(bench) => bench::run(&project, bench),
        Command::Experiment(experiment) => experiment::run(&project, experiment),
        Command::Docs(docs) => docs::run(&project, docs),
        Command::Completions(completions) => completions::run(&project, completions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::sheet::widest_line;

    fn check(command: &mut clap::Command, columns: usize) {
        for help in [command.render_help(), command.render_long_help()] {
            let text = help.to_string();
            assert!(widest_line(&text) <= columns, "{columns} columns:\n{text}");
        }
        command.get_subcommands_mut().for_each(|below| check(below, columns));
    }

    #[test]
    fn no_line_of_any_help_is_wider_than_the_terminal() {
        for columns in [80, MOST_HELP_COLUMNS] {
            let mut command = Arguments::command().term_width(columns);
            command.build();
            check(&mut command, columns);
        }
        assert!(command().get_subcommands().count() > 10);
    }
}
