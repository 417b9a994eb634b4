//! The commands of `cargo xtask` for developers: the simulator, tests, measurements, documents. `xtask` hands them to this program,
//! which cargo builds when one is asked for; a first run on QEMU compiles nothing of it.
//!
//! Each command is a module of `commands`. They share `simulate` and `seeds` (runs in the simulator), `model` (the simulator's controllers
//! in QEMU), `nvme_cli` and `fields` (controllers for nvme-cli, and their structures), `live` (a running system), `web` (its page), `combinations`, `lines`,
//! `part` and `parallel` (many runs), and all that the crate `xtask` has: runs on QEMU, judges, records
//! and reports. The program has `xtask`'s commands, too, with the simulator.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic when nobody takes the line: see `xtask::out`")]

mod combinations;
mod commands;
mod contents;
mod fields;
mod lines;
mod live;
mod model;
mod nvme_cli;
mod parallel;
mod part;
mod schema;
mod seeds;
mod simulate;
mod web;

use anyhow::Result;
use clap::Subcommand;
use commands::{
    bench, check, completions, conformance, ctl, device, docs, experiment, fuzz, linux, nvme, sim, soak, sweep, test,
    top, web as watch,
};
use std::process::ExitCode;
use xtask::commands::Command as First;
use xtask::project::Project;

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    First(First),
    /// Run a scenario in the simulator: once, or with many seeds
    Sim(sim::Sim),
    /// Run a scenario with all combinations of some values in the simulator, and draw figures
    Sweep(sweep::Sweep),
    /// Run random systems with random faults in the simulator
    Soak(soak::Soak),
    /// Serve a controller of a scenario to a QEMU with vfio-user
    Device(device::Device),
    /// Run nvme-cli on a controller of a scenario
    Nvme(nvme::Nvme),
    /// Let Linux judge the controller model
    Linux(linux::Linux),
    /// Search for inputs that violate a law
    Fuzz(fuzz::Fuzz),
    /// Watch the tenants of a running system on a terminal
    Top(top::Top),
    /// Serve a page that shows a running system, and its metrics
    Web(watch::Web),
    /// Ask a running system for its tenants or statistics
    Ctl(ctl::Ctl),
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

/// All commands and their options.
fn program() -> clap::Command {
    xtask::command_line::<Command>()
}

/// The program: parses its arguments, runs the command, and reports an error.
#[must_use]
pub fn main() -> ExitCode {
    xtask::start(program(), run)
}

fn run(project: &Project, chosen: &Command) -> Result<ExitCode> {
    match chosen {
        Command::First(First::Demo(demo)) if demo.sim => sim::demo(project, demo),
        Command::First(First::Demo(demo)) if demo.live => watch::demo(project, demo),
        Command::First(first) => xtask::commands::run(project, first, Some(model::serve)),
        Command::Sim(sim) => sim::run(project, sim),
        Command::Sweep(sweep) => sweep::run(project, sweep),
        Command::Soak(soak) => soak::run(project, soak),
        Command::Device(device) => device::run(project, device),
        Command::Nvme(nvme) => nvme::run(project, nvme),
        Command::Linux(linux) => linux::run(project, linux),
        Command::Fuzz(fuzz) => fuzz::run(project, fuzz),
        Command::Top(top) => top::run(project, top),
        Command::Web(web) => watch::run(project, web),
        Command::Ctl(ctl) => ctl::run(project, ctl),
        Command::Test(test) => test::run(project, test, program()),
        Command::Check(check) => check::run(project, check, &program()),
        Command::Conformance(conformance) => conformance::run(project, conformance),
        Command::Bench(bench) => bench::run(project, bench),
        Command::Experiment(experiment) => experiment::run(project, experiment),
        Command::Docs(docs) => docs::run(project, docs, &program()),
        Command::Completions(completions) => completions::run(project, completions, program()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::MOST_HELP_COLUMNS;
    use xtask::reports::sheet::widest_line;

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
            let mut command = program().term_width(columns);
            command.build();
            check(&mut command, columns);
        }
        assert!(program().get_subcommands().count() > 10);
    }

    #[test]
    fn first_program_lists_every_command() {
        let all = program();
        let rest = all.get_subcommands().filter(|command| !First::has_subcommand(command.get_name()));
        let rest: Vec<_> = rest.map(|one| (one.get_name(), one.get_about().unwrap().to_string())).collect();
        assert_eq!(rest, xtask::lab::COMMANDS.map(|(name, about)| (name, about.to_owned())));
    }
}
