//! Output of the commands: results on standard output, progress and errors on standard error.
//!
//! A command whose standard output cannot take a line ends: with one sentence, or silently if the reader closed the pipe. A line
//! for standard error that cannot be written is dropped, because there is no other place to report it.

use anyhow::Result;
use std::fmt;
use std::io::{self, ErrorKind, Write};

/// Standard output takes no more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The reader closed the pipe.
    #[error("standard output is closed")]
    Closed,
    /// It cannot be written.
    #[error("cannot write to standard output ({0}): redirect it to a place with room")]
    Failed(io::Error),
}

/// Prints a line of results.
///
/// # Errors
/// [`OutputError`].
pub(crate) fn line(text: fmt::Arguments<'_>) -> Result<()> {
    write_line(&mut io::stdout().lock(), text)
}

/// Prints a line for people on standard error.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    // This failure cannot be reported.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

fn write_line(out: &mut impl Write, text: fmt::Arguments<'_>) -> Result<()> {
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
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
