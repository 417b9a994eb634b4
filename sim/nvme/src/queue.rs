//! Submission and completion queues: their memory, the positions of both sides, the identifiers in use.

use std::collections::VecDeque;

use nvme_spec::admin::QueuePriority;
use nvme_spec::cqe::Phase;

use crate::command::Finished;

/// Memory of a queue's entries.
#[derive(Clone, Debug)]
pub(crate) enum QueueMemory {
    /// In one piece from here.
    Contiguous(u64),
    /// On these pages, each of `1 << page_bits` bytes.
    Pages { pages: Vec<u64>, page_bits: u32 },
}

impl QueueMemory {
    /// Returns the address of the entry `index` of `1 << entry_bits` bytes. An entry never crosses a page.
    pub(crate) fn entry(&self, index: u32, entry_bits: u32) -> u64 {
        let offset = u64::from(index) << entry_bits;
        match self {
            Self::Contiguous(base) => base.wrapping_add(offset),
            Self::Pages { pages, page_bits } => {
                let page = pages.get((offset >> page_bits) as usize).copied().unwrap_or(0);
                page.wrapping_add(offset & ((1 << page_bits) - 1))
            }
        }
    }
}

/// A submission queue.
#[derive(Debug)]
pub(crate) struct SubmissionQueue {
    pub(crate) entries: u32,
    pub(crate) memory: QueueMemory,
    /// The CQ its completions go to.
    pub(crate) cq: u16,
    pub(crate) priority: QueuePriority,
    /// The next entry to fetch.
    pub(crate) head: u32,
    /// As last rung, or read from the shadow doorbell.
    pub(crate) tail: u32,
    /// The head at the last completion, up to which the driver may use slots again.
    pub(crate) given_back: u32,
    /// Commands fetched and not completed.
    pub(crate) in_use: CidSet,
}

impl SubmissionQueue {
    pub(crate) fn new(entries: u32, memory: QueueMemory, cq: u16, priority: QueuePriority) -> Self {
        Self { entries, memory, cq, priority, head: 0, tail: 0, given_back: 0, in_use: CidSet::new() }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Entries from `self.tail` to `tail`, going round.
    pub(crate) const fn added_by(&self, tail: u32) -> u32 {
        distance(self.tail, tail, self.entries)
    }

    /// Entries the driver may add: those given back by completions, but for the one that distinguishes full from empty.
    pub(crate) const fn room(&self) -> u32 {
        self.entries - 1 - distance(self.given_back, self.tail, self.entries)
    }
}

/// Log2 of the bytes of a CQ entry.
const CQE_BITS: u32 = 4;

/// A completion queue.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    pub(crate) entries: u32,
    pub(crate) memory: QueueMemory,
    /// The vector it interrupts on, if any.
    pub(crate) vector: Option<u16>,
    /// The next entry to post.
    pub(crate) tail: u32,
    /// As last rung, or read from the shadow doorbell.
    pub(crate) head: u32,
    pub(crate) phase: Phase,
    /// Completions for which there is no room yet.
    pub(crate) waiting: VecDeque<Finished>,
    /// SQs that complete here.
    pub(crate) users: u32,
    /// A fault: the CQ treats itself as full.
    pub(crate) stuck: bool,
}

impl CompletionQueue {
    pub(crate) const fn new(entries: u32, memory: QueueMemory, vector: Option<u16>) -> Self {
        Self {
            entries,
            memory,
            vector,
            tail: 0,
            head: 0,
            phase: Phase::FIRST,
            waiting: VecDeque::new(),
            users: 0,
            stuck: false,
        }
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.stuck || self.posted() == self.entries - 1
    }

    /// Completions posted that the driver has not taken.
    pub(crate) const fn posted(&self) -> u32 {
        distance(self.head, self.tail, self.entries)
    }

    /// Returns the address of the next completion.
    pub(crate) fn next_address(&self) -> u64 {
        self.memory.entry(self.tail, CQE_BITS)
    }

    /// Takes the next entry for posting.
    pub(crate) const fn advance(&mut self) {
        self.tail += 1;
        if self.tail == self.entries {
            self.tail = 0;
            self.phase = self.phase.flipped();
        }
    }
}

