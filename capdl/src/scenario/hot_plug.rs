//! Controllers that come and go, as scenarios name them.

use crate::scenario::refusal::Refusal;
use serde::Deserialize;

/// An event in the slot of a controller with `hot_plug`. A controller whose first event is its insertion is not there at the
/// start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotPlug {
    /// The controller's name.
    pub controller: String,
    /// Milliseconds after the start.
    pub after_ms: u32,
    /// The event.
    pub action: Action,
    /// Whether another controller is put in, with a serial number and blocks of its own.
    pub other: bool,
}

/// Something that was done at a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// The attention button was pressed.
    Requested,
    /// The controller was taken out after that.
    Out,
    /// The controller was pulled out.
    Pulled,
    /// The controller was put in.
    In,
    /// Another controller was put in.
    OtherIn,
}

impl Moved {
    /// A description, whose subject is the controller.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Requested => "its removal is requested",
            Self::Out => "it is out",
            Self::Pulled => "it is pulled out",
            Self::In => "it is inserted",
            Self::OtherIn => "another one is inserted",
        }
    }
}

/// Events in the slot of a controller with `hot_plug`: the same one, once or several times. A controller whose first event is its
/// insertion is not there at the start.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "HotPlug"))]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// Name of the controller.
    controller: String,
    /// Milliseconds after the start.
    after_ms: u32,
    /// The event.
    action: Action,
    /// Whether another controller is put in, with a serial number and blocks of its own.
    #[serde(default)]
    other: bool,
    /// How often it happens, 1 or more.
    #[serde(default = "once")]
    times: u16,
    /// Milliseconds from one time to the next.
    #[serde(default)]
    every_ms: u32,
}

const fn once() -> u16 {
    1
}

impl Written {
    /// The single events.
    pub(super) fn events(&self, line: usize) -> Result<Vec<HotPlug>, Refusal> {
        let Self { controller, after_ms, action, other, times, every_ms } = self;
        let wrong = |why: &str| {
            let message = format!("[[hotplug]] has `{}` of `{controller}` {why}", action.name());
            Err(Refusal { line: Some(line), message })
        };
        match (times, every_ms) {
            (0, _) => return wrong("0 times: write at least 1, or leave the event out"),
            (1, 1..) => return wrong("once, and every_ms: leave it out, or write times"),
            (2.., 0) => return wrong("several times, and not how far apart: write every_ms"),
            _ => {}
        }
        let at = |number: u16| u32::from(number).checked_mul(*every_ms)?.checked_add(*after_ms);
        let Some(all) = (0..*times).map(at).collect::<Option<Vec<_>>>() else {
            return wrong("after more milliseconds than a number holds: lower times or every_ms");
        };
        let event = |after_ms| HotPlug { controller: controller.clone(), after_ms, action: *action, other: *other };
        Ok(all.into_iter().map(event).collect())
    }
}

/// An event in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
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
    /// Name in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Pull => "pull",
            Self::Insert => "insert",
        }
    }
}
