//! A request on the ring, and the door where it is checked.
//!
//! An [`Entry`] is written by a client and not trusted. [`Entry::check`] turns it into a [`Request`] or returns the reason
//! why not; past that door nothing is checked again. A [`Simple`] request passes by the same checks, with the operation known.

use crate::operation::Right;
use crate::status::Status;
use core::slice;
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use crate::operation::Opcode;

/// Ranges a request can name.
pub const MAX_SEGMENTS: usize = 5;

/// A request as it lies on the ring: 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Entry {
    /// An [`Opcode`] by number.
    pub opcode: u8,
    /// Ranges that count.
    pub segment_count: u8,
    /// Always 0.
    pub reserved: u16,
    /// Blocks.
    pub blocks: u32,
    /// First block, in the session's own numbering.
    pub lba: u64,
    /// Returned with the completion.
    pub user_data: u64,
    /// Ranges of the data in the window.
    pub segments: [Segment; MAX_SEGMENTS],
}

const _: () = assert!(size_of::<Entry>() == 64);

/// The first half of an [`Entry`], which holds all of a request with at most one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Head {
    /// As [`Entry::opcode`].
    pub opcode: u8,
    /// As [`Entry::segment_count`].
    pub segment_count: u8,
    /// As [`Entry::reserved`].
    pub reserved: u16,
    /// As [`Entry::blocks`].
    pub blocks: u32,
    /// As [`Entry::lba`].
    pub lba: u64,
    /// As [`Entry::user_data`].
    pub user_data: u64,
    /// The first of [`Entry::segments`].
    pub segment: Segment,
}

const _: () = assert!(size_of::<Head>() == 32 && core::mem::offset_of!(Entry, segments) == 24);

/// A checked read or write of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Simple {
    /// [`Opcode::Read`] or [`Opcode::Write`].
    pub opcode: Opcode,
    /// The session's number of the first block.
    pub lba: u64,
    /// Blocks.
    pub blocks: u32,
    /// Returned with the completion.
    pub user_data: u64,
    /// The range of the window, of as many bytes as the blocks.
    pub segment: Segment,
}

impl Head {
    /// The entry as a read or write of one segment, if [`Entry::check`] accepts it as that. After `None` the entry may still be
    /// valid: that check decides.
    #[must_use]
    #[inline(always)]
    pub fn simple(&self, bounds: &Bounds) -> Option<Simple> {
        let Self { opcode, segment_count, reserved, blocks, lba, user_data, segment } = *self;
        let opcode = simple_opcode((opcode, segment_count, reserved), (lba, blocks), &segment, bounds)?;
        Some(Simple { opcode, lba, blocks, user_data, segment })
    }
}

/// The operation of an entry with these fields, if it is a read or write of one segment and inside `bounds`.
#[inline(always)]
fn simple_opcode(
    (opcode, segment_count, reserved): (u8, u8, u16),
    (lba, blocks): (u64, u32),
    segment: &Segment,
    bounds: &Bounds,
) -> Option<Opcode> {
    let opcode = match u32::from(opcode) | u32::from(segment_count) << 8 | u32::from(reserved) << 16 {
        0x0101 if bounds.permit(Opcode::Read) => Opcode::Read,
        0x0102 if bounds.permit(Opcode::Write) => Opcode::Write,
        _ => return None,
    };
    bounds.check_blocks(lba, blocks).ok()?;
    bounds.check_ranges(slice::from_ref(segment), blocks).ok()?;
    Some(opcode)
}

/// A range of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Segment {
    /// Bytes from the window's start, a multiple of 4.
    pub offset: u32,
    /// Bytes, a multiple of the block size.
    pub len: u32,
}

/// The blocks that a request names, and the right that it needs to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The right, which the table of extents must have for each of the blocks.
    pub right: Right,
    /// First block, in the session's own numbering.
    pub lba: u64,
    /// Blocks.
    pub blocks: u32,
}

/// The ranges of a request, at most [`MAX_SEGMENTS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ranges {
    segments: [Segment; MAX_SEGMENTS],
    count: u8,
}

impl Ranges {
    /// The ranges of a request with a single one.
    #[must_use]
    pub fn one(segment: Segment) -> Self {
        let none = Segment::default();
        Self { segments: [segment, none, none, none, none], count: 1 }
    }

    /// The ranges in their order.
    #[must_use]
    #[inline(always)]
    pub fn as_slice(&self) -> &[Segment] {
        self.segments.get(..usize::from(self.count)).unwrap_or_default()
    }
}

