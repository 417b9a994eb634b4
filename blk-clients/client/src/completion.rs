//! How the completion of a request is awaited, by choice for each request (SEEDS M6, L8).
//!
//! `estimate` has the time that a request of some size is expected to take, `choice` decides how a client waits for all that is
//! outstanding, and `awaited` keeps the requests that made a choice. The device waits as decided
//! ([`mod@crate::device`]). Left out: the server's own way to notice completions, which its configuration has.

mod awaited;
mod choice;
mod estimate;

pub(crate) use awaited::{Awaited, Ended, SLOT_BYTES};
pub(crate) use choice::{Means, Wait};
pub(crate) use estimate::Class;

/// A way to await the completion of a request. It is a hint: the most demanding of the outstanding requests decides how the client
/// waits, and every way finds the completion and the same result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// The client sleeps until it is signalled: by the server, or by the interrupt of its own function.
    Interrupt,
    /// The client polls, and yields to threads of its priority in between.
    Polled,
    /// The client sleeps for as long as such a request is expected to take, and polls then. It sleeps by alarms of the
    /// supervisor, of 20 to 160 µs. Without the right to ask for one, it sleeps as by [`Completion::Interrupt`].
    SleepThenPoll,
    /// The client polls while the next completion is expected sooner than a wake-up takes. Otherwise it sleeps until it is
    /// signalled, or by alarms where nothing signals it.
    Automatic,
}

impl Completion {
    /// All ways to await a completion.
    pub const ALL: [Self; 4] = [Self::Interrupt, Self::Polled, Self::SleepThenPoll, Self::Automatic];
}
