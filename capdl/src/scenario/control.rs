//! The acts that a scenario gives the control component.

use control_api::Act;
use serde::Deserialize;

/// Name of the control component.
pub const CONTROL: &str = "control";

/// A control component, by which an operator on the build machine acts on the running system.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// The acts of the component: each is a capability that it holds, or a bit in the badge of one. It has no others.
    pub acts: Vec<Act>,
}
