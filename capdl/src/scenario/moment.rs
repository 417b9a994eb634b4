//! Moments as scenarios name them: kills, changes and loads follow what has happened, and not the clock.
//!
//! ```toml
//! [[moment]]
//! name = "mallory-is-done"
//! when = { mallory = { deaths = 1 }, carol = { verified = 100, written = 100 } }   # all of it
//! after_ms = 200                                                                    # and so much later
//!
//! [[kill]]
//! component = "nvme-server"
//! at = "mallory-is-done"
//! ```

use capdl_spec::Counted;
use report::milestones::Milestone;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A moment: it comes some time after all that it needs has happened, and only once.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// Name, unique.
    pub name: String,
    /// By component, how often something must have happened to it.
    #[cfg_attr(feature = "schema", schemars(with = "super::schema::MarksByComponent"))]
    pub when: BTreeMap<String, BTreeMap<Mark, u32>>,
    /// Milliseconds from then on.
    #[serde(default)]
    pub after_ms: u32,
}

/// Something of a component that is counted. All but the last two are counted by clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// The tenant is open and prepared, and begins once its moment has come.
    Ready,
    /// Verified transfers.
    Verified,
    /// Acknowledged writes.
    Written,
    /// Requests that were refused because their right was taken.
    Forbidden,
    /// Requests that were done after they had been forbidden.
    AllowedAgain,
    /// Reported attacks.
    Attacks,
    /// Sessions that were opened again after the server's death.
    Reconnected,
    /// The end of the tenant's work.
    Finished,
    /// Deaths of the component.
    Deaths,
    /// Restarts of the component.
    Restarts,
}

impl Mark {
    /// Form in the specification.
    #[must_use]
    pub const fn counted(self) -> Counted {
        let milestone = match self {
            Self::Ready => Milestone::Ready,
            Self::Verified => Milestone::Verified,
            Self::Written => Milestone::Written,
            Self::Forbidden => Milestone::Forbidden,
            Self::AllowedAgain => Milestone::AllowedAgain,
            Self::Attacks => Milestone::Attacks,
            Self::Reconnected => Milestone::Reconnected,
            Self::Finished => Milestone::Finished,
            Self::Deaths => return Counted::Deaths,
            Self::Restarts => return Counted::Restarts,
        };
        Counted::Milestone(milestone.number())
    }

    /// Whether clients count it.
    #[must_use]
    pub const fn is_clients(self) -> bool {
        matches!(self.counted(), Counted::Milestone(_))
    }
}

/// The moment of an event: a number of milliseconds after a named moment, or after the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct When {
    /// The named moment; the start without one.
    pub at: Option<String>,
    /// Milliseconds after it.
    pub after_ms: u32,
}

impl When {
    /// So many milliseconds after the start.
    #[must_use]
    pub const fn after_ms(after_ms: u32) -> Self {
        Self { at: None, after_ms }
    }

    /// Puts events in the order of their times, if these count from one moment. Otherwise they stay in their order.
    pub(super) fn sort<T>(events: &mut [T], when: impl Fn(&T) -> &Self) {
        if events.windows(2).all(|pair| matches!(pair, [one, next] if when(one).at == when(next).at)) {
            events.sort_by_key(|event| when(event).after_ms);
        }
    }

    /// Whether the condition is the start itself, at which nothing can happen yet.
    pub(super) const fn is_start(&self) -> bool {
        self.at.is_none() && self.after_ms == 0
    }
}
