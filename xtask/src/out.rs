//! Output of the commands: results on standard output, progress and errors on standard error.
//!
//! A command whose standard output cannot take a line ends: with one sentence, or silently if the reader closed the pipe. A line
//! for standard error that cannot be written is dropped, because there is no other place to report it. Control characters of names, paths
//! and logs do not reach the terminal ([`plain`]).

use crate::plain::plain;
use anyhow::Result;
use rustix::termios::tcgetwinsize;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

/// Columns of an output that is no terminal.
pub const COLUMNS: usize = 80;

/// Standard output takes no more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The reader closed the pipe.
    #[error("standard output is closed")]
    Closed,
    /// The output cannot be written.
    #[error("cannot write to standard output ({0}): redirect it to a place with room")]
    Failed(io::Error),
}

/// Columns of the standard output: those of the variable `COLUMNS`, or of the terminal, or [`COLUMNS`].
pub fn columns() -> usize {
    known_columns(io::stdout()).unwrap_or(COLUMNS)
}

/// Columns of sentences on an output: no limit where there is neither the variable `COLUMNS` nor a terminal, so that lines can be
/// searched.
pub fn sentence_columns(out: impl AsFd) -> usize {
    known_columns(out).unwrap_or(usize::MAX)
}

fn known_columns(out: impl AsFd) -> Option<usize> {
    let terminal = || Some(tcgetwinsize(out).ok()?.ws_col.into());
    columns_of(std::env::var("COLUMNS").ok().as_deref(), terminal())
}

fn columns_of(variable: Option<&str>, terminal: Option<usize>) -> Option<usize> {
    let variable = variable.and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
    variable.or(terminal.filter(|columns| *columns > 0))
}

/// Prints a line of results.
///
/// # Errors
/// [`OutputError`].
pub fn line(text: fmt::Arguments<'_>) -> Result<()> {
    write_line(&mut io::stdout().lock(), text)
}

/// Prints a line for people on standard error.
pub fn note(text: fmt::Arguments<'_>) {
    // This failure cannot be reported.
    let _ = write_line(&mut io::stderr().lock(), text);
}

fn write_line(out: &mut impl Write, text: fmt::Arguments<'_>) -> Result<()> {
    let written = writeln!(out, "{}", plain(&text.to_string())).and_then(|()| out.flush());
    Ok(written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => OutputError::Closed,
        _ => OutputError::Failed(error),
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn the_width_is_the_variables_or_the_terminals() {
        for (variable, terminal, columns) in [
            (Some("100"), Some(120), Some(100)),
            (None, Some(120), Some(120)),
            (Some(""), Some(120), Some(120)),
            (Some("0"), None, None),
            (None, Some(0), None),
            (Some("wide"), None, None),
        ] {
            assert_eq!(columns_of(variable, terminal), columns, "{variable:?}, {terminal:?}");
        }
    }

    #[test]
    fn a_line_does_not_act_on_the_terminal() {
        let mut out = Vec::new();
        write_line(&mut out, format_args!("there is no scenario '{}'", "\u{1b}[2J\rgone")).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "there is no scenario '\u{fffd}[2J\u{fffd}gone'\n");
    }

    #[test]
    fn a_full_output_is_named_and_a_closed_one_is_distinguished() {
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let error = write_line(&mut full, format_args!("a")).unwrap_err();
        assert!(error.to_string().starts_with("cannot write to standard output (No space left"), "{error}");
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let error = write_line(&mut writer, format_args!("a")).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(OutputError::Closed)), "{error}");
    }
}
