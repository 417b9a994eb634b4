//! The control component's calls to the supervisor, on the endpoint at which that waits for faults.
//!
//! The badge distinguishes them from faults, whose badges are numbers of components, and has a bit for each act that is allowed.

use platform::Message;
use serde::{Deserialize, Serialize};

/// In the badge of the control component's capability, and in no other on that endpoint.
pub const BADGE: u64 = 1 << 27;
/// In the badge: components may be stopped.
pub const MAY_KILL: u64 = 1 << 0;
/// In the badge: clients may be suspended.
pub const MAY_PAUSE: u64 = 1 << 1;

/// Stops the component whose number is sent, a `u64`, as if it had faulted.
pub const KILL: u32 = 1;
/// Suspends the client whose number is sent.
pub const PAUSE: u32 = 2;
/// Lets the client whose number is sent go on.
pub const RESUME: u32 = 3;

/// Answer to a call that was carried out; others are [`Refusal`]s.
pub const DONE: u32 = 0;

/// The reason why a call changed nothing: the label of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(u32)]
pub enum Refusal {
    /// No call of this interface.
    BadRequest = Message::ANSWERS,
    /// The badge lacks the right.
    NotAllowed,
    /// There is no component of this number.
    NoComponent,
    /// The component is dead already.
    Dead,
    /// The component is no client: others are not suspended, because their callers would wait.
    NoClient,
    /// The kernel refused; the log has the invocation.
    Kernel,
}

impl Refusal {
    const ALL: [Self; 6] =
        [Self::BadRequest, Self::NotAllowed, Self::NoComponent, Self::Dead, Self::NoClient, Self::Kernel];

    /// The refusal with this label; an unknown label counts as [`Refusal::BadRequest`].
    #[must_use]
    pub fn of_label(label: u32) -> Self {
        Self::ALL.into_iter().find(|refusal| *refusal as u32 == label).unwrap_or(Self::BadRequest)
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::BadRequest => "not a call of the supervisor's",
            Self::NotAllowed => "the scenario does not allow that",
            Self::NoComponent => "there is no such component",
            Self::Dead => "the component is dead",
            Self::NoClient => "only clients are suspended",
            Self::Kernel => "the kernel refused",
        })
    }
}
