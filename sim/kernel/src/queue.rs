//! Threads that wait for the same thing, first come first served. Linked through the threads, so that nothing is
//! allocated; a thread waits in at most one such queue.

use crate::Kernel;
use crate::arena::ThreadId;

/// The ends of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) head: Option<ThreadId>,
    pub(crate) tail: Option<ThreadId>,
}

impl Kernel {
    /// `queue` with `thread` at its end.
    pub(crate) fn queue_append(&mut self, mut queue: Queue, thread: ThreadId) -> Queue {
        match queue.tail {
            None => queue.head = Some(thread),
            Some(tail) => self.threads[tail].wait_next = Some(thread),
        }
        let links = &mut self.threads[thread];
        links.wait_prev = queue.tail;
        links.wait_next = None;
        queue.tail = Some(thread);
        queue
    }

    /// `queue` without `thread`, which is in it.
    pub(crate) fn queue_remove(&mut self, mut queue: Queue, thread: ThreadId) -> Queue {
        let links = &mut self.threads[thread];
        let (prev, next) = (links.wait_prev.take(), links.wait_next.take());
        match prev {
            None => queue.head = next,
            Some(prev) => self.threads[prev].wait_next = next,
        }
        match next {
            None => queue.tail = prev,
            Some(next) => self.threads[next].wait_prev = prev,
        }
        queue
    }

    /// The threads of `queue`, first to last.
    pub(crate) fn queued(&self, queue: Queue) -> impl Iterator<Item = ThreadId> {
        core::iter::successors(queue.head, |thread| self.threads[*thread].wait_next)
    }
}
