//! What is reported to the data checker: operations on blocks, and how they ended. Left out: how they travelled.

use super::Hash;

/// What a namespace promises about its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceRules {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// What a discarded block holds.
    pub discard: Discard,
    /// What a loss of power takes away.
    pub write_cache: WriteCache,
}

/// What a discarded block holds until it is written again. Both are fixed by the first read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discard {
    /// Zeroes.
    Zeroes,
    /// What it held before, or zeroes, block by block.
    OldOrZeroes,
}

/// What a loss of power takes away. A run in which the power cannot fail is judged alike with either, and faster with
/// [`WriteCache::None`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteCache {
    /// Nothing that can have been read or was answered.
    None,
    /// What no completed flush covers: a flush covers the writes that were answered before it was submitted.
    Volatile,
}

/// What the answer to a write promises about a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// As the write cache has it.
    Cached,
    /// It outlasts the loss (Force Unit Access).
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

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// The content of blocks.
    Read(BlockRange),
    /// New content.
    Write {
        /// Where.
        range: BlockRange,
        /// Of each block, in the order of the range.
        hashes: &'a [Hash],
        /// Force Unit Access or not.
        persistence: Persistence,
    },
    /// Zeroes as the new content.
    Zeroes {
        /// Where.
        range: BlockRange,
        /// Force Unit Access or not.
        persistence: Persistence,
    },
    /// The content is no longer needed.
    Discard(&'a [BlockRange]),
    /// What was answered before shall outlast a loss of power.
    Flush,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// With success; nothing was read.
    Done,
    /// With success; the content of each block that was asked for, in their order.
    Read(&'a [Hash]),
    /// With an error. Each block may have been written or not, but none is written any more.
    Failed,
    /// Nobody knows (a controller reset, a client gone). Each block may have been written or not, and may still be
    /// until [`super::Data::ended`].
    Unknown,
}
