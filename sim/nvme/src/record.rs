//! What a controller did, for checkers that stand beside it: commands with their outcomes, data with its addresses.
//!
//! Only with [`crate::config::Recording::On`]. The records wait until they are taken; nothing bounds them but that.

use nvme_spec::Status;

use crate::config::Recording;

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
    /// Whether a completion was posted: a fault may drop it.
    pub posted: bool,
}

/// One piece of data moved.
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
    /// Which way.
    pub direction: Direction,
}

/// Which way data goes.
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
    commands: Vec<Record>,
    transfers: Vec<Transfer>,
}

impl Journal {
    pub(crate) const fn new(recording: Recording) -> Self {
        Self { recording, commands: Vec::new(), transfers: Vec::new() }
    }

    pub(crate) const fn is_on(&self) -> bool {
        matches!(self.recording, Recording::On)
    }

    pub(crate) fn command(&mut self, record: Record) {
        if self.is_on() {
            self.commands.push(record);
        }
    }

    pub(crate) fn transfer(&mut self, transfer: Transfer) {
        if self.is_on() {
            self.transfers.push(transfer);
        }
    }

    pub(crate) fn drain_commands(&mut self) -> std::vec::Drain<'_, Record> {
        self.commands.drain(..)
    }

    pub(crate) fn drain_transfers(&mut self) -> std::vec::Drain<'_, Transfer> {
        self.transfers.drain(..)
    }
}
