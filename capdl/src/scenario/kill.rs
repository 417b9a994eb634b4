//! Kills as scenarios name them.

use super::When;
use serde::Deserialize;

/// A component that is stopped at any point of its work, as by a fault.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(from = "Written")]
pub struct Kill {
    /// Name.
    pub component: String,
    /// The earliest time of its first stop.
    pub when: When,
    /// Upper bound of a further delay, milliseconds: drawn for each run ([`Scenario::drawn`](super::Scenario::drawn)), and
    /// different in each following incarnation.
    pub within_ms: u32,
    /// The number of stops.
    pub times: u32,
    /// Milliseconds from the start of each following incarnation to its stop.
    pub every_ms: u32,
    /// The drawn delay, microseconds.
    pub drawn_us: u32,
}

/// A component that is stopped at any point of its work, as by a fault.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Kill"))]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// Name of the component.
    component: String,
    /// The moment of the first stop; the start of the system without it.
    #[serde(default)]
    at: Option<String>,
    /// Milliseconds after that moment.
    #[serde(default)]
    after_ms: u32,
    /// Most milliseconds of a further delay, which is drawn for each run and each incarnation.
    #[serde(default)]
    within_ms: u32,
    /// Number of stops, 1 or more.
    #[serde(default = "once")]
    times: u32,
    /// Milliseconds from the start of each following incarnation to its stop.
    #[serde(default)]
    every_ms: u32,
}

impl From<Written> for Kill {
    fn from(Written { component, at, after_ms, within_ms, times, every_ms }: Written) -> Self {
        Self { component, when: When { at, after_ms }, within_ms, times, every_ms, drawn_us: 0 }
    }
}

const fn once() -> u32 {
    1
}

impl Kill {
    /// A kill of `component` so many milliseconds after the start.
    #[must_use]
    pub fn new(component: &str, after_ms: u32) -> Self {
        let when = When::after_ms(after_ms);
        Self { component: component.to_owned(), when, within_ms: 0, times: once(), every_ms: 0, drawn_us: 0 }
    }

    /// Microseconds after its moment, or after the start.
    #[must_use]
    pub fn after_us(&self) -> u64 {
        u64::from(self.when.after_ms) * 1000 + u64::from(self.drawn_us)
    }
}
