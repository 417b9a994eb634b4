//! The places of records, and the order in which each session used its own.
//!
//! Each session has a list through its places, from the one used last to the one not used for longest. It is the exact
//! order, and using a record costs the same however many there are. Free places are a list too.
//!
//! Neighbours: [`crate::table`] decides which records are used and evicted; [`crate::tree`] finds places by number.

#[cfg(test)]
pub(crate) mod tests;

use crate::record::{Record, Right, Rights};
use crate::tree::NOTHING;
use alloc::boxed::Box;

/// A record and its neighbours in the order of use. It fills half a cache line, so that a lookup fetches one line for it.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Place {
    first: u64,
    lba: u64,
    blocks: u64,
    rights: Rights,
    newer: u16,
    older: u16,
}

const _: () = assert!(size_of::<Place>() == 32);

/// The location of a block, and whether the session may touch it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The block on the namespace.
    pub lba: u64,
    /// Blocks from there on in the same record, at least 1.
    pub left: u64,
    /// Whether the record gives the right.
    pub allowed: bool,
}

/// All places. Behind those for records stands one for each order of use, which links its newest and its oldest place.
/// So every place has two neighbours, and an order without records is its own neighbour.
#[derive(Debug)]
pub(crate) struct Places {
    places: Box<[Place]>,
    records: usize,
    /// The first free one; the others are linked behind it as older.
    free: u16,
}

impl Places {
    /// `records` free places and `orders` empty orders, together at most [`NOTHING`].
    pub(crate) fn new(records: usize, orders: usize) -> Self {
        let empty = |at| Place { first: 0, lba: 0, blocks: 0, rights: Rights::NONE, newer: at, older: at };
        let all = (0..NOTHING).take(records.saturating_add(orders));
        let mut places = Self { places: all.map(empty).collect(), records, free: NOTHING };
        (0..NOTHING).take(records).rev().for_each(|place| places.release(place));
        places
    }

    /// The orders of use, one for each that the places were made with.
    pub(crate) fn orders(&self) -> impl Iterator<Item = u16> {
        (0..NOTHING).take(self.places.len()).skip(self.records)
    }

    /// The number of records that fit.
    pub(crate) fn capacity(&self) -> usize {
        self.records
    }

    /// Whether no place is free.
    pub(crate) fn are_full(&self) -> bool {
        self.free == NOTHING
    }

    /// The place of the order that was not used for longest.
    pub(crate) fn oldest(&self, order: u16) -> Option<u16> {
        Some(self.place(order).newer).filter(|oldest| *oldest != order)
    }

    /// Puts a record into a free place, as the one used last. The caller has checked with [`Self::are_full`] that one is free.
    pub(crate) fn put(&mut self, order: u16, record: &Record) -> u16 {
        let at = self.free;
        let place = self.place_mut(at);
        let next_free = place.older;
        (place.first, place.lba, place.blocks) = (record.first(), record.lba(), record.blocks());
        place.rights = record.rights();
        self.free = next_free;
        self.link_newest(order, at);
        at
    }

    /// Takes the record out and frees its place.
    pub(crate) fn take(&mut self, at: u16) -> Option<Record> {
        let record = self.record(at);
        self.unlink(at);
        self.release(at);
        record
    }

    /// Frees all places of an order, without visiting each.
    pub(crate) fn clear(&mut self, order: u16) {
        let Place { newer: oldest, older: newest, .. } = *self.place(order);
        if oldest != order {
            self.place_mut(oldest).older = self.free;
            self.free = newest;
            let empty = self.place_mut(order);
            (empty.newer, empty.older) = (order, order);
        }
    }

    /// The record there; `None` for a free place that never had one.
    pub(crate) fn record(&self, at: u16) -> Option<Record> {
        let place = self.place(at);
        Record::new(place.first, place.lba, place.blocks, place.rights).ok()
    }

    /// Where the session's block `number` lies, if it is in the record there.
    #[inline]
    pub(crate) fn find(&self, at: u16, number: u64, right: Right) -> Option<Found> {
        let place = self.place(at);
        // The subtraction wraps for a number before the record, so it lies far behind the record's end.
        let into = number.wrapping_sub(place.first);
        (into < place.blocks).then(|| Found {
            lba: place.lba.wrapping_add(into),
            left: place.blocks.wrapping_sub(into),
            allowed: place.rights.allow(right),
        })
    }

    /// The record of the order that was used last.
    pub(crate) fn newest(&self, order: u16) -> Option<Record> {
        // An order without records is its own newest place, which has no blocks and so is no record.
        self.record(self.place(order).older)
    }

    /// Makes the place the one used last.
    #[inline]
    pub(crate) fn touch(&mut self, order: u16, at: u16) {
        if self.place(order).older != at {
            self.unlink(at);
            self.link_newest(order, at);
        }
    }

    #[inline]
    fn link_newest(&mut self, order: u16, at: u16) {
        let second = self.place(order).older;
        self.place_mut(order).older = at;
        self.place_mut(second).newer = at;
        let place = self.place_mut(at);
        (place.newer, place.older) = (order, second);
    }

    #[inline]
    fn unlink(&mut self, at: u16) {
        let Place { newer, older, .. } = *self.place(at);
        self.place_mut(newer).older = older;
        self.place_mut(older).newer = newer;
    }

    fn release(&mut self, at: u16) {
        self.place_mut(at).older = self.free;
        self.free = at;
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "links are our own, and a broken table must not grant anything")]
    fn place(&self, at: u16) -> &Place {
        &self.places[usize::from(at)]
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "links are our own, and a broken table must not grant anything")]
    fn place_mut(&mut self, at: u16) -> &mut Place {
        &mut self.places[usize::from(at)]
    }
}
