//! Unanswered requests that change blocks, and the order among them.
//!
//! A change is held back until every earlier change of the same blocks is answered. So no two requests at the server change
//! the same blocks, and each can be made again: no later change was let past it. A change waits for all earlier ones of
//! its blocks, including those that wait themselves. No change is overtaken, so none starves, and the first of them waits
//! for no other.
//!
//! An unanswered change is found by its blocks. One that lies in a single region of the namespace is in the chain of that
//! region's bucket; one that spans several is in a list that every search reads. So a change without conflict costs a
//! search of one bucket, and its answer one step to unlink it.
//!
//! Neighbours: `slots` has the requests, and a place for each. Left out: reads, which may return any content of
//! their blocks while changes are in progress, and flushes.

use alloc::vec;
use alloc::vec::Vec;
use blk_api::request::Entry;

/// Blocks of a region, as a power of two: few enough that consecutive requests are in several regions, and enough that
/// most requests do not span two.
const REGION_SHIFT: u32 = 5;
/// Buckets for each possible change: with all of them under way, one search in eight meets a change of another region.
const BUCKETS_A_CHANGE: usize = 8;
/// The end of a chain: no slot has this number.
const NOBODY: u32 = u32::MAX;
/// The place of a change that spans several regions: no bucket has this number.
const WIDE: u32 = u32::MAX;
/// The place of a slot without an unanswered change: no bucket has this number either.
const NOWHERE: u32 = WIDE - 1;

/// A range of changed blocks, never empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    first: u64,
    /// The block after the last one.
    end: u64,
}

impl Blocks {
    /// Returns the blocks that `entry` changes.
    #[inline]
    pub(crate) fn changed_by(entry: &Entry) -> Option<Self> {
        if !entry.changes_blocks() {
            return None;
        }
        let end = entry.lba.saturating_add(u64::from(entry.blocks));
        (entry.lba < end).then_some(Self { first: entry.lba, end })
    }

    const fn overlap(self, other: Self) -> bool {
        self.first < other.end && other.first < self.end
    }

    /// Returns the first and the last region of the blocks.
    #[inline]
    const fn regions(self) -> (u64, u64) {
        (self.first >> REGION_SHIFT, self.end.wrapping_sub(1) >> REGION_SHIFT)
    }
}

/// The change of a slot; a slot without one has the place [`NOWHERE`].
#[derive(Clone, Copy, Debug)]
struct Change {
    blocks: Blocks,
    /// The bucket in whose chain it is, or [`WIDE`] or [`NOWHERE`].
    place: u32,
    /// The next one in the bucket's chain.
    next: u32,
    /// Number of unanswered earlier changes of some of its blocks.
    awaits: u32,
}

/// Bytes of the heap for each slot: its change, its buckets, and a place in the list of changes that span several regions.
pub(crate) const SLOT_BYTES: usize = size_of::<Change>() + (BUCKETS_A_CHANGE + 1) * size_of::<u32>();

/// The unanswered changes, at most one a slot.
#[derive(Debug)]
pub(crate) struct Changes {
    by_slot: Vec<Change>,
    /// The first slot of each chain. The number of chains is a power of two.
    buckets: Vec<u32>,
    /// Slots of changes that span several regions, in no order.
    wide: Vec<u32>,
    held_back: u32,
}

impl Changes {
    /// Makes an empty table for `slots` slots.
    pub(crate) fn new(slots: u32) -> Self {
        let buckets = (slots as usize).saturating_mul(BUCKETS_A_CHANGE).next_power_of_two();
        let none = Change { blocks: Blocks { first: 0, end: 0 }, place: NOWHERE, next: NOBODY, awaits: 0 };
        Self {
            by_slot: vec![none; slots as usize],
            buckets: vec![NOBODY; buckets],
            wide: Vec::with_capacity(slots as usize),
            held_back: 0,
        }
    }

    /// Adds a change of `blocks` in `slot`. Returns the number of unanswered changes that it waits for.
    #[inline]
    pub(crate) fn begin(&mut self, slot: u32, blocks: Blocks) -> u32 {
        let (from, to) = blocks.regions();
        let place = self.bucket(from);
        if from == to
            && self.wide.is_empty()
            && let Some(head) = self.buckets.get_mut(place as usize).filter(|head| **head == NOBODY)
            && let Some(change) = self.by_slot.get_mut(slot as usize)
        {
            *head = slot;
            *change = Change { blocks, place, next: NOBODY, awaits: 0 };
            return 0;
        }
        self.begin_beside_others(slot, blocks)
    }

