//! The console of a scenario.

use crate::priority::CONSOLE_PRIORITY;
use serde::Deserialize;

/// The console.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Console {
    /// Its scheduling priority.
    pub priority: u8,
}

impl Default for Console {
    fn default() -> Self {
        Self { priority: CONSOLE_PRIORITY }
    }
}
