//! Decodes log frames into lines for people: `time component LEVEL message (file:line)`.
//!
//! Each program's ELF file has the strings that its log frames refer to; its debug information has their places.

use anyhow::{Context, Result, bail};
use capdl::Scenario;
use capdl::programs::ROOT_TASK;
use capdl_spec::Role;
use defmt_decoder::{Frame, Location, Locations, Table};
use report::Name;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;

/// Log levels, the least severe first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Every step.
    Trace,
    /// Information for finding a defect.
    Debug,
    /// Normal events.
    Info,
    /// Unexpected events.
    Warn,
    /// Errors.
    Error,
    /// No lines at all.
    Off,
}

impl Level {
    fn parse(text: &str) -> Result<Self> {
        Ok(match text {
            "trace" => Self::Trace,
            "debug" => Self::Debug,
            "info" => Self::Info,
            "warn" => Self::Warn,
            "error" => Self::Error,
            "off" => Self::Off,
            _ => bail!("'{text}' is no log level: use trace, debug, info, warn, error or off"),
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Trace => "TRACE",
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
            Self::Off => "",
        }
    }
}

/// Selection of shown lines: a level for all components, and others for some of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    all: Level,
    some: BTreeMap<String, Level>,
}

impl Filter {
    /// The filter that a user gave: `LEVEL` or `COMPONENT=LEVEL`, or several of them with commas.
    pub fn parse<S: AsRef<str>>(given: &[S], default: Level) -> Result<Self> {
        let mut filter = Self { all: default, some: BTreeMap::new() };
        for part in given.iter().flat_map(|text| text.as_ref().split(',')) {
            match part.split_once('=') {
                Some((component, level)) => {
                    filter.some.insert(component.trim().to_owned(), Level::parse(level.trim())?);
                }
                None => filter.all = Level::parse(part.trim())?,
            }
        }
        Ok(filter)
    }

    /// This filter, if all its components are among those of `scenario`.
    ///
    /// # Errors
    /// The first component that does not exist, with those that do.
    pub fn of_scenario(self, scenario: &Scenario) -> Result<Self> {
        let mut names = scenario.components();
        names.insert(0, ROOT_TASK.to_owned());
        match self.some.keys().find(|name| *name != ROOT_TASK && !scenario.may_have(name)) {
            Some(unknown) => {
                bail!("--log names the component {unknown:?}, which is not there: name one of {}", names.join(", "))
            }
            None => Ok(self),
        }
    }

    /// Whether a line of this component is shown.
    pub fn shows(&self, component: &str, level: Level) -> bool {
        level >= self.some.get(component).copied().unwrap_or(self.all)
    }

    /// The lowest level at which any component is shown; the programs are compiled for it.
    pub fn compiled(&self) -> &'static str {
        match self.some.values().copied().fold(self.all, Level::min) {
            Level::Trace => "trace",
            Level::Debug => "debug",
            // A higher level would make logs of failures useless.
            Level::Info | Level::Warn | Level::Error | Level::Off => "info",
        }
    }
}

/// A program's log messages.
struct Messages {
    table: Table,
    places: Locations,
}

/// Decodes the frames of a system's components.
#[derive(Default)]
pub struct Decoder {
    components: BTreeMap<u16, Known>,
    /// `None` for a program that logs nothing.
    programs: BTreeMap<String, Option<Rc<Messages>>>,
}

/// A component, its role (the root task has none), and its program's log messages.
struct Known {
    name: String,
    role: Option<Role>,
    messages: Option<Rc<Messages>>,
}

/// A decoded frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The component's name.
    pub component: String,
    /// The line's level.
    pub level: Level,
    /// The whole line, without its end.
    pub text: String,
}

impl Decoder {
    /// Adds the component number `id`, which runs the program `program`, an ELF file.
    pub fn add(
        &mut self,
        id: u16,
        name: &str,
        role: Option<Role>,
        program: &str,
        elf: &[u8],
        root: &Path,
    ) -> Result<()> {
        let messages = self.messages_of(program, elf, root)?;
        self.components.insert(id, Known { name: name.to_owned(), role, messages });
        Ok(())
    }

    /// Adds the component number `id`, whose log arrives by another path.
    pub fn add_name(&mut self, id: u16, name: &str, role: Option<Role>) {
        self.components.insert(id, Known { name: name.to_owned(), role, messages: None });
    }