    /// Adds a change of any blocks where other changes are under way.
    fn begin_beside_others(&mut self, slot: u32, blocks: Blocks) -> u32 {
        let mut awaits = 0u32;
        // At most one a slot.
        self.each(blocks, |_, _| awaits = awaits.wrapping_add(1));
        let (from, to) = blocks.regions();
        let place = if from == to { self.bucket(from) } else { WIDE };
        let next = match self.buckets.get_mut(place as usize) {
            Some(head) => core::mem::replace(head, slot),
            None => {
                self.wide.push(slot);
                NOBODY
            }
        };
        if let Some(change) = self.by_slot.get_mut(slot as usize) {
            *change = Change { blocks, place, next, awaits };
        }
        if awaits > 0 {
            self.held_back = self.held_back.saturating_add(1);
        }
        awaits
    }

    /// Removes the request in `slot`, which was answered or not begun. Calls `free` with the slot of each request that waits
    /// for no other any more.
    #[inline]
    pub(crate) fn end(&mut self, slot: u32, free: impl FnMut(u32)) {
        let Some(change) = self.by_slot.get_mut(slot as usize) else { return };
        let place = core::mem::replace(&mut change.place, NOWHERE);
        if place == NOWHERE {
            return;
        }
        let blocks = change.blocks;
        match self.buckets.get_mut(place as usize) {
            Some(head) if *head == slot => *head = change.next,
            Some(head) => {
                let (head, next) = (*head, change.next);
                self.unlink(head, slot, next);
            }
            None => self.wide.retain(|other| *other != slot),
        }
        if self.held_back > 0 {
            self.let_go(blocks, free);
        }
    }

    /// Unlinks `slot`, whose successor is `next`, from the chain that starts at `head`. `slot` is not the chain's first.
    #[cold]
    fn unlink(&mut self, head: u32, slot: u32, next: u32) {
        let mut at = head;
        while let Some(change) = self.by_slot.get_mut(at as usize) {
            if change.next == slot {
                change.next = next;
                return;
            }
            at = change.next;
        }
    }

    /// Releases the requests that overlap the answered blocks: they were made later, and waited for this answer.
    #[cold]
    fn let_go(&mut self, blocks: Blocks, mut free: impl FnMut(u32)) {
        let mut freed = 0u32;
        self.each(blocks, |slot, later| {
            later.awaits = later.awaits.saturating_sub(1);
            if later.awaits == 0 {
                freed = freed.saturating_add(1);
                free(slot);
            }
        });
        self.held_back = self.held_back.saturating_sub(freed);
    }

    /// Calls `visit` with each unanswered change of some of the blocks, and its slot.
    #[inline]
    fn each(&mut self, blocks: Blocks, mut visit: impl FnMut(u32, &mut Change)) {
        let (from, to) = blocks.regions();
        // Consecutive regions have different buckets, until all buckets were visited.
        let last = to.min(from.saturating_add(self.buckets.len() as u64).saturating_sub(1));
        let mut region = from;
        loop {
            let mut at = self.buckets.get(self.bucket(region) as usize).map_or(NOBODY, |head| *head);
            while let Some(change) = self.by_slot.get_mut(at as usize) {
                let slot = core::mem::replace(&mut at, change.next);
                if change.blocks.overlap(blocks) {
                    visit(slot, change);
                }
            }
            if region >= last {
                break;
            }
            region = region.wrapping_add(1);
        }
        for slot in &self.wide {
            if let Some(change) = self.by_slot.get_mut(*slot as usize).filter(|change| change.blocks.overlap(blocks)) {
                visit(*slot, change);
            }
        }
    }

