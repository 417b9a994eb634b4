//! Which parts of the namespace have unanswered changes: a question that is answered in constant time, though not exactly.
//!
//! Blocks are counted by regions of eight, and many regions share a counter, so "none" is sure and "perhaps" is not
//! (a counting Bloom filter with one hash). What spans many regions is counted apart, and then nothing is sure.
//! Left out: who changes what, which `changes` looks up where the answer is "perhaps".

use alloc::vec;
use alloc::vec::Vec;

/// Blocks of a region, as a power of two.
const REGION_SHIFT: u32 = 3;
/// Regions that a change is counted in at most.
const MOST_REGIONS: u64 = 32;
/// Counters for each change there can be: with all of them under way, one question in sixteen about a region that nobody
/// changes is answered "perhaps".
const COUNTERS_A_CHANGE: usize = 16;

/// Counts changes by region.
#[derive(Debug)]
pub(crate) struct Regions {
    /// As many as a power of two.
    counters: Vec<u16>,
    /// Changes that span too many regions.
    large: u32,
}

impl Regions {
    /// For so many changes at a time.
    pub(crate) fn new(changes: u32) -> Self {
        let counters = (changes as usize).saturating_mul(COUNTERS_A_CHANGE).next_power_of_two();
        Self { counters: vec![0; counters.max(MOST_REGIONS as usize)], large: 0 }
    }

    /// Whether some of the blocks from `first` to before `end` may be changed.
    #[inline]
    pub(crate) fn may_have(&self, first: u64, end: u64) -> bool {
        self.large > 0
            || regions(first, end)
                .is_none_or(|mut regions| regions.any(|region| self.counters.get(self.place(region)) != Some(&0)))
    }

    /// These blocks are changed.
    #[inline]
    pub(crate) fn add(&mut self, first: u64, end: u64) {
        self.count(first, end, 1);
    }

    /// What was added is not changed any more.
    #[inline]
    pub(crate) fn remove(&mut self, first: u64, end: u64) {
        self.count(first, end, -1);
    }

    #[inline]
    fn count(&mut self, first: u64, end: u64, by: i16) {
        let Some(regions) = regions(first, end) else {
            self.large = self.large.saturating_add_signed(by.into());
            return;
        };
        for region in regions {
            let place = self.place(region);
            if let Some(counter) = self.counters.get_mut(place) {
                *counter = counter.saturating_add_signed(by);
            }
        }
    }

    /// Regions that follow one another have counters of their own.
    #[inline]
    fn place(&self, region: u64) -> usize {
        (region as usize) & self.counters.len().wrapping_sub(1)
    }
}

/// The regions of the blocks from `first` to before `end`, if they are not too many.
#[inline]
fn regions(first: u64, end: u64) -> Option<core::ops::Range<u64>> {
    let (from, to) = (first >> REGION_SHIFT, end.div_ceil(1 << REGION_SHIFT));
    (to.saturating_sub(from) <= MOST_REGIONS).then_some(from..to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_sure_and_what_was_removed_is_forgotten() {
        let mut regions = Regions::new(4);
        regions.add(16, 24);
        regions.add(20, 21);
        assert!(regions.may_have(23, 24) && regions.may_have(8, 17));
        assert!(!regions.may_have(8, 16) && !regions.may_have(24, 32) && !regions.may_have(16, 16));
        regions.remove(16, 24);
        assert!(regions.may_have(22, 23), "perhaps: the region is changed");
        regions.remove(20, 21);
        assert!(!regions.may_have(16, 24));
        assert!(regions.may_have(0, 8 * MOST_REGIONS + 1), "too much to ask about");
    }

    #[test]
    fn while_a_large_change_is_under_way_nothing_is_sure() {
        let mut regions = Regions::new(4);
        let large = 8 * MOST_REGIONS;
        regions.add(0, large);
        assert!(regions.may_have(large - 1, large) && !regions.may_have(large, large + 8), "not too large");
        regions.add(1, large + 1);
        assert!(regions.may_have(large + 64, large + 72));
        regions.remove(1, large + 1);
        assert!(!regions.may_have(large + 64, large + 72));
        regions.add(u64::MAX - 1, u64::MAX);
        assert!(regions.may_have(u64::MAX - 8, u64::MAX));
    }
}
