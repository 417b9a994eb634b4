//! Where components' log lines go: through the `log` crate's macros, which are global, to the run that is being simulated on
//! this thread, with the component's name and the virtual time.
//!
//! On the target the lines travel through the components' log rings as defmt frames; here only the reports do.

use crate::world::World;
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// A line that a component logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// When, in virtual time.
    pub at_ns: u64,
    /// Who.
    pub component: String,
    /// How grave.
    pub level: Level,
    /// What.
    pub text: String,
}

/// Who logs at the moment.
pub(crate) struct Logger {
    pub(crate) world: Weak<World>,
    pub(crate) name: String,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Logger>>> = const { RefCell::new(None) };
    static LINES: RefCell<Vec<LogLine>> = const { RefCell::new(Vec::new()) };
}

/// Lines that are kept until somebody takes them; more are dropped, oldest first.
const KEPT: usize = 1 << 16;

/// Whoever logs from now on, on this thread, is `logger`.
pub(crate) fn speaks(logger: Option<Rc<Logger>>) {
    CURRENT.set(logger);
}

/// Takes the place of the program's logger, unless it has one: then that gets the lines.
pub(crate) fn route() {
    static ROUTER: Router = Router;
    if log::set_logger(&ROUTER).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// The lines since the last time, of this thread's runs.
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