    /// Returns the bucket whose chain has a region's changes.
    #[inline]
    fn bucket(&self, region: u64) -> u32 {
        // There are at most eight for each slot's number.
        (region as u32) & (self.buckets.len() as u32).wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blk_api::request::Opcode;
    use proptest::collection;
    use proptest::prelude::*;

    fn entry(opcode: Opcode, lba: u64, blocks: u32) -> Entry {
        Entry { opcode: opcode as u8, lba, blocks, ..Entry::default() }
    }

    /// Begins the change; returns the number of changes it waits for.
    fn begin(changes: &mut Changes, slot: u32, entry: &Entry) -> u32 {
        Blocks::changed_by(entry).map_or(0, |blocks| changes.begin(slot, blocks))
    }

    fn answered(changes: &mut Changes, slot: u32) -> Vec<u32> {
        let mut free = vec![];
        changes.end(slot, |slot| free.push(slot));
        free
    }

    #[test]
    fn only_changes_of_the_same_blocks_wait() {
        let mut changes = Changes::new(8);
        assert_eq!(begin(&mut changes, 0, &entry(Opcode::Write, 10, 4)), 0);
        assert_eq!(begin(&mut changes, 1, &entry(Opcode::Discard, 14, 4)), 0, "behind it");
        assert_eq!(begin(&mut changes, 2, &entry(Opcode::WriteZeroes, 9, 1)), 0, "before it");
        assert_eq!(begin(&mut changes, 3, &entry(Opcode::Read, 8, 16)), 0);
        assert_eq!(begin(&mut changes, 4, &entry(Opcode::Flush, 0, 0)), 0);
        assert_eq!(begin(&mut changes, 5, &entry(Opcode::Discard, 13, 1)), 1);
        assert_eq!(begin(&mut changes, 6, &entry(Opcode::Write, u64::MAX - 1, u32::MAX)), 0);
        assert_eq!(begin(&mut changes, 7, &entry(Opcode::Write, 0, u32::MAX)), 4);
    }

    #[test]
    fn waiting_request_goes_after_all_replies_and_in_order() {
        let mut changes = Changes::new(8);
        let (left, right) = (entry(Opcode::Write, 0, 4), entry(Opcode::Write, 4, 4));
        let (across, late) = (entry(Opcode::Discard, 2, 4), entry(Opcode::Write, 5, 1));
        for (slot, entry, awaits) in [(3, left, 0), (1, right, 0), (2, across, 2), (0, late, 2)] {
            assert_eq!(begin(&mut changes, slot, &entry), awaits);
        }
        assert!(answered(&mut changes, 4).is_empty());
        assert!(answered(&mut changes, 1).is_empty(), "the late one waits for the one across");
        assert_eq!(answered(&mut changes, 3), [2]);
        assert_eq!(answered(&mut changes, 2), [0]);
        assert!(answered(&mut changes, 0).is_empty());
        assert_eq!(begin(&mut changes, 5, &across), 0);
    }

    /// Concurrent changes, some of several regions, and some in regions that share a bucket.
    fn steps() -> impl Strategy<Value = Vec<(u32, u64, u32)>> {
        let lba = (0u64..400, 0u64..3)
            .prop_map(|(lba, round)| lba + ((round * 16 * BUCKETS_A_CHANGE as u64) << REGION_SHIFT));
        let blocks = prop_oneof![6 => 1u32..9, 2 => 1u32..600, 1 => 4000u32..9000];
        collection::vec((0u32..16, lba, blocks), 1..100)
    }

    fn overlap(one: &Entry, other: &Entry) -> bool {
        let end = |entry: &Entry| entry.lba + u64::from(entry.blocks);
        one.lba.max(other.lba) < end(one).min(end(other))
    }

    proptest! {
        #[test]
        fn request_waits_only_for_changes_of_its_blocks(
            steps in steps(),
        ) {
            let mut changes = Changes::new(16);
            // Each with its number in the order of submission.
            let mut unanswered: Vec<Option<(usize, Entry)>> = vec![None; 16];
            let awaits = |unanswered: &[Option<(usize, Entry)>], number: usize, entry: &Entry| {
                let earlier = unanswered.iter().flatten().filter(|(other, _)| *other < number);
                earlier.filter(|(_, other)| overlap(entry, other)).count() as u32
            };
            for (number, (slot, lba, blocks)) in steps.into_iter().enumerate() {
                let place = slot as usize;
                // A change that waits for others is not at the server, and so not answered.
                let is_sent =
                    unanswered[place].is_some_and(|(number, entry)| awaits(&unanswered, number, &entry) == 0);
                if let Some((_, answer)) = unanswered[place].take_if(|_| is_sent) {
                    let waits = |(number, entry): (usize, Entry)| awaits(&unanswered, number, &entry) > 0;
                    let goes = |other: &u32| {
                        let other = unanswered[*other as usize];
                        other.is_some_and(|(_, entry)| overlap(&entry, &answer)) && !other.is_some_and(waits)
                    };
                    let expected: Vec<_> = (0..16).filter(goes).collect();
                    let mut free = answered(&mut changes, slot);
                    free.sort_unstable();
                    prop_assert_eq!(free, expected);
                }
                if unanswered[place].is_none() {
                    let entry = entry(Opcode::Write, lba, blocks);
                    let expected = awaits(&unanswered, number, &entry);
                    prop_assert_eq!(begin(&mut changes, slot, &entry), expected);
                    unanswered[place] = Some((number, entry));
                }
            }
        }
    }
}
