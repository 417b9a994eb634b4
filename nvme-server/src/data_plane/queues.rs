//! The controller's I/O queue pairs, by number. A session knows which it uses, and not which sessions share them.
//!
//! Numbers are those of the configuration ([`ServerConfig::queue_pairs_of`](blk_api::config::ServerConfig::queue_pairs_of));
//! the controller's identifiers are one more, since its queue pair 0 is the admin queue's. A queue pair that was made is
//! kept for good: pool memory is not returned. Left out: their creation at the controller (`reconcile`).

use crate::data_plane::in_flight::{Command, discount, waiting};
use crate::data_plane::io_queue::{IoQueue, State};
use crate::data_plane::schedule::Batch;
use alloc::vec::Vec;
use core::ops::Range;
use nvme_driver::fault::DeviceFault;
use nvme_driver::silence::DISCOUNT_SECONDS;
use platform::Platform;

/// The number of a session's own queue pairs, and their depth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allotment {
    /// Queue pairs; 0 where it shares some.
    pub queue_pairs: u16,
    /// Commands.
    pub depth: u16,
}

/// The queue pairs that were made so far.
pub(crate) struct Queues<P: Platform> {
    by_number: Vec<Option<IoQueue<P>>>,
}

impl<P: Platform> Queues<P> {
    /// Creates room for `queue_pairs`, none made.
    pub(crate) fn new(queue_pairs: u16) -> Self {
        Self { by_number: (0..queue_pairs).map(|_| None).collect() }
    }

    /// The queue pair of this number.
    #[inline(always)]
    pub(crate) fn get(&self, number: u16) -> Option<&IoQueue<P>> {
        self.by_number.get(usize::from(number))?.as_ref()
    }

    /// The queue pair of this number, to be changed.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, number: u16) -> Option<&mut IoQueue<P>> {
        self.by_number.get_mut(usize::from(number))?.as_mut()
    }

    /// Keeps a queue pair that was made.
    pub(crate) fn put(&mut self, number: u16, queue: IoQueue<P>) {
        if let Some(place) = self.by_number.get_mut(usize::from(number)) {
            *place = Some(queue);
        }
    }

    /// The queue pairs of a session.
    pub(crate) fn of(&self, numbers: Range<u16>) -> impl Iterator<Item = &IoQueue<P>> {
        numbers.filter_map(|number| self.get(number))
    }

    /// The largest transfer, bytes, of one command on any of these: `most`, or less where their list pages suffice for less.
    pub(crate) fn max_transfer(&self, numbers: Range<u16>, most: u64) -> u64 {
        self.of(numbers).fold(most, |least, queue| least.min(queue.queue.max_transfer))
    }

    /// The first of `numbers` that takes a command, from `next_queue` on and around.
    #[inline(always)]
    pub(crate) fn with_room(&self, numbers: &Range<u16>, next_queue: u16) -> Option<u16> {
        if self.get(next_queue).is_some_and(IoQueue::has_room) {
            Some(next_queue)
        } else {
            self.next_with_room(numbers, next_queue)
        }
    }

    #[cold]
    fn next_with_room(&self, numbers: &Range<u16>, next_queue: u16) -> Option<u16> {
        let mut others = (next_queue..numbers.end).chain(numbers.start..next_queue);
        others.find(|number| self.get(*number).is_some_and(IoQueue::has_room))
    }

    /// Notes that a session waits for room in one of these.
    #[cold]
    pub(crate) fn note_waiter(&mut self, numbers: Range<u16>) {
        for number in numbers {
            if let Some(queue) = self.get_mut(number) {
                queue.has_waiter = true;
            }
        }
    }

    /// The number of a queue pair with an answer overdue.
    pub(crate) fn overdue(&self, now: u64, ticks_per_second: u64) -> Option<u16> {
        let numbered = (0u16..).zip(&self.by_number).filter_map(|(number, queue)| Some((number, queue.as_ref()?)));
        let mut late = numbered.filter_map(|(number, queue)| Some((number, queue, waiting(&queue.queue.commands)?)));
        let late = late.find(|(_, queue, waiting)| waiting.is_too_long(queue.last_completion, now, ticks_per_second));
        late.map(|(number, ..)| number)
    }

    /// Has `batch` discount commands that are so old that the controller may have lost them.
    pub(crate) fn discount(&mut self, batch: &mut Batch<'_>, now: u64, ticks_per_second: u64) {
        let then = now.saturating_sub(ticks_per_second.saturating_mul(DISCOUNT_SECONDS));
        for queue in self.by_number.iter_mut().flatten() {
            discount(&mut queue.queue.commands, then).for_each(|command| batch.discount(&command));
        }
    }

    /// Takes out all commands in flight.
    pub(crate) fn take_commands(&mut self) -> Vec<Command> {
        self.by_number
            .iter_mut()
            .flatten()
            .flat_map(|queue| queue.queue.commands.take_all())
            .map(|(command, _)| command)
            .collect()
    }

    /// Resets all queue pairs, after a confirmed reset of the controller, which has none of them any more.
    ///
    /// # Errors
    /// As [`QueuePair::reset`](nvme_driver::queue_pair::QueuePair::reset).
    pub(crate) fn reset(&mut self) -> Result<(), DeviceFault> {
        for queue in self.by_number.iter_mut().flatten() {
            queue.queue.pair.reset()?;
            queue.state = State::Absent;
        }
        Ok(())
    }
}
