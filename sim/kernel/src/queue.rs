//! Threads that wait for the same thing, first come first served. Linked through the threads, so that nothing is
//! allocated; a thread waits in at most one such queue.

use crate::arena::{Arena, ThreadId};
use crate::thread::Thread;

/// The threads of a kernel, which have the links.
type Threads = Arena<ThreadId, Thread>;

/// The ends of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) head: Option<ThreadId>,
    pub(crate) tail: Option<ThreadId>,
}

impl Queue {
    /// Adds `thread` at the end.
    pub(crate) fn append(&mut self, threads: &mut Threads, thread: ThreadId) {
        match self.tail {
            None => self.head = Some(thread),
            Some(tail) => threads[tail].wait_next = Some(thread),
        }
        let links = &mut threads[thread];
        links.wait_prev = self.tail;
        links.wait_next = None;
        self.tail = Some(thread);
    }

    /// Removes `thread`, which is in the queue.
    pub(crate) fn remove(&mut self, threads: &mut Threads, thread: ThreadId) {
        let links = &mut threads[thread];
        let (prev, next) = (links.wait_prev.take(), links.wait_next.take());
        match prev {
            None => self.head = next,
            Some(prev) => threads[prev].wait_next = next,
        }
        match next {
            None => self.tail = prev,
            Some(next) => threads[next].wait_prev = prev,
        }
    }

    /// The threads, first to last.
    pub(crate) fn iter(self, threads: &Threads) -> impl Iterator<Item = ThreadId> {
        core::iter::successors(self.head, |thread| threads[*thread].wait_next)
    }
}
