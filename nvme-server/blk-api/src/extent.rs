//! Extents: the blocks of a namespace a session may touch, in the order of its own numbering.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Consecutive blocks of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extent {
    /// First block.
    pub first: u64,
    /// Blocks, at least 1.
    pub blocks: u64,
}

impl Extent {
    /// One past the last block, unless that is beyond all numbers.
    #[must_use]
    pub const fn end(self) -> Option<u64> {
        self.first.checked_add(self.blocks)
    }

    /// Whether both contain some block.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let (Some(end), Some(other_end)) = (self.end(), other.end()) else { return true };
        self.blocks != 0 && other.blocks != 0 && self.first < other_end && other.first < end
    }
}

/// A session's extents, ready for lookup.
///
/// The session numbers its blocks from 0; block n lies in the extent whose numbers contain n.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExtentMap {
    /// (first number of the session, extent), ascending and without gaps.
    runs: Vec<(u64, Extent)>,
    blocks: u64,
}

/// Where a session's blocks lie on the namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Located {
    /// First block on the namespace.
    pub lba: u64,
    /// Blocks from there on that lie in the same extent, at most as many as asked.
    pub blocks: u64,
}

impl ExtentMap {
    /// The map of `extents`; `None` when one is empty or their numbers overflow.
    #[must_use]
    pub fn new(extents: &[Extent]) -> Option<Self> {
        let mut map = Self::default();
        for extent in extents {
            extent.end()?;
            (extent.blocks > 0).then_some(())?;
            map.runs.push((map.blocks, *extent));
            map.blocks = map.blocks.checked_add(extent.blocks)?;
        }
        Some(map)
    }

    /// Blocks of the session.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The highest block of the namespace that is touched, plus one.
    #[must_use]
    pub fn namespace_end(&self) -> u64 {
        self.runs.iter().filter_map(|(_, extent)| extent.end()).max().unwrap_or(0)
    }

    /// Whether `blocks` blocks from the session's number `first` on all lie inside; none do not.
    #[must_use]
    pub const fn contains(&self, first: u64, blocks: u64) -> bool {
        match first.checked_add(blocks) {
            Some(end) => blocks > 0 && end <= self.blocks,
            None => false,
        }
    }

    /// Where number `first` lies, and how many of the `blocks` from there on are in the same extent.
    #[must_use]
    #[inline]
    pub fn locate(&self, first: u64, blocks: u64) -> Option<Located> {
        let (start, extent) = match self.runs.as_slice() {
            [only] => *only,
            runs => *runs.get(runs.partition_point(|(start, _)| *start <= first).checked_sub(1)?)?,
        };
        let into = first.checked_sub(start)?;
        let left = extent.blocks.checked_sub(into).filter(|left| *left > 0)?;
        Some(Located { lba: extent.first.checked_add(into)?, blocks: blocks.min(left) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> ExtentMap {
        ExtentMap::new(&[Extent { first: 100, blocks: 10 }, Extent { first: 5, blocks: 3 }]).unwrap()
    }

    #[test]
    fn numbers_run_through_the_extents_in_their_order() {
        assert_eq!(map().locate(0, 4), Some(Located { lba: 100, blocks: 4 }));
        assert_eq!(map().locate(9, 4), Some(Located { lba: 109, blocks: 1 }));
        assert_eq!(map().locate(10, 4), Some(Located { lba: 5, blocks: 3 }));
        assert_eq!(map().locate(13, 1), None);
    }

    #[test]
    fn ranges_at_the_edges_of_arithmetic_are_outside() {
        let map = map();
        assert!(map.contains(0, 13));
        assert!(!map.contains(0, 14));
        assert!(!map.contains(0, 0));
        assert!(!map.contains(13, 0));
        assert!(!map.contains(u64::MAX, 1));
        assert!(!map.contains(1, u64::MAX));
    }

    #[test]
    fn empty_and_overflowing_extents_are_no_map() {
        assert_eq!(ExtentMap::new(&[Extent { first: 0, blocks: 0 }]), None);
        assert_eq!(ExtentMap::new(&[Extent { first: u64::MAX, blocks: 1 }]), None);
        assert_eq!(ExtentMap::new(&[Extent { first: 1, blocks: u64::MAX }]), None);
    }

    #[test]
    fn touching_extents_do_not_overlap() {
        let a = Extent { first: 0, blocks: 8 };
        assert!(!a.overlaps(Extent { first: 8, blocks: 8 }));
        assert!(a.overlaps(Extent { first: 7, blocks: 1 }));
        assert!(Extent { first: 2, blocks: 2 }.overlaps(a));
    }
}
