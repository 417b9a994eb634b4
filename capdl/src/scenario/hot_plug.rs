//! Controllers that come and go, as scenarios name them.

use serde::Deserialize;

/// An event in the slot of a controller with `hot_plug`. A controller whose first event is its insertion is not there at the
/// start.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotPlug {
    /// The controller's name.
    pub controller: String,
    /// Milliseconds after the start.
    pub after_ms: u32,
    /// The event.
    pub action: Action,
    /// Whether another controller is put in, with a serial number and blocks of its own.
    #[serde(default)]
    pub other: bool,
}

/// An event in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The attention button is pressed, and the controller is taken out once the slot has no power: an orderly removal.
    Remove,
    /// The controller is pulled out: a surprise.
    Pull,
    /// The controller is put in; after an orderly removal, once that is over.
    Insert,
}

impl Action {
    /// Its name in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Pull => "pull",
            Self::Insert => "insert",
        }
    }
}
