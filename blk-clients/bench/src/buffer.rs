//! A worker's piece of the window, and the places of a request's blocks in it: spread over ranges and moved off
//! alignment as the configuration asks.

use crate::stamp::{Mismatch, Stamp};
use alloc::rc::Rc;
use alloc::vec::Vec;
use blk_client::{MAX_SEGMENTS, Part, Window, WindowRange};
use core::cell::RefCell;
use platform::{Memory, OutOfBounds, PAGE_SIZE};

/// Layout of requests in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Bytes a block of the namespace.
    pub(crate) block_bytes: usize,
    /// Blocks of the largest request.
    pub(crate) max_blocks: usize,
    /// Ranges a request is spread over, as far as its blocks suffice.
    pub(crate) segments: usize,
    /// Bytes by which every range is moved off the page.
    pub(crate) misalign_bytes: usize,
}

impl Layout {
    /// Bytes from the start of one range to that of the next: whole pages, with a gap, so that ranges never touch.
    fn stride(&self) -> usize {
        let blocks = self.max_blocks.div_ceil(self.segments.max(1));
        let bytes = blocks.saturating_mul(self.block_bytes).saturating_add(self.misalign_bytes);
        bytes.div_ceil(PAGE_SIZE).saturating_add(usize::from(self.segments > 1)).saturating_mul(PAGE_SIZE)
    }

    /// Bytes of window a worker needs.
    pub(crate) fn bytes(&self) -> usize {
        self.stride().saturating_mul(self.segments)
    }

    /// Ranges of a request of `blocks` blocks: offset and bytes, in order.
    fn ranges(self, blocks: usize) -> impl Iterator<Item = (usize, usize)> {
        let count = self.segments.min(blocks).max(1);
        let (each, more) = (blocks.checked_div(count).unwrap_or(0), blocks.checked_rem(count).unwrap_or(0));
        (0..count).map(move |index| {
            let blocks = each.saturating_add(usize::from(index < more));
            let offset = index.saturating_mul(self.stride()).saturating_add(self.misalign_bytes);
            (offset, blocks.saturating_mul(self.block_bytes))
        })
    }

    /// Offsets of the blocks of a request of `blocks` blocks, in order.
    fn places(self, blocks: usize) -> impl Iterator<Item = usize> {
        self.ranges(blocks)
            .flat_map(move |(offset, bytes)| (offset..offset.saturating_add(bytes)).step_by(self.block_bytes.max(1)))
    }
}

/// Room for one block, which all workers use in turn.
pub(crate) type Scratch = Rc<RefCell<Vec<u8>>>;

/// The most bytes of the heap that a [`Buffer`] has.
pub(crate) const PIECE_BYTES: usize = 96;

/// The piece, and room for one block.
#[derive(Debug)]
pub(crate) struct Buffer<M: Memory> {
    layout: Layout,
    range: WindowRange<M>,
    scratch: Scratch,
}

/// Result of comparing a request's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Compared {
    pub(crate) right_bytes: u64,
    pub(crate) wrong_bytes: u64,
    /// The first wrong block: its correct stamp, and the mismatch.
    pub(crate) first: Option<(Stamp, Mismatch)>,
}

impl<M: Memory> Buffer<M> {
    /// Takes a piece of `window` for requests of this `layout`, if one is left.
    pub(crate) fn new(window: &Window<M>, layout: Layout, scratch: &Scratch) -> Option<Self> {
        const { assert!(size_of::<Self>() <= PIECE_BYTES) };
        let range = window.lease(layout.bytes())?;
        Some(Self { layout, range, scratch: Rc::clone(scratch) })
    }

    /// Room for the parts of a request. The caller provides it, so that the parts are not copied.
    pub(crate) const fn room(&self) -> [Part<'_, M>; MAX_SEGMENTS] {
        [self.range.whole(); MAX_SEGMENTS]
    }