/// A checked request: the session numbers its blocks, its ranges lie inside the window, both have the same length. Each of
/// its commands asks the table of extents for the right to its blocks and for their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Moves data between blocks and ranges of the window.
    Transfer {
        /// An operation that [moves data](Opcode::moves_data).
        opcode: Opcode,
        /// The blocks.
        access: Access,
        /// The ranges, together as long as the blocks.
        ranges: Ranges,
    },
    /// Names blocks and moves no data.
    Named {
        /// An operation that moves no data and needs a [right](Opcode::right).
        opcode: Opcode,
        /// The blocks.
        access: Access,
    },
    /// Names no blocks: [`Opcode::Flush`].
    Flush,
}

impl Request {
    /// The operation.
    #[must_use]
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Transfer { opcode, .. } | Self::Named { opcode, .. } => *opcode,
            Self::Flush => Opcode::Flush,
        }
    }

    /// The blocks; `None` for a flush.
    #[must_use]
    #[inline]
    pub const fn access(&self) -> Option<Access> {
        match self {
            Self::Transfer { access, .. } | Self::Named { access, .. } => Some(*access),
            Self::Flush => None,
        }
    }

    /// The ranges; none for a request that moves no data.
    #[must_use]
    pub fn ranges(&self) -> &[Segment] {
        match self {
            Self::Transfer { ranges, .. } => ranges.as_slice(),
            Self::Named { .. } | Self::Flush => &[],
        }
    }
}

/// A session's bounds, against which entries are checked.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// log2 of the block size.
    pub block_shift: u8,
    /// Blocks one request may move or name.
    pub max_blocks: u32,
    /// Bytes of the window.
    pub window_bytes: u64,
    /// Whether the session may write.
    pub writable: bool,
    /// The session's blocks: its own numbering runs from 0 to this.
    pub blocks: u64,
}

impl Bounds {
    /// Whether the session numbers `blocks` blocks from `first` on; false for no blocks.
    #[must_use]
    #[inline(always)]
    pub const fn contain(&self, first: u64, blocks: u64) -> bool {
        match first.checked_add(blocks) {
            Some(end) => blocks > 0 && end <= self.blocks,
            None => false,
        }
    }

    /// Whether the session may ask for the operation.
    #[inline(always)]
    const fn permit(&self, opcode: Opcode) -> bool {
        self.writable || !opcode.changes_blocks()
    }

    #[inline(always)]
    fn check_blocks(&self, lba: u64, blocks: u32) -> Result<(), Status> {
        // Their number less one: without blocks it is above every limit.
        let blocks_z = blocks.wrapping_sub(1);
        let room = self.blocks.checked_sub(lba);
        if blocks_z < self.max_blocks && room.is_some_and(|room| u64::from(blocks_z) < room) {
            Ok(())
        } else if self.contain(lba, u64::from(blocks)) {
            Err(Status::TooLarge)
        } else {
            Err(Status::OutsideExtents)
        }
    }

    /// Checks the ranges of a number of `blocks` above 0.
    #[inline(always)]
    fn check_ranges(&self, ranges: &[Segment], blocks: u32) -> Result<(), Status> {
        // Shifts are below 32.
        let shift = u32::from(self.block_shift);
        let block_mask = 1u32.wrapping_shl(shift).wrapping_sub(1);
        let mut total: u64 = 0;
        for Segment { offset, len } in ranges {
            let end = u64::from(*offset).wrapping_add(u64::from(*len));
            if !offset.is_multiple_of(4) || end > self.window_bytes {
                return Err(Status::OutsideWindow);
            }
            // The length of the only range is that of the blocks.
            if ranges.len() > 1 && (*len == 0 || len & block_mask != 0) {
                return Err(Status::LengthMismatch);
            }
            total = total.wrapping_add(u64::from(*len));
        }
        if total != u64::from(blocks).wrapping_shl(shift) {
            return Err(Status::LengthMismatch);
        }
        Ok(())
    }
}

impl Entry {
    /// The entry's first half.
    #[must_use]
    #[inline(always)]
    pub const fn head(&self) -> Head {
        let Self { opcode, segment_count, reserved, blocks, lba, user_data, segments: [segment, ..] } = *self;
        Head { opcode, segment_count, reserved, blocks, lba, user_data, segment }
    }

    /// As [`Head::simple`], of an entry in private memory: fields are read where they are needed.
    #[must_use]
    #[inline(always)]
    pub fn simple(&self, bounds: &Bounds) -> Option<Simple> {
        let Self { opcode, segment_count, reserved, blocks, lba, user_data, segments: [segment, ..] } = self;
        let opcode = simple_opcode((*opcode, *segment_count, *reserved), (*lba, *blocks), segment, bounds)?;
        Some(Simple { opcode, lba: *lba, blocks: *blocks, user_data: *user_data, segment: *segment })
    }

