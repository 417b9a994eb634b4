//! Names in environments: of every component's items for the console, and of the console's own.

use alloc::format;
use alloc::string::String;

/// A component's log ring, and its signal to the console that the ring has records.
pub const LOG: &str = "log";
/// The console's serial line: I/O ports, or the region of its registers.
pub const SERIAL: &str = "serial";

/// The console's region of the log ring of component number `component`; the root task's is 0.
#[must_use]
pub fn log_of(component: u16) -> String {
    format!("log-{component}")
}
