//! Names in environments: of what everybody has for the console, and of what the console has.

use alloc::format;
use alloc::string::String;

/// A component's log ring, and its signal to the console that something is in it.
pub const LOG: &str = "log";
/// The console's serial line: I/O ports, or the region of its registers.
pub const SERIAL: &str = "serial";

/// The console's region of the log ring of component number `component`; the root task's is 0.
#[must_use]
pub fn log_of(component: u16) -> String {
    format!("log-{component}")
}
