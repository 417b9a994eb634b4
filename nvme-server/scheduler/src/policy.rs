//! The trait that every scheduling policy implements, and the types of its calls.

use crate::flow_table::FlowTable;
use crate::share::{SessionId, Share, ShareError};

pub use blk_api::operation::Kind;

/// Commands of one session that are alike and were submitted to the device together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commands {
    /// The session that they belong to.
    pub session: SessionId,
    /// The commands' kind.
    pub kind: Kind,
    /// Bytes that each moves, or bytes of the blocks that it names without moving them; 0 for a flush.
    pub bytes: u32,
    /// The number of commands.
    pub count: u16,
}

/// The most that a session may submit before the next call of [`Policy::next`]. It is many commands where no other session
/// waits for the device, few or one where another does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quantum {
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

impl Quantum {
    /// No bound.
    pub const ALL: Self = Self { commands: u16::MAX, bytes: u32::MAX, named: u32::MAX, fastest: None };
    /// A single command, however long.
    pub(crate) const ONE: Self = Self { commands: 1, ..Self::ALL };
}

/// A policy's answer to [`Policy::next`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// This session submits commands now. The server reports them to [`Policy::submitted`], and calls [`Policy::idle`] when
    /// the session has none left.
    Serve {
        /// The session whose turn it is.
        session: SessionId,
        /// The most that it may submit.
        quantum: Quantum,
    },
    /// No session now. Call again at this time, or when a command completes or a session becomes ready, whatever is first.
    Wait {
        /// Nanoseconds, on the caller's clock.
        until_ns: u64,
    },
    /// No session, until a command completes or a session becomes ready.
    Nothing,
}

impl Decision {
    /// Waits until this time; without a time, for the next event.
    pub(crate) fn wait(until: Option<u64>) -> Self {
        until.map_or(Self::Nothing, |until_ns| Self::Wait { until_ns })
    }
}

/// Decides whose command goes next, and when.
///
/// Times are nanoseconds on the caller's clock, which never goes back. No call allocates, and none takes longer with more
/// sessions.
///
/// Every call ignores a session that does not exist, except [`Policy::set_share`], which returns an error.
pub trait Policy {
    /// The table of its sessions. Calls that a policy does not answer in its own way go to it.
    fn flow_table(&self) -> &FlowTable;

    /// The policy's flow table, to be changed.
    fn flow_table_mut(&mut self) -> &mut FlowTable;

    /// The session has a command waiting, and room in its queues for it.
    fn ready(&mut self, session: SessionId, _now: u64) {
        self.flow_table_mut().ready(session);
    }

    /// The session has no command waiting, or no room for one.
    fn idle(&mut self, session: SessionId) {
        self.flow_table_mut().idle(session);
    }

    /// Decides whose turn it is. A second call without an event in between returns the same.
    fn next(&mut self, now: u64) -> Decision;

    /// In the session's turn, so many entries were answered without a command. They cost it its turn and count as commands
    /// against its own limit. Nothing else changes: the device saw nothing, and no other session is affected.
    fn refused(&mut self, session: SessionId, count: u16, now: u64) {
        self.flow_table_mut().refused(session, count, u64::from(count), now);
    }

    /// Commands were submitted to the device.
    fn submitted(&mut self, commands: Commands, now: u64) {
        self.flow_table_mut().submitted(&commands, u64::from(commands.count), now);
    }

    /// Commands completed together, with any status; one of them was submitted at `submitted_at`.
    fn completed(&mut self, commands: Commands, _submitted_at: u64, now: u64) {
        self.aborted(commands, now);
    }

    /// Commands will not complete: their queue was deleted, or their doorbell was never rung. Nothing is learned from them.
    fn aborted(&mut self, commands: Commands, _now: u64) {
        self.flow_table_mut().left_device(&commands);
    }

    /// The controller was reset: the device holds nothing any more. Waiting sessions still wait, and used limits stay used.
    fn reset(&mut self, _now: u64) {
        self.flow_table_mut().reset();
    }

    /// Changes a session's share. Its commands in the device count under the new class from now on.
    ///
    /// # Errors
    /// [`ShareError`], and nothing has changed.
    fn set_share(&mut self, session: SessionId, share: Share) -> Result<(), ShareError> {
        self.flow_table_mut().set_share(session, share)
    }

    /// A session's share.
    fn share(&self, session: SessionId) -> Option<Share> {
        self.flow_table().share(session)
    }

    /// Whether any session waits for its turn.
    fn any_waits(&self) -> bool {
        self.flow_table().any_waits()
    }

    /// Commands of a session that the device holds.
    fn in_device(&self, session: SessionId) -> u32 {
        self.flow_table().in_device(session)
    }
}
