//! Parts of the report, and values in the form that several parts share.

use crate::records::results::Results;
use crate::reports::sheet::Sheet;
use crate::reports::wrap::wrapped;
use report::Fault;

/// Part of the report.
pub(crate) enum Part {
    /// A table below its title of one or more lines.
    Table(&'static str, Sheet),
    /// Lines, which are wrapped between words.
    Text(String),
    /// Lines that are wrapped only where somebody reads them, and searched elsewhere.
    Sentences(String),
    /// Lines that stay as they are, to be searched and copied.
    Lines(String),
}

impl Part {
    pub(super) fn render(self, columns: usize, sentences: usize) -> String {
        match self {
            Self::Table(title, sheet) => format!("{}{}\n", of_lines(title, columns), sheet.fit(columns)),
            Self::Text(text) => of_lines(&text, columns),
            Self::Sentences(text) => of_lines(&text, sentences),
            Self::Lines(text) => text,
        }
    }
}

fn of_lines(text: &str, columns: usize) -> String {
    text.lines().map(|line| wrapped(line, columns) + "\n").collect()
}

pub(super) fn ended_faults(results: &Results) -> impl Iterator<Item = &Fault> {
    results.faults.iter().map(|one| &one.fault).filter(|fault| results.restarts_of(&fault.name) == 0)
}

pub(super) fn what(fault: &Fault) -> String {
    let kind = format!("{:?}", fault.kind).to_lowercase();
    format!("{kind} of {:#x}, instruction {:#x}", fault.address, fault.instruction)
}

/// Zero of the times, nanoseconds of machine time.
pub(super) fn began_ns(results: &Results) -> u64 {
    results.timeline.begin_ns.unwrap_or(0)
}

pub(super) fn milliseconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}

pub(super) fn bdf(bdf: u16) -> String {
    format!("{:02x}:{:02x}.{}", bdf >> 8, bdf >> 3 & 31, bdf & 7)
}

/// Bytes with the largest unit that leaves no remainder, or about so many KiB.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >= 1 << shift && bytes.trailing_zeros() >= *shift) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None if bytes > 1 << 10 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        None => format!("{bytes} B"),
    }
}

pub(super) fn micros(ns: u64) -> String {
    format!("{:.0}", ns as f64 / 1000.0)
}
