//! Requests under way that change blocks: which of them waits for which.
//!
//! A change of blocks that an unanswered one changes as well is held back until that is answered. So of what is at the
//! server, no two change the same blocks, and each can be made again: nothing later was let past it. Whoever waits does
//! so for all that were asked earlier, those that wait themselves among them: nobody is overtaken, so nobody starves,
//! and the first of them waits for nobody.
//!
//! Neighbours: `slots` has the requests, and a place for each. Left out: reads, which may bring whatever their blocks
//! hold while changes are under way, and flushes.

mod regions;

use alloc::vec;
use alloc::vec::Vec;
use blk_api::request::Entry;
use regions::Regions;

/// An unanswered change.
#[derive(Clone, Copy, Debug)]
struct Change {
    first: u64,
    /// Behind the last block.
    end: u64,
    slot: u32,
    /// Earlier changes of some of its blocks that are not answered.
    awaits: u32,
}

impl Change {
    const fn overlaps(&self, first: u64, end: u64) -> bool {
        self.first < end && first < self.end
    }
}

/// The unanswered changes, at most one a slot, in no order.
#[derive(Debug)]
pub(crate) struct Changes {
    unanswered: Vec<Change>,
    /// Where in it the change of each slot stands, if the slot has one.
    places: Vec<u32>,
    /// Counts of them by region: what nothing is to be waited for mostly needs no more.
    regions: Regions,
    held_back: u32,
}

impl Changes {
    /// None so far, of `slots` slots.
    pub(crate) fn new(slots: u32) -> Self {
        let (unanswered, places) = (Vec::with_capacity(slots as usize), vec![0; slots as usize]);
        Self { unanswered, places, regions: Regions::new(slots), held_back: 0 }
    }

    /// Unanswered changes that what `entry` asks would have to wait for.
    pub(crate) fn before(&self, entry: &Entry) -> u32 {
        if !entry.changes_blocks() {
            return 0;
        }
        let (first, end) = (entry.lba, entry.lba.saturating_add(u64::from(entry.blocks)));
        if !self.regions.may_have(first, end) {
            return 0;
        }
        // At most one a slot.
        self.unanswered.iter().filter(|change| change.overlaps(first, end)).count() as u32
    }

    /// What `entry` asks is under way in `slot`, and waits for `awaits` changes, as [`Changes::before`] said.
    pub(crate) fn begin(&mut self, slot: u32, entry: &Entry, awaits: u32) {
        let Some(place) = self.places.get_mut(slot as usize).filter(|_| entry.changes_blocks()) else { return };
        *place = self.unanswered.len() as u32;
        let end = entry.lba.saturating_add(u64::from(entry.blocks));
        self.regions.add(entry.lba, end);
        self.unanswered.push(Change { first: entry.lba, end, slot, awaits });
        self.held_back = self.held_back.saturating_add(u32::from(awaits > 0));
    }

    /// What `entry` asked in `slot` is answered. `free` is told the slots of those that wait for nobody any more.
    pub(crate) fn answered(&mut self, slot: u32, entry: &Entry, free: impl FnMut(u32)) {
        let Some(&place) = self.places.get(slot as usize).filter(|_| entry.changes_blocks()) else { return };
        if self.unanswered.get(place as usize).is_none_or(|change| change.slot != slot) {
            return;
        }
        let change = self.unanswered.swap_remove(place as usize);
        self.regions.remove(change.first, change.end);
        if let Some(moved) = self.unanswered.get(place as usize)
            && let Some(moved_place) = self.places.get_mut(moved.slot as usize)
        {
            *moved_place = place;
        }
        if self.held_back > 0 {
            self.let_go(&change, free);
        }
    }

    /// Whoever overlaps `answered` was asked later, and waited for it.
    fn let_go(&mut self, answered: &Change, mut free: impl FnMut(u32)) {
        for later in self.unanswered.iter_mut().filter(|later| later.overlaps(answered.first, answered.end)) {
            later.awaits = later.awaits.saturating_sub(1);
            if later.awaits == 0 {
                self.held_back = self.held_back.saturating_sub(1);
                free(later.slot);
            }
        }
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

    /// Begins it; how many it waits for.
    fn begin(changes: &mut Changes, slot: u32, entry: &Entry) -> u32 {
        let awaits = changes.before(entry);
        changes.begin(slot, entry, awaits);
        awaits
    }

    fn answered(changes: &mut Changes, slot: u32, entry: &Entry) -> Vec<u32> {
        let mut free = vec![];
        changes.answered(slot, entry, |slot| free.push(slot));
        free
    }

    #[test]
    fn changes_of_the_same_blocks_wait_for_each_other_and_nothing_else_waits() {
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
    fn whoever_waits_goes_when_all_that_it_waits_for_are_answered_and_is_not_overtaken() {
        let mut changes = Changes::new(8);
        let (left, right) = (entry(Opcode::Write, 0, 4), entry(Opcode::Write, 4, 4));
        let (across, late) = (entry(Opcode::Discard, 2, 4), entry(Opcode::Write, 5, 1));
        for (slot, entry, awaits) in [(3, left, 0), (1, right, 0), (2, across, 2), (0, late, 2)] {
            assert_eq!(begin(&mut changes, slot, &entry), awaits);
        }
        assert!(answered(&mut changes, 4, &entry(Opcode::Read, 2, 4)).is_empty());
        assert!(answered(&mut changes, 1, &right).is_empty(), "the late one waits for the one across");
        assert_eq!(answered(&mut changes, 3, &left), [2]);
        assert_eq!(answered(&mut changes, 2, &across), [0]);
        assert!(answered(&mut changes, 0, &late).is_empty());
        assert_eq!(begin(&mut changes, 5, &across), 0);
    }

    proptest! {
        #[test]
        fn whoever_comes_waits_for_just_those_that_change_some_of_its_blocks(
            steps in collection::vec((0u32..16, 0u64..400, prop_oneof![3 => 1u32..9, 1 => 1u32..600]), 1..100),
        ) {
            let mut changes = Changes::new(16);
            let mut unanswered: Vec<Option<Entry>> = vec![None; 16];
            for (slot, lba, blocks) in steps {
                let place = slot as usize;
                // One that waits for others is not at the server, and so not answered.
                let is_sent = changes.unanswered.iter().any(|change| change.slot == slot && change.awaits == 0);
                if let Some(entry) = unanswered[place].take_if(|_| is_sent) {
                    answered(&mut changes, slot, &entry);
                }
                if unanswered[place].is_none() {
                    let entry = entry(Opcode::Write, lba, blocks);
                    let overlaps = |other: &&Entry| {
                        lba.max(other.lba) < (lba + u64::from(blocks)).min(other.lba + u64::from(other.blocks))
                    };
                    let expected = unanswered.iter().flatten().filter(overlaps).count() as u32;
                    prop_assert_eq!(begin(&mut changes, slot, &entry), expected);
                    unanswered[place] = Some(entry);
                }
            }
        }
    }
}
