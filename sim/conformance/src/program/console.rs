//! Output of answers from the machine: records on the byte line that [`crate::machine`] finds.

use crate::machine::Line;
use sim_conformance::wire::{END, FAILURE, JOURNAL};

/// Sends one sequence's journal.
pub(crate) fn journal(line: &Line, bytes: &[u8]) {
    record(line, JOURNAL, bytes);
}

/// Sends the reason why the run ends early.
pub(crate) fn failure(line: &Line, reason: &str) {
    record(line, FAILURE, reason.as_bytes());
}

/// Reports that all was sent. The build machine ends the run once it has read this.
pub(crate) fn end(line: &Line) -> ! {
    record(line, END, &[]);
    loop {
        line.stop();
    }
}

fn record(line: &Line, kind: u8, bytes: &[u8]) {
    let len = (bytes.len() as u32).to_le_bytes();
    for byte in [kind].iter().chain(&len).chain(bytes) {
        line.put(*byte);
    }
}
