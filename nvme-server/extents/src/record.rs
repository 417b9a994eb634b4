//! A record: consecutive blocks of a session, their place on the namespace, and the session's rights to them.

use core::fmt;

/// The right that a command needs to its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Right {
    /// The request reads the blocks, or compares them with its data.
    Read = 1,
    /// The request writes the blocks, or discards their contents.
    Write = 2,
}

/// The rights of a session to blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights(u8);

impl Rights {
    /// None: the record is a standing refusal, which needs no further question to the policy component.
    pub const NONE: Self = Self(0);
    /// Read only.
    pub const READ: Self = Self(Right::Read as u8);
    /// Write only.
    pub const WRITE: Self = Self(Right::Write as u8);
    /// Read and write.
    pub const READ_WRITE: Self = Self(Self::READ.0 | Self::WRITE.0);

    /// Whether `right` is among them.
    #[must_use]
    #[inline]
    pub const fn allow(self, right: Right) -> bool {
        self.0 & right as u8 != 0
    }
}

/// The location of a session's blocks on the namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Located {
    /// First block on the namespace.
    pub lba: u64,
    /// Blocks from there on that lie in the same record, at most as many as asked.
    pub blocks: u64,
}

/// Consecutive blocks of a session; at least one, and both ends are 64-bit numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    first: u64,
    lba: u64,
    blocks: u64,
    rights: Rights,
}

/// The reason why a record is impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordError {
    /// The record has no blocks.
    Empty {
        /// The session's block where it would begin.
        first: u64,
    },
    /// The record's end is beyond all numbers of the session.
    BeyondNumbers {
        /// The session's block where it would begin.
        first: u64,
        /// The record's blocks.
        blocks: u64,
    },
    /// The record's end is beyond all blocks a namespace can have.
    BeyondNamespace {
        /// The namespace's block where it would begin.
        lba: u64,
        /// The record's blocks.
        blocks: u64,
    },
}

impl Record {
    /// `blocks` blocks from the session's number `first` on, which lie on the namespace from `lba` on.
    ///
    /// # Errors
    /// [`RecordError`] when it is empty or one of its ends is no 64-bit number.
    pub const fn new(first: u64, lba: u64, blocks: u64, rights: Rights) -> Result<Self, RecordError> {
        if blocks == 0 {
            return Err(RecordError::Empty { first });
        }
        if first.checked_add(blocks).is_none() {
            return Err(RecordError::BeyondNumbers { first, blocks });
        }
        if lba.checked_add(blocks).is_none() {
            return Err(RecordError::BeyondNamespace { lba, blocks });
        }
        Ok(Self { first, lba, blocks, rights })
    }

    /// The session's number of its first block.
    #[must_use]
    #[inline]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// The record's first block on the namespace.
    #[must_use]
    #[inline]
    pub const fn lba(&self) -> u64 {
        self.lba
    }

    /// The record's blocks, at least 1.
    #[must_use]
    #[inline]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The session's rights to its blocks.
    #[must_use]
    #[inline]
    pub const fn rights(&self) -> Rights {
        self.rights
    }

    /// Where the session's block `first` lies, and how many of the `blocks` from there on are in this record. `None` for a
    /// block outside it, or a right that it does not give.
    #[must_use]
    #[inline(always)]
    pub const fn locate(&self, first: u64, blocks: u64, right: Right) -> Option<Located> {
        // The subtraction wraps for a number before the record, so it lies far behind the record's end.
        let into = first.wrapping_sub(self.first);
        if into >= self.blocks || !self.rights.allow(right) {
            return None;
        }
        let left = self.blocks.wrapping_sub(into);
        Some(Located { lba: self.lba.wrapping_add(into), blocks: if blocks < left { blocks } else { left } })
    }

    /// The session's number after that of the record's last block.
    #[must_use]
    #[inline]
    pub const fn end(&self) -> u64 {
        self.first.wrapping_add(self.blocks)
    }

    /// Whether both number the namespace alike and give the same rights, so that one record could replace them.
    pub(crate) const fn agrees(&self, other: &Self) -> bool {
        let alike = self.lba.wrapping_sub(self.first) == other.lba.wrapping_sub(other.first);
        alike && self.rights.0 == other.rights.0
    }

    /// The blocks of both, which overlap or touch and agree.
    pub(crate) fn joined(&self, other: &Self) -> Self {
        let (first, lba) = (self.first.min(other.first), self.lba.min(other.lba));
        Self { first, lba, blocks: self.end().max(other.end()).wrapping_sub(first), rights: self.rights }
    }

    /// The part before the session's number `number`.
    pub(crate) fn before(&self, number: u64) -> Option<Self> {
        let blocks = number.checked_sub(self.first).filter(|blocks| *blocks > 0)?.min(self.blocks);
        Some(Self { blocks, ..*self })
    }

    /// The part at the session's number `number` and after.
    pub(crate) fn from(&self, number: u64) -> Option<Self> {
        let gone = number.saturating_sub(self.first);
        let blocks = self.blocks.checked_sub(gone).filter(|blocks| *blocks > 0)?;
        Some(Self { first: self.first.wrapping_add(gone), lba: self.lba.wrapping_add(gone), blocks, ..*self })
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { first } => write!(f, "a record at block {first} has no blocks"),
            Self::BeyondNumbers { first, blocks } => write!(f, "{blocks} blocks from number {first} on end beyond all"),
            Self::BeyondNamespace { lba, blocks } => write!(f, "{blocks} blocks from LBA {lba} on end beyond all"),
        }
    }
}

impl core::error::Error for RecordError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_or_without_end_is_no_record() {
        let new = |first, lba, blocks| Record::new(first, lba, blocks, Rights::READ).map(|record| record.end());
        assert_eq!(new(7, 0, 0), Err(RecordError::Empty { first: 7 }));
        assert_eq!(new(u64::MAX, 0, 1), Err(RecordError::BeyondNumbers { first: u64::MAX, blocks: 1 }));
        assert_eq!(new(1, 0, u64::MAX), Err(RecordError::BeyondNumbers { first: 1, blocks: u64::MAX }));
        assert_eq!(new(0, 2, u64::MAX), Err(RecordError::BeyondNamespace { lba: 2, blocks: u64::MAX }));
        assert_eq!(new(0, 0, u64::MAX), Ok(u64::MAX));
        assert_eq!(new(u64::MAX - 1, 0, 1), Ok(u64::MAX));
    }

    #[test]
    fn rights_allow_what_they_name() {
        let allowed = |rights: Rights| (rights.allow(Right::Read), rights.allow(Right::Write));
        assert_eq!(allowed(Rights::NONE), (false, false));
        assert_eq!(allowed(Rights::READ), (true, false));
        assert_eq!(allowed(Rights::WRITE), (false, true));
        assert_eq!(allowed(Rights::READ_WRITE), (true, true));
    }

    #[test]
    fn a_cut_record_keeps_its_numbering() {
        let record = Record::new(10, 100, 10, Rights::READ).unwrap();
        let part = |first, lba, blocks| Some(Record::new(first, lba, blocks, Rights::READ).unwrap());
        assert_eq!(record.before(10), None);
        assert_eq!(record.before(13), part(10, 100, 3));
        assert_eq!(record.before(99), Some(record));
        assert_eq!(record.from(0), Some(record));
        assert_eq!(record.from(13), part(13, 103, 7));
        assert_eq!(record.from(20), None);
        assert_eq!(record.from(u64::MAX), None);
    }
}
