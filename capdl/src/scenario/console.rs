//! The console of a scenario.

use crate::priority::CONSOLE_PRIORITY;
use serde::Deserialize;

/// The console.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct Console {
    /// Scheduling priority, from 1 to the servers'.
    pub priority: u8,
}

impl Default for Console {
    fn default() -> Self {
        Self { priority: CONSOLE_PRIORITY }
    }
}
