//! Statistics that the components of a scenario show the build machine.

use serde::Deserialize;

/// Statistics in memory that the build machine reads while the system runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {}
