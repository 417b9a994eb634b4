//! Extents: the blocks of a namespace a session may touch, in the order of its own numbering.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Consecutive blocks of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Extent {
    /// First block.
    pub first: u64,
    /// Blocks, at least 1.
    pub blocks: u64,
    /// Whether the blocks may be written, by a session that may write at all.
    #[serde(default = "default_writable")]
    pub writable: bool,
}

const fn default_writable() -> bool {
    true
}

/// Consecutive blocks of a namespace, without rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// First block.
    pub first: u64,
    /// Blocks, at least 1.
    pub blocks: u64,
}

impl Extent {
    /// `blocks` blocks from `first` on, to read and to write.
    #[must_use]
    pub const fn new(first: u64, blocks: u64) -> Self {
        Self { first, blocks, writable: true }
    }

    /// The number after the last block, unless that is beyond all numbers.
    #[must_use]
    pub const fn end(self) -> Option<u64> {
        self.first.checked_add(self.blocks)
    }

    /// Whether both contain the same block.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let (Some(end), Some(other_end)) = (self.end(), other.end()) else { return true };
        self.blocks != 0 && other.blocks != 0 && self.first < other_end && other.first < end
    }
}

/// A session's extents, numbered.
///
/// The session numbers its blocks from 0; block n lies in the extent whose numbers contain n.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExtentMap {
    /// (first number of the session, extent), ascending and without gaps.
    runs: Vec<(u64, Extent)>,
    blocks: u64,
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

    /// The extents with the number of their first blocks, ascending.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = (u64, Extent)> {
        self.runs.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> ExtentMap {
        ExtentMap::new(&[Extent::new(100, 10), Extent::new(5, 3)]).unwrap()
    }

    #[test]
    fn numbers_run_through_the_extents_in_their_order() {
        let [first, second] = [Extent::new(100, 10), Extent::new(5, 3)];
        assert!(map().runs().eq([(0, first), (10, second)]));
        assert_eq!((map().blocks(), map().namespace_end()), (13, 110));
    }

    #[test]
    fn empty_and_overflowing_extents_are_no_map() {
        assert_eq!(ExtentMap::new(&[Extent::new(0, 0)]), None);
        assert_eq!(ExtentMap::new(&[Extent::new(u64::MAX, 1)]), None);
        assert_eq!(ExtentMap::new(&[Extent::new(1, u64::MAX)]), None);
    }

    #[test]
    fn touching_extents_do_not_overlap() {
        let a = Extent::new(0, 8);
        assert!(!a.overlaps(Extent::new(8, 8)));
        assert!(a.overlaps(Extent::new(7, 1)));
        assert!(Extent::new(2, 2).overlaps(a));
    }
}