    /// The messages of a program, parsed once.
    fn messages_of(&mut self, program: &str, elf: &[u8], root: &Path) -> Result<Option<Rc<Messages>>> {
        let known = match self.programs.get(program) {
            Some(known) => known.clone(),
            None => {
                let messages = messages(elf, root).with_context(|| format!("the log messages of {program}"))?;
                let messages = messages.map(Rc::new);
                self.programs.insert(program.to_owned(), messages.clone());
                messages
            }
        };
        Ok(known)
    }

    /// The name of a component.
    pub fn name(&self, id: u16) -> String {
        self.components.get(&id).map_or_else(|| format!("component {id}"), |known| known.name.clone())
    }

    /// The role of a component.
    pub fn role(&self, id: u16) -> Option<Role> {
        self.components.get(&id)?.role
    }

    /// The roles of all components, by name.
    pub(crate) fn roles(&self) -> BTreeMap<Name, Role> {
        self.components.values().filter_map(|known| Some((report::clip(&known.name), known.role?))).collect()
    }

    /// The line of the frame `bytes`. A frame that cannot be decoded becomes a line that says so.
    pub fn line(&self, id: u16, bytes: &[u8]) -> Line {
        let component = self.name(id);
        let messages = self.components.get(&id).and_then(|known| known.messages.as_deref());
        let decoded = messages.and_then(|messages| Some((messages, messages.table.decode(bytes).ok()?.0)));
        match decoded {
            Some((messages, frame)) => line(component, &frame, messages.places.get(&frame.index())),
            None => {
                let text = format!("{component} logs {} bytes that do not decode: {bytes:02x?}", bytes.len());
                Line { component, level: Level::Warn, text }
            }
        }
    }
}

impl Line {
    /// A line in the form of [`Decoder::line`]; `at` is the time in seconds.
    pub fn new(at: f64, component: &str, level: Level, message: &str) -> Self {
        let text = format!("{at:>12.6} {component:<16} {:<5} {message}", level.name());
        Self { component: component.to_owned(), level, text }
    }
}

fn messages(elf: &[u8], root: &Path) -> Result<Option<Messages>> {
    let Some(table) = Table::parse(elf)? else { return Ok(None) };
    let mut places = table.get_locations(elf)?;
    for place in places.values_mut() {
        if let Ok(inside) = place.file.strip_prefix(root) {
            place.file = inside.to_path_buf();
        }
    }
    Ok(Some(Messages { table, places }))
}

fn line(component: String, frame: &Frame<'_>, place: Option<&Location>) -> Line {
    let level = level(frame);
    let time = frame.display_timestamp().map(|time| time.to_string()).unwrap_or_default();
    let mut text = format!("{time:>12} {component:<16} {:<5} {}", level.name(), frame.display_message());
    if let Some(place) = place {
        // Writing to a string cannot fail.
        let _ = write!(text, " ({}:{})", place.file.display(), place.line);
    }
    Line { component, level, text }
}

fn level(frame: &Frame<'_>) -> Level {
    // The decoder's own type is of a crate that it does not re-export; its name suffices. A print has no level.
    match frame.level().map(|level| level.as_str()) {
        Some("trace") => Level::Trace,
        Some("debug") => Level::Debug,
        Some("warn") => Level::Warn,
        Some("error") => Level::Error,
        _ => Level::Info,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_components_level_goes_before_that_of_all() {
        let filter = Filter::parse(&["warn,nvme-server=debug", "console=off"], Level::Info).unwrap();
        assert!(filter.shows("nvme-server", Level::Debug));
        assert!(!filter.shows("pci-server", Level::Info));
        assert!(filter.shows("pci-server", Level::Error));
        assert!(!filter.shows("console", Level::Error));
        assert_eq!(filter.compiled(), "debug");
    }

    #[test]
    fn log_filter_defaults_and_explains_failures() {
        let filter = Filter::parse::<&str>(&[], Level::Error).unwrap();
        assert!(!filter.shows("bench", Level::Warn));
        assert_eq!(filter.compiled(), "info");
    }

    #[test]
    fn a_level_nobody_knows_is_refused_with_those_there_are() {
        let error = Filter::parse(&["nvme-server=loud"], Level::Info).unwrap_err().to_string();
        assert!(error.contains("'loud'") && error.contains("trace, debug"), "{error}");
    }

    #[test]
    fn frames_of_nobody_and_nonsense_become_lines() {
        let line = Decoder::default().line(9, &[0xff, 0xff]);
        assert_eq!(line.text, "component 9 logs 2 bytes that do not decode: [ff, ff]");
        assert_eq!(line.level, Level::Warn);
    }
}
