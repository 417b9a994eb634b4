//! Writes that a power loss may still undo, and the data that they replaced.
//!
//! The store always holds the newest content. For each write that is not durable yet the log keeps the old bytes, in
//! order of writing. A power loss undoes all of them, newest first, then repeats the durable ones and a selection of
//! the others. Each block ends with the content of some write that was not flushed away, or with its last durable
//! content.
//!
//! A write larger than the atomic unit is kept or lost unit by unit; one that is not larger, as a whole (base
//! specification 1.4, section 6.4, AWUPF).

use std::collections::VecDeque;
use std::ops::Range;

use sim_page::SharedPage;

use crate::generator::Generator;
use crate::store::{CHUNK, Chunk, Store};

/// Bytes that a zeroed range takes in the cache and on the media, whatever its length.
pub const NOTED_BYTES: u64 = 512;

/// Lists of chunks kept for later writes.
const SPARE: usize = 64;

/// The data that a write replaced.
#[derive(Debug)]
enum Old {
    /// By whole chunks, from this one on.
    Chunks {
        first: u64,
        chunks: Vec<Chunk>,
    },
    Bytes {
        offset: u64,
        bytes: Vec<u8>,
    },
    Zeroed {
        range: Range<u64>,
        chunks: Vec<(u64, Chunk)>,
        atomic: bool,
    },
}

/// The data of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    /// Any bytes.
    Bytes(&'a [u8]),
    /// Whole chunks, for an offset at which one begins.
    Pages(&'a [SharedPage]),
}

impl Payload<'_> {
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Pages(pages) => (pages.len() * CHUNK) as u64,
        }
    }
}

/// The times at which a write is made and safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    /// Now.
    pub(crate) written_ns: u64,
    /// When the media have it.
    pub(crate) programmed_ns: u64,
    /// Time from which a power loss cannot undo it; not before the media have it.
    pub(crate) durable_ns: u64,
}

/// A write in the log.
#[derive(Debug)]
struct Entry {
    old: Old,
    times: Times,
}

impl Entry {
    fn bytes(&self) -> u64 {
        match &self.old {
            Old::Chunks { chunks, .. } => (chunks.len() * CHUNK) as u64,
            Old::Bytes { bytes, .. } => bytes.len() as u64,
            Old::Zeroed { .. } => NOTED_BYTES,
        }
    }

    /// Makes it leave the cache as soon as the media have it.
    fn hurry(&mut self, now_ns: u64) -> u64 {
        self.times.durable_ns = self.times.durable_ns.min(self.times.programmed_ns.max(now_ns));
        self.times.durable_ns
    }
}

/// The log of one namespace.
#[derive(Debug, Default)]
pub(crate) struct WriteLog {
    entries: VecDeque<Entry>,
    /// Bytes of the cache that the entries take.
    bytes: u64,
    spare: Vec<Vec<Chunk>>,
}

impl WriteLog {
    /// Writes into the store and keeps the previous content.
    pub(crate) fn write(&mut self, store: &mut Store, offset: u64, payload: Payload<'_>, times: Times) {
        self.settle(times.written_ns);
        let old = match payload {
            Payload::Pages(pages) => {
                let (first, mut chunks) = (offset / CHUNK as u64, self.spare.pop().unwrap_or_default());
                let replace = |(number, page): (u64, &SharedPage)| store.replace(number, Chunk::Data(page.clone()));
                chunks.extend((first..).zip(pages).map(replace));
                Old::Chunks { first, chunks }
            }
            Payload::Bytes(bytes) => {
                let mut bytes = bytes.to_vec();
                store.swap(offset, &mut bytes);
                Old::Bytes { offset, bytes }
            }
        };
        self.bytes += payload.bytes();
        self.entries.push_back(Entry { old, times });
    }

    /// Zeroes a range of the store and keeps the previous content. `unit` is the atomic unit in bytes.
    pub(crate) fn zero(&mut self, store: &mut Store, range: Range<u64>, unit: u64, times: Times) {
        self.settle(times.written_ns);
        let atomic = range.end - range.start <= unit;
        let chunks = store.zero(range.clone());
        self.bytes += NOTED_BYTES;
        self.entries.push_back(Entry { old: Old::Zeroed { range, chunks, atomic }, times });
    }

