//! Contents of a namespace: a base that is only read, and above it everything written since.
//!
//! Sparse: a chunk of 4 KiB takes memory once it is written, and none before. Deallocated chunks read as zeroes even
//! where the base has data. Writes that a power loss may still undo are also in a log, which can restore the previous
//! data.

use std::collections::BTreeMap;
use std::ops::Range;

use sim_page::{Bytes, PAGE_BYTES, SharedPage};

/// Bytes of a chunk.
pub(crate) const CHUNK: usize = PAGE_BYTES;
const CHUNKS_IN_LEAF: usize = 512;
/// Chunks of the base that are remembered, at most; they take 32 MiB.
const REMEMBERED: usize = 8192;

/// Contents of a namespace before its first write.
pub trait Base: Send + Sync {
    /// Fills `bytes` with the data at `offset`, in bytes from the start of the namespace.
    fn read(&self, offset: u64, bytes: &mut [u8]);

    /// Whether the base holds zeroes and nothing else, so that deallocating costs no memory.
    fn is_zeroes(&self) -> bool {
        false
    }
}

/// A base of zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Zeroes;

impl Base for Zeroes {
    fn read(&self, _: u64, bytes: &mut [u8]) {
        bytes.fill(0);
    }

    fn is_zeroes(&self) -> bool {
        true
    }
}

impl<F: Fn(u64, &mut [u8]) + Send + Sync> Base for F {
    fn read(&self, offset: u64, bytes: &mut [u8]) {
        self(offset, bytes);
    }
}

/// The state of a chunk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Chunk {
    /// As the base has it.
    #[default]
    Base,
    /// Deallocated: zeroes.
    Zeroes,
    /// Written. Shared with the memory that it came from or went to, until either is written.
    Data(SharedPage),
}

impl Chunk {
    /// The data of a written chunk; empty for any other.
    pub(crate) fn written(&self) -> &[u8] {
        match self {
            Self::Data(data) => data.bytes(),
            Self::Base | Self::Zeroes => &[],
        }
    }
}

type Leaf = Box<[Chunk; CHUNKS_IN_LEAF]>;

/// Sparse contents.
pub(crate) struct Store {
    base: Box<dyn Base>,
    /// By the chunk's number divided by [`CHUNKS_IN_LEAF`].
    leaves: BTreeMap<u64, Leaf>,
    /// Content of a chunk of zeroes.
    zeroes: SharedPage,
    /// Chunks of the base that were read, with their numbers. Each has one place, its number modulo [`REMEMBERED`].
    remembered: Vec<Option<(u64, SharedPage)>>,
}

impl Store {
    pub(crate) fn new(base: Box<dyn Base>) -> Self {
        Self { base, leaves: BTreeMap::new(), zeroes: SharedPage::zeroes(), remembered: Vec::new() }
    }

    /// Erases everything, the base too: all zeroes.
    pub(crate) fn erase(&mut self) {
        *self = Self::new(Box::new(Zeroes));
    }

    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) {
        for (piece, from, range) in pieces(offset, bytes.len()) {
            let Some(target) = bytes.get_mut(range) else { return };
            match self.chunk(piece) {
                Some(Chunk::Data(data)) => target.copy_from_slice(&data.bytes()[from..from + target.len()]),
                Some(Chunk::Zeroes) => target.fill(0),
                Some(Chunk::Base) | None => self.base.read(piece * CHUNK as u64 + from as u64, target),
            }
        }
    }

    /// Returns the content of chunk `number`.
    pub(crate) fn share(&mut self, number: u64) -> SharedPage {
        match self.chunk(number) {
            Some(Chunk::Data(data)) => data.clone(),
            Some(Chunk::Zeroes) => self.zeroes.clone(),
            Some(Chunk::Base) | None if self.base.is_zeroes() => self.zeroes.clone(),
            Some(Chunk::Base) | None => self.base_page(number),
        }
    }

    fn base_page(&mut self, number: u64) -> SharedPage {
        if self.remembered.is_empty() {
            self.remembered.resize(REMEMBERED, None);
        }
        let place = &mut self.remembered[(number % REMEMBERED as u64) as usize];
        match place {
            Some((of, page)) if *of == number => page.clone(),
            _ => {
                let mut page = SharedPage::zeroes();
                self.base.read(number * CHUNK as u64, page.bytes_mut());
                *place = Some((number, page.clone()));
                page
            }
        }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (piece, from, range) in pieces(offset, bytes.len()) {
            let Some(source) = bytes.get(range) else { return };
            self.data(piece)[from..from + source.len()].copy_from_slice(source);
        }
    }

    /// Writes `bytes` and replaces them with the previous content.
    pub(crate) fn swap(&mut self, offset: u64, bytes: &mut [u8]) {
        for (piece, from, range) in pieces(offset, bytes.len()) {
            let Some(bytes) = bytes.get_mut(range) else { return };
            swap_bytes(&mut self.data(piece)[from..from + bytes.len()], bytes);
        }
    }

    /// Makes a range read as zeroes and returns the chunks that changed, as they were.
    pub(crate) fn zero(&mut self, range: Range<u64>) -> Vec<(u64, Chunk)> {
        let mut before = Vec::new();
        let mut offset = range.start;
        while let Some(part) = self.first_not_zero(offset..range.end) {
            let number = part.start / CHUNK as u64;
            let from = (part.start % CHUNK as u64) as usize;
            let until = from + (part.end - part.start) as usize;
            offset = part.end;
            if until - from == CHUNK {
                before.push((number, self.replace(number, Chunk::Zeroes)));
            } else {
                before.push((number, self.place(number).clone()));
                self.data(number)[from..until].fill(0);
            }
        }
        before
    }

    /// Returns the part of a range that is in the first chunk there which may hold something other than zeroes.
    pub(crate) fn first_not_zero(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut number = range.start / CHUNK as u64;
        let start = loop {
            let start = range.start.max(number * CHUNK as u64);
            if start >= range.end {
                return None;
            }
            match self.leaves.get(&(number / CHUNKS_IN_LEAF as u64)) {
                None if self.base.is_zeroes() => number = (number / CHUNKS_IN_LEAF as u64 + 1) * CHUNKS_IN_LEAF as u64,
                Some(leaf) if leaf[(number % CHUNKS_IN_LEAF as u64) as usize] == Chunk::Zeroes => number += 1,
                _ => break start,
            }
        };
        Some(start..range.end.min((number + 1) * CHUNK as u64))
    }

    /// Replaces a chunk and returns the previous one.
    pub(crate) fn replace(&mut self, number: u64, chunk: Chunk) -> Chunk {
        std::mem::replace(self.place(number), chunk)
    }

    /// Returns the ranges that differ from the base, ascending, adjacent chunks together. In bytes.
    pub(crate) fn written(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut chunks = self.leaves.iter().flat_map(|(leaf, chunks)| {
            let first = leaf * CHUNKS_IN_LEAF as u64;
            (first..).zip(chunks.iter()).filter(|(_, chunk)| **chunk != Chunk::Base).map(|(number, _)| number)
        });
        let mut next = chunks.next();
        std::iter::from_fn(move || {
            let first = next?;
            let mut end = first + 1;
            next = chunks.next();
            while next == Some(end) {
                end += 1;
                next = chunks.next();
            }
            Some(first * CHUNK as u64..end * CHUNK as u64)
        })
    }

    fn chunk(&self, number: u64) -> Option<&Chunk> {
        self.leaves.get(&(number / CHUNKS_IN_LEAF as u64))?.get((number % CHUNKS_IN_LEAF as u64) as usize)
    }

    fn place(&mut self, number: u64) -> &mut Chunk {
        let leaf = self
            .leaves
            .entry(number / CHUNKS_IN_LEAF as u64)
            .or_insert_with(|| Box::new(std::array::from_fn(|_| Chunk::Base)));
        &mut leaf[(number % CHUNKS_IN_LEAF as u64) as usize]
    }

    /// Returns the chunk's own data; creates them from its content if it has none yet.
    fn data(&mut self, number: u64) -> &mut Bytes {
        if !matches!(self.chunk(number), Some(Chunk::Data(_))) {
            let page = self.share(number);
            self.replace(number, Chunk::Data(page));
        }
        match self.place(number) {
            Chunk::Data(data) => data.bytes_mut(),
            Chunk::Base | Chunk::Zeroes => unreachable!("made data just above"),
        }
    }
}

