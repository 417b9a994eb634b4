//! The completion queue entry: 16 bytes (section 4.6).
//!
//! A controller may write an entry in pieces. A reader reads dwords 2 and 3 first, with acquire ordering ([`CqeEnd`], with
//! the phase in the upper one). It reads the command's own result only after the phase matches.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Cid, QueueId, Status};

/// A completion queue entry (section 4.6, figure 121).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Cqe {
    /// DW0: the command's own result.
    pub dw0: u32,
    /// DW1: reserved in revision 1.4.
    pub dw1: u32,
    /// DW2: the controller's position in the SQ.
    pub dw2: Dw2,
    /// DW3: the command, its status, and the phase tag.
    pub dw3: Dw3,
}

const _: () = assert!(size_of::<Cqe>() == 16);

/// Dwords 2 and 3 of a completion as one word: all of it but the command's own result.
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct CqeEnd {
    /// As [`Cqe::dw2`].
    #[bits(32)]
    pub dw2: Dw2,
    /// As [`Cqe::dw3`].
    #[bits(32)]
    pub dw3: Dw3,
}

impl CqeEnd {
    /// The bits of the phase tag.
    const PHASE: u64 = Self::new().with_dw3(Dw3::new().with_phase(true)).into_bits();
    /// The bits of the SQ's identifier.
    const SQ: u64 = Self::new().with_dw2(Dw2::new().with_sqid(u16::MAX)).into_bits();

    /// An entry of that SQ with that phase tag, and 0 in all other fields.
    #[must_use]
    pub const fn of(sq: QueueId, phase: Phase) -> Self {
        Self::new().with_dw2(Dw2::new().with_sqid(sq.0)).with_dw3(Dw3::new().with_phase(phase.bit()))
    }

    /// This entry with the other phase tag.
    #[must_use]
    pub const fn next_phase(self) -> Self {
        Self::from_bits(self.into_bits() ^ Self::PHASE)
    }

    /// Whether both have one phase tag.
    #[must_use]
    #[inline(always)]
    pub const fn is_in_phase_of(self, other: Self) -> bool {
        (self.into_bits() ^ other.into_bits()) & Self::PHASE == 0
    }

    /// Whether both have one phase tag and one SQ: by one comparison.
    #[must_use]
    #[inline(always)]
    pub const fn is_in_phase_and_queue_of(self, other: Self) -> bool {
        (self.into_bits() ^ other.into_bits()) & (Self::PHASE | Self::SQ) == 0
    }

    /// The command that completed.
    #[must_use]
    pub const fn cid(self) -> Cid {
        Cid(self.dw3().cid())
    }

    /// The SQ the command came from.
    #[must_use]
    pub const fn sq(self) -> QueueId {
        QueueId(self.dw2().sqid())
    }

    /// Head of that SQ.
    #[must_use]
    pub const fn sq_head(self) -> u16 {
        self.dw2().sqhd()
    }

    /// The status, whole.
    #[must_use]
    pub const fn status(self) -> Status {
        self.dw3().status()
    }

    /// The entry with its first dword.
    #[must_use]
    pub const fn with_result(self, dw0: u32) -> Cqe {
        Cqe { dw0, dw1: 0, dw2: self.dw2(), dw3: self.dw3() }
    }
}

/// Dword 2 of a completion (section 4.6, figure 123).
#[bitfield(u32)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Dw2 {
    /// SQHD: head of the SQ when the entry was made; slots before it are free again.
    pub sqhd: u16,
    /// SQID: the SQ the command came from.
    pub sqid: u16,
}

/// Dword 3 of a completion (section 4.6, figure 124).
#[bitfield(u32)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Dw3 {
    /// CID: the command that completed.
    pub cid: u16,
    /// P: the phase tag; the controller inverts it with each pass through the queue.
    pub phase: bool,
    /// SF: the status field, 15 bits. See [`Dw3::status`].
    #[bits(15)]
    pub sf: u16,
}

impl Dw3 {
    /// The status, whole.
    #[must_use]
    pub const fn status(self) -> Status {
        Status::from_raw(self.sf())
    }
}

impl Cqe {
    /// Makes an entry as a controller does.
    #[must_use]
    pub const fn new(dw0: u32, from: SqPosition, cid: Cid, status: Status, phase: Phase) -> Self {
        Self {
            dw0,
            dw1: 0,
            dw2: Dw2::new().with_sqhd(from.head).with_sqid(from.sq.0),
            dw3: Dw3::new().with_cid(cid.0).with_sf(status.to_raw()).with_phase(phase.bit()),
        }
    }

    /// An entry from its four words, in their order in memory.
    #[must_use]
    pub const fn from_words([dw0, dw1, dw2, dw3]: [u32; 4]) -> Self {
        Self { dw0, dw1, dw2: Dw2::from_bits(dw2), dw3: Dw3::from_bits(dw3) }
    }

    /// The command that completed.
    #[must_use]
    pub const fn cid(&self) -> Cid {
        Cid(self.dw3.cid())
    }

    /// The SQ the command came from.
    #[must_use]
    pub const fn sq(&self) -> QueueId {
        QueueId(self.dw2.sqid())
    }

    /// Head of that SQ.
    #[must_use]
    pub const fn sq_head(&self) -> u16 {
        self.dw2.sqhd()
    }

    /// The phase tag.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        Phase::from_bit(self.dw3.phase())
    }

    /// The status, whole.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.dw3.status()
    }
}

/// A controller's position in an SQ when it completes a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SqPosition {
    /// The SQ.
    pub sq: QueueId,
    /// The SQ's head, in entries.
    pub head: u16,
}

/// The phase tag of a pass through a CQ. Memory starts zeroed, so the first pass is [`Phase::One`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The tag is 0: the second pass and every second one after it.
    Zero,
    /// The tag is 1: the first pass and every second one after it.
    One,
}

impl Phase {
    /// The phase of a controller's first pass.
    pub const FIRST: Self = Self::One;

    /// From the bit in an entry.
    #[must_use]
    pub const fn from_bit(bit: bool) -> Self {
        if bit { Self::One } else { Self::Zero }
    }

    /// The bit in an entry.
    #[must_use]
    pub const fn bit(self) -> bool {
        matches!(self, Self::One)
    }

    /// The phase of the next pass.
    #[must_use]
    pub const fn flipped(self) -> Self {
        match self {
            Self::Zero => Self::One,
            Self::One => Self::Zero,
        }
    }
}

#[cfg(test)]
#[path = "cqe_tests.rs"]
mod tests;
