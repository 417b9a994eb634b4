//! The places of records, and in which order each session used its own.
//!
//! Each session has a list through its places, from the one used last to the one not used for longest. It is the exact
//! order, and using a record costs the same however many there are. Free places are a list too.
//!
//! Neighbours: [`crate::table`] decides what is used and what is forgotten; [`crate::tree`] finds places by number.

#[cfg(test)]
pub(crate) mod tests;

use crate::record::{Record, Right, Rights};
use crate::tree::NOTHING;
use alloc::boxed::Box;

/// A record and its neighbours in the order of use. It fills half a cache line, so that a record is one to fetch.
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

/// A session's places in the order of use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recency {
    newest: u16,
    oldest: u16,
}

impl Recency {
    /// No places.
    pub(crate) const EMPTY: Self = Self { newest: NOTHING, oldest: NOTHING };

    /// The place that was not used for longest.
    pub(crate) fn oldest(&self) -> Option<u16> {
        (self.oldest != NOTHING).then_some(self.oldest)
    }
}

/// Where a block lies and whether it may be touched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The block on the namespace.
    pub lba: u64,
    /// Blocks from there on in the same record, at least 1.
    pub left: u64,
    /// Whether the record gives the right.
    pub allowed: bool,
}

/// All places.
#[derive(Debug)]
pub(crate) struct Places {
    places: Box<[Place]>,
    /// The first free one; the others are linked behind it as older.
    free: u16,
}

impl Places {
    /// `count` free places, at most [`NOTHING`].
    pub(crate) fn new(count: usize) -> Self {
        let empty = Place { first: 0, lba: 0, blocks: 0, rights: Rights::NONE, newer: NOTHING, older: NOTHING };
        let mut places = Self { places: (0..count).map(|_| empty).collect(), free: NOTHING };
        (0..NOTHING).take(count).rev().for_each(|place| places.release(place));
        places
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// Whether none is free.
    pub(crate) fn are_full(&self) -> bool {
        self.free == NOTHING
    }

    /// Puts a record into a free place, as the one its session used last. There is a free place: see [`Self::are_full`].
    pub(crate) fn put(&mut self, order: &mut Recency, record: &Record) -> u16 {
        let at = self.free;
        let place = self.place_mut(at);
        let older = place.older;
        (place.first, place.lba, place.blocks) = (record.first(), record.lba(), record.blocks());
        place.rights = record.rights();
        self.free = older;
        self.link_newest(order, at);
        at
    }

    /// Takes the record out; its place is free.
    pub(crate) fn take(&mut self, order: &mut Recency, at: u16) -> Option<Record> {
        let record = self.record(at);
        self.unlink(order, at);
        self.release(at);
        record
    }

    /// Frees all places of a session.
    pub(crate) fn clear(&mut self, order: &mut Recency) {
        if order.newest != NOTHING {
            self.place_mut(order.oldest).older = self.free;
            self.free = order.newest;
        }
        *order = Recency::EMPTY;
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
        let into = number.wrapping_sub(place.first);
        // A number before the record is far behind it, after the subtraction.
        let left = place.blocks.checked_sub(into).filter(|left| *left > 0)?;
        Some(Found { lba: place.lba.wrapping_add(into), left, allowed: place.rights.allow(right) })
    }

    /// Makes the place the one its session used last.
    #[inline]
    pub(crate) fn touch(&mut self, order: &mut Recency, at: u16) {
        if order.newest != at {
            self.unlink(order, at);
            self.link_newest(order, at);
        }
    }

    #[inline]
    fn link_newest(&mut self, order: &mut Recency, at: u16) {
        let place = self.place_mut(at);
        (place.newer, place.older) = (NOTHING, order.newest);
        match order.newest {
            NOTHING => order.oldest = at,
            second => self.place_mut(second).newer = at,
        }
        order.newest = at;
    }

    #[inline]
    fn unlink(&mut self, order: &mut Recency, at: u16) {
        let Place { newer, older, .. } = *self.place(at);
        match newer {
            NOTHING => order.newest = older,
            newer => self.place_mut(newer).older = older,
        }
        match older {
            NOTHING => order.oldest = newer,
            older => self.place_mut(older).newer = newer,
        }
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