/// Steps from `from` to `to` in a ring of `entries`. Both are below `entries`.
pub(crate) const fn distance(from: u32, to: u32, entries: u32) -> u32 {
    if to >= from { to - from } else { to + entries - from }
}

/// All queues; number 0 is the admin queue of each kind.
#[derive(Default, Debug)]
pub(crate) struct Queues {
    pub(crate) sqs: Vec<Option<SubmissionQueue>>,
    pub(crate) cqs: Vec<Option<CompletionQueue>>,
    /// An I/O queue has been created since the last reset, whether it still exists or not.
    pub(crate) io_created: bool,
}

impl Queues {
    /// Creates room for the admin pair and `pairs` I/O queues of each kind; none exists.
    pub(crate) fn new(pairs: u16) -> Self {
        let count = usize::from(pairs) + 1;
        let (sqs, cqs) = ((0..count).map(|_| None).collect(), (0..count).map(|_| None).collect());
        Self { sqs, cqs, io_created: false }
    }

    pub(crate) fn sq(&self, id: u16) -> Option<&SubmissionQueue> {
        self.sqs.get(usize::from(id))?.as_ref()
    }

    pub(crate) fn sq_mut(&mut self, id: u16) -> Option<&mut SubmissionQueue> {
        self.sqs.get_mut(usize::from(id))?.as_mut()
    }

    pub(crate) fn cq(&self, id: u16) -> Option<&CompletionQueue> {
        self.cqs.get(usize::from(id))?.as_ref()
    }

    pub(crate) fn cq_mut(&mut self, id: u16) -> Option<&mut CompletionQueue> {
        self.cqs.get_mut(usize::from(id))?.as_mut()
    }

    /// Whether a CQ interrupts on this vector.
    pub(crate) fn has_vector(&self, vector: u16) -> bool {
        self.cqs.iter().flatten().any(|queue| queue.vector == Some(vector))
    }

    /// Forgets every queue.
    pub(crate) fn clear(&mut self) {
        let Self { sqs, cqs, io_created } = self;
        sqs.fill_with(|| None);
        cqs.fill_with(|| None);
        *io_created = false;
    }
}

/// A set of command identifiers.
#[derive(Debug)]
pub(crate) struct CidSet(Box<[u64; 1024]>);

impl CidSet {
    fn new() -> Self {
        Self(Box::new([0; 1024]))
    }

    /// Adds an identifier; false when it is already in the set.
    pub(crate) fn insert(&mut self, cid: u16) -> bool {
        let bit = 1 << (cid % 64);
        match self.0.get_mut(usize::from(cid / 64)) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn contains(&self, cid: u16) -> bool {
        self.0.get(usize::from(cid / 64)).is_some_and(|word| word & (1 << (cid % 64)) != 0)
    }

    pub(crate) fn remove(&mut self, cid: u16) {
        if let Some(word) = self.0.get_mut(usize::from(cid / 64)) {
            *word &= !(1 << (cid % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_by_pages_finds_its_entries_on_them() {
        let memory = QueueMemory::Pages { pages: vec![0x5000, 0x9000], page_bits: 12 };
        assert_eq!(memory.entry(63, 6), 0x5fc0);
        assert_eq!(memory.entry(64, 6), 0x9000);
    }

    #[test]
    fn slots_are_free_again_only_once_given_back() {
        let mut sq = SubmissionQueue::new(4, QueueMemory::Contiguous(0), 0, QueuePriority::Urgent);
        assert_eq!(sq.room(), 3);
        sq.tail = 3;
        sq.head = 3;
        assert_eq!(sq.room(), 0);
        sq.given_back = 2;
        assert_eq!((sq.room(), sq.added_by(1)), (2, 2));
    }

    #[test]
    fn the_phase_flips_on_each_round() {
        let mut cq = CompletionQueue::new(2, QueueMemory::Contiguous(0), None);
        let mut phases = Vec::new();
        for _ in 0..6 {
            phases.push(cq.phase.bit());
            cq.advance();
        }
        assert_eq!(phases, [true, true, false, false, true, true]);
    }
}
