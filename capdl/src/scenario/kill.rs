//! A component that is stopped in the middle of whatever it does.

use serde::Deserialize;

/// A component that is stopped in the middle of whatever it does, as by a fault.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// Its name.
    pub component: String,
    /// Milliseconds after the start.
    pub after_ms: u32,
    /// Up to so many milliseconds later: drawn for each run ([`Scenario::drawn`](super::Scenario::drawn)), and another
    /// time in each next incarnation.
    #[serde(default)]
    pub within_ms: u32,
    /// How often it is stopped in all.
    #[serde(default = "once")]
    pub times: u32,
    /// Milliseconds that each next incarnation has, until it is stopped in that.
    #[serde(default)]
    pub every_ms: u32,
    /// What was drawn, microseconds.
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