    /// Makes everything written so far durable as soon as the media have it. Returns when they have all of it.
    pub(crate) fn flush(&mut self, now_ns: u64) -> u64 {
        self.settle(now_ns);
        self.entries.iter_mut().map(|entry| entry.hurry(now_ns)).fold(now_ns, u64::max)
    }

    /// Returns when the cache of `capacity` bytes has room for `bytes` more: the oldest data leave it first.
    pub(crate) fn room_ns(&mut self, bytes: u64, capacity: u64, now_ns: u64) -> u64 {
        self.settle(now_ns);
        let mut excess = (self.bytes + bytes).saturating_sub(capacity);
        let mut ready_ns = now_ns;
        for entry in &mut self.entries {
            if excess == 0 {
                break;
            }
            ready_ns = ready_ns.max(entry.hurry(now_ns));
            excess = excess.saturating_sub(entry.bytes());
        }
        ready_ns
    }

    /// Loses power at `now_ns`: puts the surviving data into the store. `unit` is the atomic unit in bytes.
    pub(crate) fn power_loss(&mut self, store: &mut Store, unit: u64, now_ns: u64, generator: &mut Generator) {
        for entry in self.entries.iter_mut().rev() {
            entry.old.undo(store);
        }
        // The surviving part differs from loss to loss, so that nothing, everything and all between occur.
        let kept = (generator.below(5) * 250_000) as u32;
        for entry in self.entries.drain(..) {
            let durable = entry.times.durable_ns <= now_ns;
            entry.old.redo(store, unit, || durable || generator.chance(kept));
        }
        self.bytes = 0;
    }

    /// Forgets everything: the content of the store is durable.
    pub(crate) fn clear(&mut self) {
        self.settle(u64::MAX);
    }

    /// Forgets the oldest entries, as far as they are durable.
    fn settle(&mut self, now_ns: u64) {
        while self.entries.front().is_some_and(|entry| entry.times.durable_ns <= now_ns) {
            let Some(entry) = self.entries.pop_front() else { return };
            self.bytes -= entry.bytes();
            if let Old::Chunks { mut chunks, .. } = entry.old
                && self.spare.len() < SPARE
            {
                chunks.clear();
                self.spare.push(chunks);
            }
        }
    }
}

impl Old {
    /// Puts the old content into the store. An entry of data keeps the newer content instead.
    fn undo(&mut self, store: &mut Store) {
        match self {
            Self::Chunks { first, chunks } => {
                for (number, chunk) in (*first..).zip(chunks) {
                    *chunk = store.replace(number, std::mem::take(chunk));
                }
            }
            Self::Bytes { offset, bytes } => store.swap(*offset, bytes),
            Self::Zeroed { chunks, .. } => {
                for (number, chunk) in chunks {
                    store.replace(*number, std::mem::take(chunk));
                }
            }
        }
    }

    /// Puts the newer content into the store again after an undo, unit by unit, where `kept` returns true.
    fn redo(self, store: &mut Store, unit: u64, mut kept: impl FnMut() -> bool) {
        match self {
            Self::Chunks { first, chunks } => {
                let bytes: Vec<u8> = chunks.iter().flat_map(Chunk::written).copied().collect();
                redo_bytes(store, first * CHUNK as u64, &bytes, unit, kept);
            }
            Self::Bytes { offset, bytes } => redo_bytes(store, offset, &bytes, unit, kept),
            Self::Zeroed { range, atomic: true, .. } => {
                if kept() {
                    store.zero(range);
                }
            }
            Self::Zeroed { range, atomic: false, .. } => {
                let mut start = range.start;
                while let Some(part) = store.first_not_zero(start..range.end) {
                    start = part.end;
                    if kept() {
                        store.zero(part);
                    }
                }
            }
        }
    }
}

/// Writes the units of `bytes` for which `kept` returns true.
fn redo_bytes(store: &mut Store, offset: u64, bytes: &[u8], unit: u64, mut kept: impl FnMut() -> bool) {
    let unit = usize::try_from(unit.max(1)).unwrap_or(usize::MAX);
    let mut at = offset;
    for piece in bytes.chunks(unit) {
        if kept() {
            store.write(at, piece);
        }
        at += piece.len() as u64;
    }
}

#[cfg(test)]
#[path = "write_log_tests.rs"]
mod tests;