    /// Whether the entry's operation changes blocks ([`Opcode::changes_blocks`]).
    #[must_use]
    #[inline]
    pub fn changes_blocks(&self) -> bool {
        Opcode::from_raw(self.opcode).is_some_and(Opcode::changes_blocks)
    }

    /// Checks the entry.
    ///
    /// # Errors
    /// The [`Status`] to answer with, of the first invalid field in their order.
    #[inline(always)]
    pub fn check(&self, bounds: &Bounds) -> Result<Request, Status> {
        let opcode = Opcode::from_raw(self.opcode).ok_or(Status::InvalidRequest)?;
        let Self { segment_count: count, reserved, lba, blocks, segments, .. } = *self;
        if usize::from(count) > MAX_SEGMENTS || reserved != 0 || (count > 0) != opcode.moves_data() {
            return Err(Status::InvalidRequest);
        }
        let Some(right) = opcode.right() else {
            return if (lba, blocks) == (0, 0) { Ok(Request::Flush) } else { Err(Status::InvalidRequest) };
        };
        if !bounds.permit(opcode) {
            return Err(Status::ReadOnly);
        }
        bounds.check_blocks(lba, blocks)?;
        let access = Access { right, lba, blocks };
        if !opcode.moves_data() {
            return Ok(Request::Named { opcode, access });
        }
        let ranges = Ranges { segments, count };
        bounds.check_ranges(ranges.as_slice(), blocks)?;
        Ok(Request::Transfer { opcode, access, ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use zerocopy::FromBytes;

    fn bounds() -> Bounds {
        Bounds { block_shift: 9, max_blocks: 64, window_bytes: 65536, writable: true, blocks: 128 }
    }

    fn read() -> Entry {
        let mut entry = Entry { opcode: 1, segment_count: 1, blocks: 8, lba: 4, user_data: 77, ..Entry::default() };
        entry.segments[0] = Segment { offset: 512, len: 4096 };
        entry
    }

    /// An entry of this operation that is in order.
    fn sound(opcode: Opcode) -> Entry {
        let (lba, blocks) = if opcode.right().is_some() { (4, 8) } else { (0, 0) };
        Entry { opcode: opcode as u8, segment_count: u8::from(opcode.moves_data()), lba, blocks, ..read() }
    }

    fn refused(change: impl FnOnce(&mut Entry)) -> Status {
        let mut entry = read();
        change(&mut entry);
        entry.check(&bounds()).unwrap_err()
    }

    #[test]
    fn a_sound_entry_becomes_a_request() {
        let request = read().check(&bounds()).unwrap();
        let access = Access { right: Right::Read, lba: 4, blocks: 8 };
        let ranges = Ranges::one(Segment { offset: 512, len: 4096 });
        assert_eq!(request, Request::Transfer { opcode: Opcode::Read, access, ranges });
    }

    #[test]
    fn unknown_operations_and_reserved_bits_are_refused() {
        assert_eq!(refused(|e| e.opcode = 0), Status::InvalidRequest);
        assert_eq!(refused(|e| e.opcode = Opcode::UNUSED), Status::InvalidRequest);
        assert_eq!(refused(|e| e.reserved = 1), Status::InvalidRequest);
        assert_eq!(refused(|e| e.segment_count = 6), Status::InvalidRequest);
        assert_eq!(refused(|e| e.segment_count = 255), Status::InvalidRequest);
        assert_eq!(refused(|e| e.segment_count = 0), Status::InvalidRequest);
        assert_eq!(refused(|e| e.opcode = 3), Status::InvalidRequest);
    }

    #[test]
    fn blocks_beyond_the_sessions_numbers_are_refused_at_every_edge() {
        assert_eq!(refused(|e| e.lba = 121), Status::OutsideExtents);
        assert_eq!(refused(|e| e.lba = u64::MAX), Status::OutsideExtents);
        assert_eq!(refused(|e| e.lba = u64::MAX - 7), Status::OutsideExtents);
        assert_eq!(refused(|e| e.blocks = 0), Status::OutsideExtents);
        assert_eq!(refused(|e| e.blocks = u32::MAX), Status::OutsideExtents);
        assert_eq!(refused(|e| e.blocks = 65), Status::TooLarge);
    }

    #[test]
    fn ranges_outside_the_window_are_refused_at_every_edge() {
        assert_eq!(refused(|e| e.segments[0].offset = 65536 - 4092), Status::OutsideWindow);
        assert_eq!(refused(|e| e.segments[0].offset = u32::MAX - 3), Status::OutsideWindow);
        assert_eq!(refused(|e| e.segments[0].offset = 2), Status::OutsideWindow);
        assert_eq!(refused(|e| e.segments[0].len = u32::MAX), Status::OutsideWindow);
        assert_eq!(refused(|e| e.segments[0].len = 0), Status::LengthMismatch);
        assert_eq!(refused(|e| e.segments[0].len = 4092), Status::LengthMismatch);
        assert_eq!(refused(|e| e.segments[0].len = 4608), Status::LengthMismatch);
    }

    #[test]
    fn what_needs_the_right_to_write_is_what_changes_blocks() {
        let bounds = Bounds { writable: false, ..bounds() };
        let refused: Vec<_> = Opcode::ALL.iter().filter(|opcode| sound(**opcode).check(&bounds).is_err()).collect();
        assert_eq!(refused, [&Opcode::Write, &Opcode::Discard, &Opcode::WriteZeroes]);
        for opcode in Opcode::ALL {
            let expected = if opcode.changes_blocks() { Err(Status::ReadOnly) } else { Ok(*opcode) };
            assert_eq!(sound(*opcode).check(&bounds).map(|request| request.opcode()), expected);
            assert_eq!(sound(*opcode).changes_blocks(), opcode.changes_blocks());
        }
        assert!(!Entry { opcode: Opcode::UNUSED, ..read() }.changes_blocks(), "none of this interface");
    }

    #[test]
    fn ranges_and_blocks_are_those_of_the_operation() {
        for opcode in Opcode::ALL {
            let sound = sound(*opcode);
            assert!(sound.check(&bounds()).is_ok(), "{opcode:?}");
            let moved = Entry { segment_count: 1 - sound.segment_count, ..sound };
            assert_eq!(moved.check(&bounds()), Err(Status::InvalidRequest), "{opcode:?}");
            let names_blocks = Entry { lba: 128, blocks: 8, ..sound };
            let expected = if opcode.right().is_some() { Status::OutsideExtents } else { Status::InvalidRequest };
            assert_eq!(names_blocks.check(&bounds()), Err(expected), "{opcode:?}");
        }
    }

    #[test]
    fn flush_names_no_blocks() {
        let flush = Entry { opcode: 3, user_data: 1, ..Entry::default() };
        assert!(flush.check(&bounds()).is_ok());
        assert_eq!(Entry { lba: 1, ..flush }.check(&bounds()), Err(Status::InvalidRequest));
    }

    /// Any entry, and more often one that is at an edge of a limit or beside it.
    fn entries() -> impl Strategy<Value = Entry> {
        let edges = (prop_oneof![4 => 0..4u8, 1 => 4..9u8], 0..3u8, 0..2u16, 1..67u32, 0..4u64, 0..4u32, 0..3u32);
        let near = edges.prop_map(|(opcode, segment_count, reserved, blocks, lba, offset, len)| {
            // A little below the last block or byte, at it or beyond; or the first one, or one that is not aligned.
            let lba = if lba == 3 { 0 } else { 129 - u64::from(blocks) - lba };
            let end = 65536 + 4 - blocks * 512;
            let offset = if offset == 3 { end - 7 } else { end - 4 * offset };
            let len = blocks * 512 + if len == 2 { 4 } else { 0 };
            let mut entry = Entry { opcode, segment_count, reserved, blocks, lba, user_data: lba, ..Entry::default() };
            entry.segments[0] = Segment { offset, len };
            entry
        });
        let any = any::<[u8; 64]>().prop_map(|bytes| Entry::read_from_bytes(&bytes).unwrap());
        prop_oneof![9 => near, 1 => any]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn first_half_is_accepted_for_one_segment_requests(
            entry in entries(),
            writable: bool,
        ) {
            let bounds = Bounds { writable, ..bounds() };
            let head = Head::read_from_bytes(&entry.as_bytes()[..32]).unwrap();
            prop_assert_eq!(entry.head(), head);
            let expected = match entry.check(&bounds) {
                Ok(Request::Transfer { opcode: opcode @ (Opcode::Read | Opcode::Write), access, ranges }) => {
                    let Access { lba, blocks, .. } = access;
                    let simple = |segment| Simple { opcode, lba, blocks, user_data: entry.user_data, segment };
                    <[Segment; 1]>::try_from(ranges.as_slice()).ok().map(|[segment]| simple(segment))
                }
                _ => None,
            };
            prop_assert_eq!(head.simple(&bounds), expected);
            prop_assert_eq!(entry.simple(&bounds), expected);
        }
    }
}
