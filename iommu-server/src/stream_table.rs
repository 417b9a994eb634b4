//! The stream table (sections 3.3.1, 5.1, 5.2): two levels, so that every table is one page.
//!
//! With SPLIT 6 a level 2 table has the 64 streams of eight devices, and the 512 level 1 descriptors cover requester ids
//! of buses 0 to 127. Level 2 tables exist where a stream is attached; all other streams end at an invalid descriptor or
//! entry, abort, and are recorded.

use crate::error::Error;
use crate::pool::{Page, Pool, Role, STREAM_TABLE};
use alloc::vec;
use alloc::vec::Vec;
use platform::Memory;
use smmu_spec::registers::{ALLOCATE, FORMAT_TWO_LEVEL, STRTAB_ADDRESS, StrtabBaseCfg};
use smmu_spec::{L1StreamDescriptor, StreamId, StreamTableEntry};
use zerocopy::IntoBytes;

/// log2 of the streams in a level 2 table.
pub(crate) const SPLIT: u8 = 6;
/// log2 of the streams covered.
pub(crate) const STREAMS_LOG2: u8 = 15;
/// Level 2 tables.
const LEAVES: usize = 512;
/// 64-bit words of an entry.
const ENTRY_WORDS: usize = 8;

/// A level 2 table and the number of valid entries in it.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    page: Page,
    used: u8,
}

/// The stream table as software sees it.
#[derive(Debug)]
pub(crate) struct StreamTable {
    leaves: Vec<Option<Leaf>>,
}

impl StreamTable {
    /// Creates the table in pages of zeroes: every stream aborts.
    pub(crate) fn new() -> Self {
        Self { leaves: vec![None; LEAVES] }
    }

    /// The values of STRTAB_BASE and STRTAB_BASE_CFG.
    pub(crate) fn base<M: Memory>(pool: &Pool<M>) -> Result<(u64, u32), Error> {
        let base = (pool.paddr(STREAM_TABLE)? & STRTAB_ADDRESS) | ALLOCATE;
        let cfg = StrtabBaseCfg::new().with_streams_log2(STREAMS_LOG2).with_split(SPLIT).with_format(FORMAT_TWO_LEVEL);
        Ok((base, cfg.into_bits()))
    }

    /// Whether the table covers a stream.
    pub(crate) fn covers(stream: StreamId) -> bool {
        stream.0 >> STREAMS_LOG2 == 0
    }

    /// Whether making an entry for the stream takes a page.
    pub(crate) fn needs_page(&self, stream: StreamId) -> bool {
        self.leaf(stream).is_none()
    }

    /// Makes a valid entry for the stream, whose entry was invalid.
    pub(crate) fn set<M: Memory>(
        &mut self,
        pool: &mut Pool<M>,
        stream: StreamId,
        entry: &StreamTableEntry,
    ) -> Result<(), Error> {
        let leaf = match self.leaf(stream) {
            Some(leaf) => leaf,
            None => {
                let page = pool.take(Role::Streams)?;
                pool.write(
                    STREAM_TABLE,
                    index(stream),
                    L1StreamDescriptor::table(pool.paddr(page)?, SPLIT).into_bits(),
                )?;
                Leaf { page, used: 0 }
            }
        };
        self.put(stream, Some(Leaf { used: leaf.used.saturating_add(1), ..leaf }));
        // The word with the valid bit is last.
        for (word, bytes) in entry.as_bytes().chunks_exact(size_of::<u64>()).enumerate().skip(1) {
            let value = bytes.try_into().map(u64::from_le_bytes).map_err(|_| Error::OutOfBounds)?;
            pool.write(leaf.page, at(stream, word), value)?;
        }
        pool.fence();
        pool.write(leaf.page, at(stream, 0), entry.word0.into_bits())
    }

    /// Makes the stream's entry invalid.
    pub(crate) fn clear<M: Memory>(&mut self, pool: &Pool<M>, stream: StreamId) -> Result<(), Error> {
        let Some(leaf) = self.leaf(stream) else { return Ok(()) };
        pool.write(leaf.page, at(stream, 0), 0)?;
        pool.fence();
        self.put(stream, Some(Leaf { used: leaf.used.saturating_sub(1), ..leaf }));
        Ok(())
    }

    /// Removes the level 2 table of the stream if it has no valid entry, and puts its page into limbo. Returns the table's first
    /// stream, if so.
    pub(crate) fn prune<M: Memory>(&mut self, pool: &mut Pool<M>, stream: StreamId) -> Result<Option<StreamId>, Error> {
        let Some(leaf) = self.leaf(stream).filter(|leaf| leaf.used == 0) else { return Ok(None) };
        pool.write(STREAM_TABLE, index(stream), L1StreamDescriptor::new().into_bits())?;
        pool.fence();
        pool.set_role(leaf.page, Role::Limbo);
        self.put(stream, None);
        Ok(Some(StreamId(stream.0 >> SPLIT << SPLIT)))
    }

    fn leaf(&self, stream: StreamId) -> Option<Leaf> {
        self.leaves.get(index(stream)).copied().flatten()
    }

    fn put(&mut self, stream: StreamId, new: Option<Leaf>) {
        if let Some(leaf) = self.leaves.get_mut(index(stream)) {
            *leaf = new;
        }
    }
}

/// The place of the stream in the level 1 table.
const fn index(stream: StreamId) -> usize {
    (stream.0 >> SPLIT) as usize
}

/// The place of a word of the stream's entry in the level 2 table.
const fn at(stream: StreamId, word: usize) -> usize {
    let entry = (stream.0 & ((1u32 << SPLIT).wrapping_sub(1))) as usize;
    entry.saturating_mul(ENTRY_WORDS).saturating_add(word)
}