    /// Returns the parts that a request of `blocks` blocks names.
    pub(crate) fn parts<'a, 'r>(
        &'a self,
        blocks: usize,
        room: &'r mut [Part<'a, M>; MAX_SEGMENTS],
    ) -> &'r [Part<'a, M>] {
        let mut count = 0usize;
        for ((offset, bytes), part) in self.layout.ranges(blocks).zip(room.iter_mut()) {
            // Inside by construction; the whole range instead would be refused as a mismatch of lengths.
            *part = self.range.part(offset, bytes).unwrap_or(self.range.whole());
            count = count.saturating_add(1);
        }
        room.get(..count).unwrap_or_default()
    }

    /// Fills the request's blocks according to `stamps`.
    pub(crate) fn fill(&self, stamps: impl ExactSizeIterator<Item = Stamp>) -> Result<(), OutOfBounds> {
        let block = &mut *self.scratch.borrow_mut();
        for (place, stamp) in self.layout.places(stamps.len()).zip(stamps) {
            stamp.fill(block);
            self.range.write_bytes(place, block)?;
        }
        Ok(())
    }

    /// Fills the request's blocks with one byte, so that missing data is detected.
    pub(crate) fn soil(&self, blocks: usize) -> Result<(), OutOfBounds> {
        let block = &mut *self.scratch.borrow_mut();
        block.fill(0xa5);
        let mut places = self.layout.places(blocks);
        places.try_for_each(|place| self.range.write_bytes(place, block))
    }

    /// Compares the request's blocks with `stamps`; a block whose stamp is `None` is not compared.
    pub(crate) fn compare(
        &self,
        stamps: impl ExactSizeIterator<Item = Option<Stamp>>,
    ) -> Result<Compared, OutOfBounds> {
        let mut compared = Compared::default();
        let block = &mut *self.scratch.borrow_mut();
        let bytes = block.len() as u64;
        for (place, stamp) in self.layout.places(stamps.len()).zip(stamps) {
            let Some(stamp) = stamp else { continue };
            self.range.read_bytes(place, block)?;
            match stamp.verify(block) {
                Ok(()) => compared.right_bytes = compared.right_bytes.saturating_add(bytes),
                Err(mismatch) => {
                    compared.wrong_bytes = compared.wrong_bytes.saturating_add(mismatch.wrong_bytes);
                    compared.right_bytes =
                        compared.right_bytes.saturating_add(bytes.saturating_sub(mismatch.wrong_bytes));
                    compared.first.get_or_insert((stamp, mismatch));
                }
            }
        }
        Ok(compared)
    }

    /// Counts the bytes of the request's blocks that are not zero.
    pub(crate) fn count_nonzero(&self, blocks: usize) -> Result<u64, OutOfBounds> {
        let mut nonzero = 0u64;
        let block = &mut *self.scratch.borrow_mut();
        for place in self.layout.places(blocks) {
            self.range.read_bytes(place, block)?;
            nonzero = nonzero.saturating_add(block.iter().filter(|byte| **byte != 0).count() as u64);
        }
        Ok(nonzero)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_never_overlap_and_stay_inside(
            max_blocks in 1usize..64, segments in 1usize..=5, misalign in 0usize..1024, blocks in 1usize..64,
        ) {
            let layout = Layout { block_bytes: 512, max_blocks, segments, misalign_bytes: misalign * 4 };
            let blocks = blocks.min(max_blocks);
            let places: Vec<usize> = layout.places(blocks).collect();
            prop_assert_eq!(places.len(), blocks);
            for pair in places.windows(2) {
                prop_assert!(pair[0] + 512 <= pair[1]);
            }
            prop_assert!(places[blocks - 1] + 512 <= layout.bytes());
            prop_assert_eq!(layout.ranges(blocks).map(|(_, bytes)| bytes).sum::<usize>(), blocks * 512);
            prop_assert!(layout.ranges(blocks).all(|(offset, _)| offset % PAGE_SIZE == (misalign * 4) % PAGE_SIZE));
        }
    }
}
