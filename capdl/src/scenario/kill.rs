//! Kills as scenarios name them.

use serde::Deserialize;

/// A component that is stopped at any point of its work, as by a fault.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// Its name.
    pub component: String,
    /// Milliseconds after the start.
    pub after_ms: u32,
    /// Upper bound of a further delay, milliseconds: drawn for each run ([`Scenario::drawn`](super::Scenario::drawn)), and
    /// different in each following incarnation.
    #[serde(default)]
    pub within_ms: u32,
    /// The number of stops.
    #[serde(default = "once")]
    pub times: u32,
    /// Milliseconds from the start of each following incarnation to its stop.
    #[serde(default)]
    pub every_ms: u32,
    /// The drawn delay, microseconds.
    #[serde(skip)]
    pub drawn_us: u32,
}

const fn once() -> u32 {
    1
}

impl Kill {
    /// A kill of `component` at that time.
    #[must_use]
    pub fn new(component: &str, after_ms: u32) -> Self {
        Self { component: component.to_owned(), after_ms, within_ms: 0, times: once(), every_ms: 0, drawn_us: 0 }
    }

    /// Microseconds after the start.
    #[must_use]
    pub fn after_us(&self) -> u64 {
        u64::from(self.after_ms) * 1000 + u64::from(self.drawn_us)
    }
}
