//! Record of a controller's actions, for checkers beside it: commands from the fetch to their outcome, resets and
//! losses of power between them, data with its addresses.
//!
//! Kept only as [`crate::config::Recording`] requests. The records wait until they are taken; nothing else bounds them.

use nvme_spec::{Sqe, Status};

use crate::config::Recording;

/// An event, recorded in the order of occurrence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A command was taken from its SQ.
    Fetched {
        /// The SQ.
        sq: u16,
        /// The command.
        sqe: Sqe,
    },
    /// A command is finished.
    Over(Record),
    /// A command is kept until there is something to report, as an Asynchronous Event Request is. Its completion is not
    /// recorded.
    Held {
        /// The SQ.
        sq: u16,
        /// The command identifier.
        cid: u16,
    },
    /// Every command under way is gone, because of a failure or at the beginning of a reset.
    Stopped,
    /// A reset is confirmed: no command submitted before is executed any more.
    Reset,
    /// The power failed, and is back.
    PowerLost,
}

/// A command from the moment it was fetched to its completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The SQ.
    pub sq: u16,
    /// The command identifier.
    pub cid: u16,
    /// The opcode.
    pub opcode: u8,
    /// The namespace named.
    pub nsid: u32,
    /// SLBA as it stands in CDW10 and CDW11, whatever the command.
    pub slba: u64,
    /// Blocks by NLB in CDW12, whatever the command.
    pub blocks: u32,
    /// The outcome.
    pub status: Status,
    /// When it was taken from its SQ.
    pub fetched_ns: u64,
    /// When its completion was due.
    pub completed_ns: u64,
    /// Number of postings of its completion: a fault may drop it, or duplicate it.
    pub postings: u8,
}

/// A piece of data moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// The SQ of the command it was for.
    pub sq: u16,
    /// The identifier of that command.
    pub cid: u16,
    /// First byte in the host's memory.
    pub address: u64,
    /// Bytes.
    pub bytes: u32,
    /// The direction of the transfer.
    pub direction: Direction,
}

/// Direction of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the host's memory.
    ToHost,
    /// From the host's memory.
    FromHost,
}

/// Records not taken yet.
#[derive(Default, Debug)]
pub(crate) struct Journal {
    recording: Recording,
    events: Vec<Event>,
    transfers: Vec<Transfer>,
}

impl Journal {
    pub(crate) const fn new(recording: Recording) -> Self {
        Self { recording, events: Vec::new(), transfers: Vec::new() }
    }

    pub(crate) const fn is_on(&self) -> bool {
        !matches!(self.recording, Recording::Off)
    }

    pub(crate) fn event(&mut self, event: Event) {
        if self.is_on() {
            self.events.push(event);
        }
    }

    pub(crate) fn transfer(&mut self, transfer: Transfer) {
        if self.recording == Recording::On {
            self.transfers.push(transfer);
        }
    }

    pub(crate) const fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    pub(crate) fn drain_events(&mut self) -> std::vec::Drain<'_, Event> {
        self.events.drain(..)
    }

    pub(crate) fn drain_transfers(&mut self) -> std::vec::Drain<'_, Transfer> {
        self.transfers.drain(..)
    }
}
