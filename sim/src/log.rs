//! Log lines of components. The `log` crate's macros are global: lines go to the run that is being simulated on this thread,
//! with the component's name and the virtual time.
//!
//! On the target, lines travel through the components' log rings as defmt frames; here only the reports do.

use crate::world::World;
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// A line that a component logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// Virtual time of the line.
    pub at_ns: u64,
    /// Name of the component.
    pub component: String,
    /// Severity.
    pub level: Level,
    /// The text.
    pub text: String,
}

/// The component that logs at the moment.
pub(crate) struct Logger {
    pub(crate) world: Weak<World>,
    pub(crate) name: String,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Logger>>> = const { RefCell::new(None) };
    static LINES: RefCell<Vec<LogLine>> = const { RefCell::new(Vec::new()) };
}

/// Lines that are kept until they are taken; beyond that the oldest are dropped.
const KEPT: usize = 1 << 16;

/// Makes `logger` the source of further lines on this thread.
pub(crate) fn speaks(logger: Option<Rc<Logger>>) {
    CURRENT.set(logger);
}

/// Installs itself as the program's logger, unless there is one already: then that one gets the lines.
pub(crate) fn route() {
    static ROUTER: Router = Router;
    if log::set_logger(&ROUTER).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// Takes the lines since the last call, of this thread's runs.
pub(crate) fn take() -> Vec<LogLine> {
    LINES.take()
}

struct Router;

impl Log for Router {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = CURRENT.with_borrow(|current| {
            let Logger { world, name } = &**current.as_ref()?;
            let at_ns = world.upgrade()?.time_ns();
            let text = record.args().to_string();
            Some(LogLine { at_ns, component: name.clone(), level: record.level(), text })
        });
        let Some(line) = line else { return };
        LINES.with_borrow_mut(|lines| {
            if lines.len() >= KEPT {
                lines.drain(..KEPT / 2);
            }
            lines.push(line);
        });
    }

    fn flush(&self) {}
}
