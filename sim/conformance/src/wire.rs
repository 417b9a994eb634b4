//! Sequences and journals as bytes in memory.
//!
//! The interpreter's threads read calls one by one from the image they were started with, and write answers one by one into
//! one journal. They have no memory of their own but a stack. So a sequence is an index of its threads and then every call
//! by itself, in postcard behind a length. A journal is a length and then entries likewise.
//!
//! Threads of different priority share a journal without a lock: one that runs at all is the highest that can run, and
//! others come in between only at its system calls.

use crate::answer::Entry;
use crate::op::{HELPERS, Op, THREADS};
use alloc::vec::Vec;
use platform::{Memory, OutOfBounds};

/// Bytes of a call or an entry at most.
const RECORD: usize = 96;
/// Bytes of a sequence's head: length, priorities, and where each thread's calls begin and how many there are.
const HEAD: usize = 8 + 8 * THREADS;

/// Marks each journal on the console.
pub const JOURNAL: u8 = 0xa1;
/// Marks a text with the reason why the interpreter gives up.
pub const FAILURE: u8 = 0xa2;
/// Marks the end.
pub const END: u8 = 0xa3;

/// The bytes of a suite of sequences, each with the priorities of its helpers and the calls of each thread.
#[must_use]
pub fn encode<'a>(sequences: impl ExactSizeIterator<Item = ([u8; HELPERS], &'a [Vec<Op>; THREADS])>) -> Vec<u8> {
    let mut bytes = (sequences.len() as u32).to_le_bytes().to_vec();
    for (priorities, threads) in sequences {
        bytes.extend(encode_one(priorities, threads));
    }
    bytes
}

fn encode_one(priorities: [u8; HELPERS], threads: &[Vec<Op>; THREADS]) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD);
    let mut body = Vec::new();
    for calls in threads {
        head.extend(((HEAD + body.len()) as u32).to_le_bytes());
        head.extend((calls.len() as u32).to_le_bytes());
        for call in calls {
            let mut record = [0; RECORD];
            // A call is a few numbers: the longest has half of the room.
            let used = postcard::to_slice(call, &mut record).map_or(0, |used| used.len());
            body.push(used as u8);
            body.extend(record.iter().take(used));
        }
    }
    let mut bytes = ((HEAD + body.len()) as u32).to_le_bytes().to_vec();
    bytes.extend(priorities);
    bytes.resize(8, 0);
    bytes.extend(head);
    bytes.extend(body);
    bytes
}

/// A sequence inside the memory `M`, which holds a suite.
#[derive(Clone, Debug)]
pub struct Sequence<M> {
    memory: M,
    at: usize,
}

impl<M: Memory> Sequence<M> {
    /// The sequence at `at`.
    #[must_use]
    pub const fn at(memory: M, at: usize) -> Self {
        Self { memory, at }
    }

    /// All its bytes.
    ///
    /// # Errors
    /// As [`Sequence::places`].
    pub fn bytes(&self) -> Result<Vec<u8>, OutOfBounds> {
        let len = u32_at(&self.memory, self.at)? as usize;
        (len <= self.memory.len()).then_some(()).ok_or(OutOfBounds)?;
        let mut bytes = alloc::vec![0; len];
        self.memory.read_bytes(self.at, &mut bytes)?;
        Ok(bytes)
    }

    /// The places of all sequences of a suite.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the memory ends before the suite does.
    pub fn places(memory: &M) -> Result<Vec<usize>, OutOfBounds> {
        let count = u32_at(memory, 0)?;
        let mut places = Vec::new();
        let mut at = 4usize;
        for _ in 0..count {
            places.push(at);
            at = at.checked_add(u32_at(memory, at)? as usize).ok_or(OutOfBounds)?;
        }
        Ok(places)
    }

    /// The priorities of the helpers.
    ///
    /// # Errors
    /// As [`Sequence::places`].
    pub fn priorities(&self) -> Result<[u8; HELPERS], OutOfBounds> {
        let mut priorities = [0; HELPERS];
        self.memory.read_bytes(self.at + 4, &mut priorities)?;
        Ok(priorities)
    }

    /// The calls of a thread from number `first` on.
    ///
    /// # Errors
    /// As [`Sequence::places`], and when the thread has fewer calls.
    pub fn calls(&self, thread: usize, first: u16) -> Result<Calls<M>, OutOfBounds> {
        let head = self.at + 8 + 8 * thread;
        let at = self.at + u32_at(&self.memory, head)? as usize;
        let left = u32_at(&self.memory, head + 4)?;
        let mut calls = Calls { memory: self.memory.clone(), at, left };
        for _ in 0..first {
            calls.pass()?;
        }
        Ok(calls)
    }
}

/// Calls in memory, one after the other.
#[derive(Clone, Debug)]
pub struct Calls<M> {
    memory: M,
    at: usize,
    left: u32,
}

impl<M: Memory> Calls<M> {
    fn pass(&mut self) -> Result<usize, OutOfBounds> {
        self.left = self.left.checked_sub(1).ok_or(OutOfBounds)?;
        let mut len = [0];
        self.memory.read_bytes(self.at, &mut len)?;
        let at = self.at + 1;
        self.at = at + usize::from(len[0]);
        Ok(at)
    }
}

