//! Cargo, as the commands call it.

use crate::progress::Step;
use anyhow::{Context, Result, ensure};
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// Lines of the compiler's complaint that an error shows.
const SHOWN_LINES: usize = 40;

/// Cargo in this folder: the one that runs this program, or else the one of the search path.
pub fn cargo_in(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The settings of this cargo run must not reach the inner one.
    command.current_dir(folder).env_remove("CARGO_MANIFEST_DIR");
    command
}

/// Runs a build of `what`, with its progress in `step`.
///
/// # Errors
/// The last lines of what the compiler said.
pub fn build(command: &mut Command, what: &str, step: &Step) -> Result<()> {
    // Cargo's bar has the number of crates, which nothing else tells.
    let mut child = command
        .env("CARGO_TERM_PROGRESS_WHEN", "always")
        .env("CARGO_TERM_PROGRESS_WIDTH", "120")
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run cargo; install Rust from https://rustup.rs")?;
    let mut said = Vec::new();
    for line in child.stderr.take().into_iter().flat_map(lines) {
        match Line::parse(&line) {
            Line::Built { crates, of, now } => step.count(crates, of, now),
            Line::Waits => step.say("waits for another cargo"),
            Line::Nothing => {}
            Line::Said(text) => said.push(text.to_owned()),
        }
    }
    let status = child.wait().context("cannot wait for cargo")?;
    let last = said.get(said.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default().join("\n");
    ensure!(status.success(), "{what} cannot be built:\n{last}");
    Ok(())
}

/// A line of the output of cargo.
#[derive(PartialEq, Eq, Debug)]
enum Line<'a> {
    /// Crates that are built, of all, and what is being built.
    Built { crates: u64, of: u64, now: &'a str },
    /// Another cargo has the lock of the folder.
    Waits,
    /// A bar without numbers, or an empty line.
    Nothing,
    /// Anything else, such as a warning.
    Said(&'a str),
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let text = line.trim();
        if text.starts_with("Blocking waiting for file lock") {
            return Self::Waits;
        }
        let Some((_, bar)) = text.split_once('[').filter(|(verb, _)| verb.trim() == "Building") else {
            return if text.is_empty() { Self::Nothing } else { Self::Said(line) };
        };
        let numbers = || {
            let (count, now) = bar.split_once(']')?.1.trim().split_once(':')?;
            let (crates, of) = count.split_once('/')?;
            Some(Self::Built { crates: crates.parse().ok()?, of: of.parse().ok()?, now: now.trim() })
        };
        numbers().unwrap_or(Self::Nothing)
    }
}

/// The lines of a terminal's output: each ends with a line feed, or is overwritten after a carriage return.
fn lines(from: impl Read) -> impl Iterator<Item = String> {
    let mut bytes = BufReader::new(from).bytes().map_while(Result::ok);
    std::iter::from_fn(move || {
        let first = bytes.next()?;
        let line: Vec<u8> =
            std::iter::once(first).chain(&mut bytes).take_while(|byte| !b"\r\n".contains(byte)).collect();
        Some(String::from_utf8_lossy(&line).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_bar_is_read_and_what_it_says_kept() {
        let output = "    Blocking waiting for file lock on build directory\n   Compiling zerocopy v0.8.63\n\
                      \x20   Building [=====>       ] 12/80: zerocopy, serde(build)\r    Building [>  ]\r\n\
                      warning: unused\n";
        let lines: Vec<_> = lines(output.as_bytes()).collect();
        let lines: Vec<_> = lines.iter().map(|line| Line::parse(line)).collect();
        let built = Line::Built { crates: 12, of: 80, now: "zerocopy, serde(build)" };
        let compiling = Line::Said("   Compiling zerocopy v0.8.63");
        let said = Line::Said("warning: unused");
        assert_eq!(lines, [Line::Waits, compiling, built, Line::Nothing, Line::Nothing, said]);
    }
}
