//! Reads a serial line without a machine and makes all outputs from it, for the fuzzer.

use crate::destination::{Format, json};
use crate::judges::times::{self, NotJudged};
use crate::judges::{causes, verdict};
use crate::out;
use crate::records::decode::Decoder;
use crate::reports::{table, timeline};
use crate::run::Collector;
use anyhow::Result;
use capdl::Scenario;
use capdl_spec::Role;
use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Outputs of a run's results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The page for people.
    pub page: String,
    /// JSON for programs.
    pub json: String,
    /// Picture of the timeline, SVG.
    pub picture: String,
    /// The log.
    pub log: String,
}

/// Reads a serial line in `pieces`, from a run of `scenario`. The components have these names and roles, the root task first,
/// which has no role. All of them run the program `elf`.
///
/// # Errors
/// A program without log messages, or results that cannot be shown.
pub fn read(scenario: &Scenario, components: &[(&str, Option<Role>)], elf: &[u8], pieces: &[&[u8]]) -> Result<Reading> {
    let mut decoder = Decoder::default();
    for (number, (name, role)) in (0..).zip(components) {
        decoder.add(number, name, *role, "program", elf, Path::new("/"))?;
    }
    let log = Kept::default();
    let mut collector = Collector::without_files(decoder, None).logging_to(Box::new(log.clone()));
    collector.results.take_scenario(scenario);
    for piece in pieces {
        collector.take(piece, Duration::from_secs(1))?;
    }
    collector.finish()?;
    let log = log.text();
    let mut results = collector.results;
    results.reasons = causes::told(verdict::reasons(scenario, &results), &[], &results);
    times::judge(scenario, &mut results, NotJudged::default());
    Ok(Reading {
        page: table::render(&results, out::COLUMNS, out::COLUMNS),
        json: json(Format::Run, &results)?,
        picture: timeline::svg(&results),
        log,
    })
}

/// Log in memory.
#[derive(Clone, Default)]
struct Kept(Rc<RefCell<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.borrow()).into_owned()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