impl<M: Memory> Iterator for Calls<M> {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let at = self.pass().ok()?;
        let mut record = [0; RECORD];
        let record = record.get_mut(..self.at - at)?;
        self.memory.read_bytes(at, record).ok()?;
        postcard::from_bytes(record).ok()
    }
}

/// A journal in the memory `M`.
#[derive(Clone, Debug)]
pub struct Journal<M> {
    memory: M,
}

impl<M: Memory> Journal<M> {
    /// The journal in `memory`.
    #[must_use]
    pub const fn new(memory: M) -> Self {
        Self { memory }
    }

    /// Empties it.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the memory has no room for a length.
    pub fn clear(&self) -> Result<(), OutOfBounds> {
        self.memory.store_release_u32(0, 0)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it is full.
    pub fn push(&self, entry: &Entry) -> Result<(), OutOfBounds> {
        let mut record = [0; RECORD + 1];
        let (len, room) = record.split_first_mut().ok_or(OutOfBounds)?;
        let used = postcard::to_slice(entry, room).map_err(|_| OutOfBounds)?.len();
        *len = used as u8;
        let at = self.memory.load_acquire_u32(0)? as usize;
        self.memory.write_bytes(4 + at, record.get(..=used).ok_or(OutOfBounds)?)?;
        self.memory.store_release_u32(0, (at + 1 + used) as u32)
    }

    /// All its bytes, as sent over the line.
    ///
    /// # Errors
    /// [`OutOfBounds`] when its length is invalid.
    pub fn bytes(&self) -> Result<Vec<u8>, OutOfBounds> {
        let used = self.memory.load_acquire_u32(0)? as usize;
        (used <= self.memory.len()).then_some(()).ok_or(OutOfBounds)?;
        let mut bytes = alloc::vec![0; used];
        self.memory.read_bytes(4, &mut bytes)?;
        Ok(bytes)
    }
}

/// The entries in a journal's bytes; `None` when they are invalid.
#[must_use]
pub fn entries(bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut rest = bytes;
    while let Some((len, behind)) = rest.split_first() {
        let (record, behind) = behind.split_at_checked(usize::from(*len))?;
        entries.push(postcard::from_bytes(record).ok()?);
        rest = behind;
    }
    Some(entries)
}

fn u32_at<M: Memory>(memory: &M, at: usize) -> Result<u32, OutOfBounds> {
    let mut bytes = [0; 4];
    memory.read_bytes(at, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::payload;
    use crate::{Answer, generate, written};
    use platform::fake::Ram;

    fn memory(bytes: &[u8]) -> Ram {
        let ram = Ram::new(bytes.len().next_multiple_of(8));
        ram.write_bytes(0, bytes).unwrap();
        ram
    }

    #[test]
    fn every_call_is_read_as_it_was_written() {
        let scripts = [written::all(), generate::scripts(0..20)].concat();
        let memory = memory(&payload(&scripts));
        let places = Sequence::places(&memory).unwrap();
        assert_eq!(places.len(), scripts.len());
        for (script, place) in scripts.iter().zip(places) {
            let sequence = Sequence::at(memory.clone(), place);
            assert_eq!(sequence.priorities(), Ok(script.priorities));
            for (thread, calls) in script.threads.iter().enumerate() {
                assert_eq!(&sequence.calls(thread, 0).unwrap().collect::<Vec<_>>(), calls, "{}", script.name);
            }
            let later = sequence.calls(0, 5).unwrap().collect::<Vec<_>>();
            assert_eq!(later, script.threads[0][5..], "{}", script.name);
            assert!(sequence.bytes().unwrap().len() <= crate::stage::SCRIPT_BYTES as usize, "{}", script.name);
        }
    }

    #[test]
    fn what_leaves_the_memory_is_refused() {
        let bytes = payload(&generate::scripts(0..1));
        let whole = memory(&bytes);
        let sequence = Sequence::at(whole.clone(), 4);
        assert!(sequence.calls(0, u16::MAX).is_err());
        let cut = memory(&bytes[..64]);
        assert!(Sequence::at(cut.clone(), 4).bytes().is_err());
        assert!(Sequence::at(cut, 4).calls(0, 40).is_err());
        assert!(Sequence::places(&memory(&[9, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])).is_err());
    }

    #[test]
    fn a_journal_keeps_its_entries_until_it_is_cleared_or_full() {
        let journal = Journal::new(Ram::new(64));
        let entry = |index| Entry { thread: 2, index, answer: Answer::Value(u64::MAX) };
        let mut kept = Vec::new();
        while journal.push(&entry(kept.len() as u16)).is_ok() {
            kept.push(entry(kept.len() as u16));
        }
        assert!(kept.len() > 2);
        assert_eq!(entries(&journal.bytes().unwrap()), Some(kept));
        journal.clear().unwrap();
        assert_eq!(journal.bytes(), Ok(Vec::new()));
        assert_eq!(entries(&[5, 1]), None);
    }
}
