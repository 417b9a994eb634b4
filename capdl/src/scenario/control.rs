//! The acts that a scenario gives the control component.

use blk_api::administration::{Administration, Right, Rights};
use capdl_check::layout::ADMINISTRATION_BYTES;
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
    #[serde(default)]
    pub acts: Vec<Act>,
    /// The rights by which it administers the controllers, as bits in the badge of a capability to each NVMe server. Whoever has
    /// `io` reads and writes every tenant's blocks.
    #[serde(default)]
    pub administration: Vec<Right>,
}

impl Control {
    /// Whether an operator may change data of tenants by its rights.
    #[must_use]
    pub fn changes_data(&self) -> bool {
        [Right::Io, Right::Namespaces, Right::Sanitize].iter().any(|right| self.administration.contains(right))
    }

    /// The administration of each NVMe server, if the component has any right to it.
    #[must_use]
    pub fn administration(&self) -> Option<Administration> {
        let rights: Rights = self.administration.iter().copied().collect();
        (rights != Rights::NONE).then_some(Administration { rights, window_bytes: ADMINISTRATION_BYTES })
    }
}
