//! Reports to the data checker: operations on blocks, and their results. Left out: the path of an operation to the controller.

use super::Hash;

/// A namespace's promises about its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceRules {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// The content of a discarded block.
    pub discard: Discard,
    /// The effect of a loss of power.
    pub write_cache: WriteCache,
}

/// The content of a discarded block until it is written again. Both are fixed by the first read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    /// Zeroes.
    Zeroes,
    /// The content from before or zeroes, block by block.
    OldOrZeroes,
}

/// The contents that a loss of power takes away. A run in which the power cannot fail is judged alike with either, and faster
/// with [`WriteCache::None`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteCache {
    /// None that can have been read or was answered.
    None,
    /// Contents that no completed flush covers: a flush covers the writes that were answered before it was submitted.
    Volatile,
}

/// The promise of a write's answer about a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// The write survives as the write cache allows.
    Cached,
    /// The write survives the loss (Force Unit Access).
    Forced,
}

/// A run of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockRange {
    /// The first block.
    pub first: u64,
    /// How many blocks.
    pub count: u64,
}

impl BlockRange {
    pub(super) fn blocks(self) -> std::ops::Range<u64> {
        self.first..self.first.saturating_add(self.count)
    }
}

/// A request's operation.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Reads the content of blocks.
    Read(BlockRange),
    /// Writes new content.
    Write {
        /// The blocks.
        range: BlockRange,
        /// A hash for each block, in the order of the range.
        hashes: &'a [Hash],
        /// Force Unit Access or not.
        persistence: Persistence,
    },
    /// Writes zeroes.
    Zeroes {
        /// The blocks.
        range: BlockRange,
        /// Force Unit Access or not.
        persistence: Persistence,
    },
    /// Discards content that is no longer needed.
    Discard(&'a [BlockRange]),
    /// Makes all writes that were answered before survive a loss of power.
    Flush,
}

/// A request's result.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// Success; nothing was read.
    Done,
    /// Success, with the content of each block that was read, in their order.
    Read(&'a [Hash]),
    /// An error. Each block may have been written or not, but none is written any more.
    Failed,
    /// Unknown (a controller reset, a client gone). Each block may have been written or not, and may still be
    /// until [`super::Data::ended`].
    Unknown,
}
