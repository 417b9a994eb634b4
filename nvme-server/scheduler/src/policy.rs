//! The one trait behind which every policy stands, and what passes through it.

use crate::share::{SessionId, Share, ShareError};

/// What a command does, as far as its cost is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Moves no data: Flush, Write Zeroes, Dataset Management. Bandwidth limits count the blocks it names; the device's time
    /// is taken not to depend on them.
    Other,
}

/// Commands of one session that are alike and were given to the device together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commands {
    /// Whose.
    pub session: SessionId,
    /// What they do.
    pub kind: Kind,
    /// Bytes that each moves, or of the blocks that it names without moving them; 0 for a flush.
    pub bytes: u32,
    /// How many.
    pub count: u16,
}

/// What a session may submit before the policy is asked again: many commands where nobody else waits for the device, few or one
/// where somebody does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Commands of up to [`MIN_PIECE`](crate::MIN_PIECE) bytes, at least 1. A longer one counts as many as it has pieces of
    /// that size; the first always goes.
    pub commands: u16,
    /// Bytes in one command, at least [`MIN_PIECE`](crate::MIN_PIECE). A longer request is submitted in pieces; one of a
    /// single block always goes.
    pub bytes: u32,
    /// Bytes of the blocks that one command may name without moving them, at least [`MIN_PIECE`](crate::MIN_PIECE).
    pub named: u32,
    /// The fastest of the session's queue pairs that the commands may go to, counted from 0, the fastest first. Without it
    /// they go to any.
    pub fastest: Option<u16>,
}

impl Budget {
    /// As much as there is.
    pub const ALL: Self = Self { commands: u16::MAX, bytes: u32::MAX, named: u32::MAX, fastest: None };
    /// One command, however long.
    pub(crate) const ONE: Self = Self { commands: 1, ..Self::ALL };
}

/// What a policy says when asked whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// This session submits commands now, which are reported to [`Policy::submitted`]; when none is left, [`Policy::idle`].
    Serve {
        /// Who.
        session: SessionId,
        /// How much.
        budget: Budget,
    },
    /// Nobody now. Ask again at this time, or when something completes or becomes ready, whatever is first.
    Wait {
        /// Nanoseconds, on the caller's clock.
        until_ns: u64,
    },
    /// Nobody, until something completes or becomes ready.
    Nothing,
}

impl Decision {
    /// Wait until then, or for what happens if there is no such time.
    pub(crate) fn wait(until: Option<u64>) -> Self {
        until.map_or(Self::Nothing, |until_ns| Self::Wait { until_ns })
    }
}

/// Decides whose command goes next, and when.
///
/// Times are nanoseconds on a clock of the caller's that never goes back. No call allocates, and none takes longer
/// because there are more sessions.
///
/// A session that does not exist is ignored, in every call but [`Policy::set_share`], which says so.
pub trait Policy {
    /// The session has a command waiting, and room in its queues for it.
    fn ready(&mut self, session: SessionId, now: u64);

    /// The session has no command waiting, or no room for one.
    fn idle(&mut self, session: SessionId);

    /// Whose turn it is. Asked again without anything having happened, it answers the same.
    fn next(&mut self, now: u64) -> Decision;

    /// The session's turn brought so many entries that were answered without a command. They cost it its turn and count as
    /// commands against its own limit. Nothing else changes: the device saw nothing, and nobody else is affected.
    fn refused(&mut self, session: SessionId, count: u16, now: u64);

    /// Command were submitted to the device.
    fn submitted(&mut self, commands: Commands, now: u64);

    /// Commands of which one was submitted at `submitted_at` came back together, with whatever status.
    fn completed(&mut self, commands: Commands, submitted_at: u64, now: u64);

    /// Commands will not come back: their queue was deleted, or they were never rung for. Nothing is learned from them.
    fn aborted(&mut self, commands: Commands, now: u64);

    /// The controller was reset: the device holds nothing any more. Who waits, and what was used of limits, stays.
    fn reset(&mut self, now: u64);

    /// Changes a session's share; what is in the device is counted on under the new class.
    ///
    /// # Errors
    /// [`ShareError`], and nothing has changed.
    fn set_share(&mut self, session: SessionId, share: Share) -> Result<(), ShareError>;

    /// A session's share.
    fn share(&self, session: SessionId) -> Option<Share>;

    /// Whether the session waits for its turn: it is [`ready`](Policy::ready), within its limits or not.
    fn waits(&self, session: SessionId) -> bool;

    /// Whether any session waits for its turn.
    fn any_waits(&self) -> bool;

    /// Commands of a session that the device holds.
    fn in_device(&self, session: SessionId) -> u32;
}
