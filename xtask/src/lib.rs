//! `cargo xtask`: the commands of a first run on QEMU, and the parts that they share with the crate `lab`, which has all others.
//!
//! Each command is a module of `commands`; `lab` hands the others on. The modules below them each use only those that follow: `run` (one
//! run of a scenario), `reports`, `judges`, `machine` (QEMU and its disks), `records` (logs and reports of a run), `image` (programs and the
//! boot image), `setup`. An error is one sentence with the place and the fix, and ends the program with status 1. All files that a
//! command leaves are below `target/`.

#![allow(rustdoc::private_intra_doc_links, reason = "for the readers of the commands, not for users of a library")]
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic when nobody takes the line: see `out`")]

pub mod arguments;
pub mod cargo;
pub mod commands;
pub mod destination;
pub mod image;
pub mod judges;
pub mod lab;
pub mod machine;
pub mod out;
pub mod plain;
pub mod progress;
pub mod project;
pub mod records;
pub mod reports;
pub mod run;
pub mod setup;
pub mod telemetry;

use anyhow::Result;
use clap::{FromArgMatches, Subcommand};
use commands::Command;
use out::OutputError;
use project::Project;
use std::env;
use std::process::ExitCode;

/// Columns of help, at most: longer lines are hard to read.
pub const MOST_HELP_COLUMNS: usize = 100;

/// The command line of a program with these commands.
#[must_use]
pub fn command_line<C: Subcommand>() -> clap::Command {
    let bare = clap::Command::new("cargo xtask").bin_name("cargo xtask");
    let bare = bare.version(concat!(env!("CARGO_PKG_VERSION"), " of capnvme"));
    let with_commands = C::augment_subcommands(bare.subcommand_required(true).arg_required_else_help(true));
    with_commands.about("The project's commands").term_width(out::columns().min(MOST_HELP_COLUMNS))
}

/// The program of a first run. Its help lists the commands of `lab`, too.
#[must_use]
pub fn main() -> ExitCode {
    let others = lab::COMMANDS.iter().map(|(name, about)| clap::Command::new(*name).about(*about));
    let is_for_lab = arguments::refusal(env::args_os()).is_none() && lab::is_asked(env::args_os());
    if is_for_lab {
        return exit_code(Project::here().and_then(|project| lab::run(&project)));
    }
    start(command_line::<Command>().subcommands(others), |project, command| commands::run(project, command, None))
}

/// Parses the program's arguments, runs the command, and reports an error.
#[must_use]
pub fn start<C: FromArgMatches>(
    command_line: clap::Command,
    run: impl FnOnce(&Project, &C) -> Result<ExitCode>,
) -> ExitCode {
    if let Some(sentence) = arguments::refusal(env::args_os()) {
        out::note(format_args!("{sentence}"));
        return ExitCode::FAILURE;
    }
    match command_line.try_get_matches().and_then(|matches| C::from_arg_matches(&matches)) {
        Ok(command) => exit_code(Project::here().and_then(|project| run(&project, &command))),
        Err(error) => match arguments::sentence(&error) {
            Some(sentence) => {
                out::note(format_args!("{sentence}"));
                ExitCode::FAILURE
            }
            None => error.exit(),
        },
    }
}

/// The program's exit code; an error is reported.
fn exit_code(result: Result<ExitCode>) -> ExitCode {
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