/// Swaps two slices of the same length. It copies, which is several times as fast as the swap of bytes in core.
fn swap_bytes(one: &mut [u8], other: &mut [u8]) {
    let mut between = [0; 1024];
    for (one, other) in one.chunks_mut(1024).zip(other.chunks_mut(1024)) {
        let between = &mut between[..one.len()];
        between.copy_from_slice(one);
        one.copy_from_slice(other);
        other.copy_from_slice(between);
    }
}

/// Cuts bytes at chunks: chunk number, offset in it, range of the bytes.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let from = (at % CHUNK as u64) as usize;
        let take = (CHUNK - from).min(len - done);
        let range = done..done + take;
        done += take;
        Some((at / CHUNK as u64, from, range))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base(offset: u64, bytes: &mut [u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            *byte = (at / 100) as u8;
        }
    }

    const BYTES: usize = 40_000;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u8),
        Swap(u8),
        Zero,
    }

    proptest! {
        #[test]
        fn the_store_reads_as_plain_memory_would(
            steps in proptest::collection::vec((0..3_usize, any::<u8>(), 0..BYTES, 1..9_000_usize), 1..20),
        ) {
            let mut store = Store::new(Box::new(base));
            let mut plain = vec![0; BYTES];
            base(0, &mut plain);
            for (kind, value, start, len) in steps {
                let end = (start + len).min(BYTES);
                let step = [Step::Write(value), Step::Swap(value), Step::Zero][kind].clone();
                match step {
                    Step::Write(value) => {
                        store.write(start as u64, &vec![value; end - start]);
                        plain[start..end].fill(value);
                    }
                    Step::Swap(value) => {
                        let mut bytes = vec![value; end - start];
                        store.swap(start as u64, &mut bytes);
                        prop_assert_eq!(&bytes[..], &plain[start..end]);
                        plain[start..end].fill(value);
                    }
                    Step::Zero => {
                        store.zero(start as u64..end as u64);
                        plain[start..end].fill(0);
                    }
                }
            }
            let mut all = vec![0; BYTES];
            store.read(0, &mut all);
            prop_assert!(all == plain);
            let mut untouched = plain;
            for range in store.written() {
                let end = (range.end as usize).min(BYTES);
                base(range.start, &mut untouched[range.start as usize..end]);
            }
            base(0, &mut all);
            prop_assert!(untouched == all, "what is not listed as written is as the base has it");
        }
    }

    #[test]
    fn memory_is_taken_only_where_something_was_written() {
        let mut store = Store::new(Box::new(Zeroes));
        store.write(1 << 50, &[1]);
        store.zero(0..1 << 49);
        let data = store.leaves.values().flat_map(|leaf| leaf.iter()).filter(|chunk| matches!(chunk, Chunk::Data(_)));
        assert_eq!((data.count(), store.leaves.len()), (1, 1));
        let ranges: Vec<_> = store.written().collect();
        assert_eq!(ranges, std::iter::once(1 << 50..(1 << 50) + 4096).collect::<Vec<_>>());
    }
}
