//! The log page about errors (section 5.14.1.1).

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Cid, QueueId, Status};

/// Error Information, log page 01h: one entry (section 5.14.1.1).
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ErrorEntry {
    /// Error count: a number of its own for each error, from 1; 0 marks an unused entry.
    pub count: U64,
    /// SQID: the SQ the command came from; all ones when the error is of no command.
    pub sqid: U16,
    /// CID of the command; all ones when the error is of no command.
    pub cid: U16,
    /// The half word of the completion that has status and phase tag. See [`ErrorEntry::status`].
    pub status: U16,
    /// The place of the error in the command. See [`ErrorLocation`].
    pub location: U16,
    /// The first block that had the error.
    pub lba: U64,
    /// NSID.
    pub nsid: U32,
    /// The vendor's log page with more about it; 0 for none.
    pub vendor_log: u8,
    /// TRTYPE: transport type; 0 when the transport has no part in the error.
    pub transport: u8,
    reserved_30: [u8; 2],
    /// Command specific information, as the command's description defines it.
    pub command_specific: U64,
    /// Transport specific information, as the transport's description defines it.
    pub transport_specific: U16,
    reserved_42: [u8; 22],
}

const _: () = assert!(size_of::<ErrorEntry>() == 64 && align_of::<ErrorEntry>() == 1);

impl ErrorEntry {
    /// The entry of an error of a command: its place, and its status with phase tag 0.
    #[must_use]
    pub fn of_command(count: u64, sq: QueueId, cid: Cid, status: Status) -> Self {
        let mut entry: Self = zerocopy::FromZeros::new_zeroed();
        entry.count.set(count);
        entry.sqid.set(sq.0);
        entry.cid.set(cid.0);
        entry.status.set(status.to_raw() << 1);
        entry.location.set(ErrorLocation::UNKNOWN.into_bits());
        entry
    }

    /// The status of the command.
    #[must_use]
    pub const fn status(&self) -> Status {
        Status::from_raw(self.status.get() >> 1)
    }
}

/// Parameter error location of [`ErrorEntry`] (section 5.14.1.1).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct ErrorLocation {
    /// Byte of the SQE.
    pub byte: u8,
    /// Bit in the byte.
    #[bits(3)]
    pub bit: u8,
    #[bits(5)]
    __: u8,
}

impl ErrorLocation {
    /// All ones: the error is at no particular place in a command.
    pub const UNKNOWN: Self = Self::from_bits(u16::MAX);
}
