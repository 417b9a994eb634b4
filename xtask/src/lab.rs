//! Hands commands to the program of the crate `lab`, which cargo builds when one is asked for.
//!
//! That crate has the simulator and the commands of developers; a first run on QEMU compiles nothing of it.

use crate::project::Project;
use anyhow::{Error, Result};
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// The commands, each with its purpose, in the order of help. A test of the crate compares them with its own.
pub const COMMANDS: [(&str, &str); 17] = [
    ("sim", "Run a scenario in the simulator: once, or with many seeds"),
    ("sweep", "Run a scenario with all combinations of some values in the simulator, and draw figures"),
    ("soak", "Run random systems with random faults in the simulator"),
    ("device", "Serve a controller of a scenario to a QEMU with vfio-user"),
    ("nvme", "Run nvme-cli on a controller of a scenario"),
    ("linux", "Let Linux judge the controller model"),
    ("fuzz", "Search for inputs that violate a law"),
    ("top", "Watch the tenants of a running system on a terminal"),
    ("web", "Serve a page that shows a running system, and its metrics"),
    ("ctl", "Ask a running system for its tenants or statistics"),
    ("test", "Run every test there is"),
    ("check", "Check format, lints, direction of dependencies and documentation"),
    ("conformance", "Compare the kernel's model in the simulator with the kernel, call by call"),
    ("bench", "Measure operations in instructions"),
    ("experiment", "Regenerate a figure: data as CSV, picture as SVG"),
    ("docs", "Build a book of the documents, or redraw the figures in them"),
    ("completions", "Print a script that lets a shell complete the commands and their options"),
];

/// Whether these arguments, the program's name first, name such a command or ask for the help of one.
pub(crate) fn is_asked(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let mut words = arguments.into_iter().skip(1).skip_while(|word| word == "help");
    words.next().is_some_and(|word| COMMANDS.iter().any(|(name, _)| word == *name))
}

/// Builds that program, and becomes it, with the arguments of this one. Returns only if cargo cannot be run.
pub(crate) fn run(project: &Project) -> Result<ExitCode> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--package", "lab", "--manifest-path"]).arg(project.path("Cargo.toml"));
    Err(Error::new(cargo.arg("--").args(env::args_os().skip(1)).exec()).context("cannot run cargo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str) -> bool {
        is_asked(["xtask"].into_iter().chain(words.split_whitespace()).map(OsString::from))
    }

    #[test]
    fn commands_of_developers_and_their_help_are_handed_on() {
        assert!(check("sim demo") && check("test --quick") && check("help soak") && check("bench --help"));
        assert!(!check("") && !check("help") && !check("demo sim") && !check("help demo") && !check("--version"));
    }
}
