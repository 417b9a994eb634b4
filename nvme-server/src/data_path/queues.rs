//! The controller's I/O queue pairs, by number: a session knows which are its, and who shares them does not matter to it.
//!
//! Numbers are those of the configuration ([`ServerConfig::queue_pairs_of`](blk_api::config::ServerConfig::queue_pairs_of));
//! the controller's identifiers are one more, since its queue pair 0 is the administration's. One that was made is kept for
//! good: pool memory is not given back. Left out: creating them at the controller, which is `opening`'s.

use crate::controller::fault::DeviceFault;
use crate::data_path::in_flight::Command;
use crate::data_path::io_queue::{IoQueue, State};
use crate::data_path::schedule::Batch;
use crate::recovery::timeouts::DISCOUNT_SECONDS;
use alloc::vec::Vec;
use core::ops::Range;
use platform::Platform;

/// How many queue pairs of its own a session is entitled to, and how many commands each may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allotment {
    /// Queue pairs; 0 where it shares some.
    pub queue_pairs: u16,
    /// Commands.
    pub depth: u16,
}

/// Those that were made so far.
pub(crate) struct Queues<P: Platform> {
    by_number: Vec<Option<IoQueue<P>>>,
}

impl<P: Platform> Queues<P> {
    /// Room for so many, none made.
    pub(crate) fn new(queue_pairs: u16) -> Self {
        Self { by_number: (0..queue_pairs).map(|_| None).collect() }
    }

    /// The queue pair of this number.
    #[inline(always)]
    pub(crate) fn get(&self, number: u16) -> Option<&IoQueue<P>> {
        self.by_number.get(usize::from(number))?.as_ref()
    }

    /// Likewise, to be changed.
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

    /// Those of a session.
    pub(crate) fn of(&self, numbers: Range<u16>) -> impl Iterator<Item = &IoQueue<P>> {
        numbers.filter_map(|number| self.get(number))
    }

    /// The first of `numbers` that takes a command, from `turn` on and around.
    #[inline(always)]
    pub(crate) fn with_room(&self, numbers: &Range<u16>, turn: u16) -> Option<u16> {
        if self.get(turn).is_some_and(IoQueue::has_room) { Some(turn) } else { self.next_with_room(numbers, turn) }
    }

    #[cold]
    fn next_with_room(&self, numbers: &Range<u16>, turn: u16) -> Option<u16> {
        let mut others = (turn..numbers.end).chain(numbers.start..turn);
        others.find(|number| self.get(*number).is_some_and(IoQueue::has_room))
    }

    /// Somebody waits for room in one of these.
    #[cold]
    pub(crate) fn turn_away(&mut self, numbers: Range<u16>) {
        for number in numbers {
            if let Some(queue) = self.get_mut(number) {
                queue.turned_away = true;
            }
        }
    }

    /// The number of one on which the controller owes an answer for longer than it may.
    pub(crate) fn overdue(&self, now: u64, ticks_per_second: u64) -> Option<u16> {
        let numbered = (0u16..).zip(&self.by_number).filter_map(|(number, queue)| Some((number, queue.as_ref()?)));
        let mut waiting = numbered.filter_map(|(number, queue)| Some((number, queue, queue.in_flight.waiting()?)));
        let late =
            waiting.find(|(_, queue, waiting)| waiting.is_too_long(queue.last_completion, now, ticks_per_second));
        late.map(|(number, ..)| number)
    }

    /// Has `batch` discount commands that were submitted so long ago that the controller may have lost them.
    pub(crate) fn discount(&mut self, batch: &mut Batch<'_>, now: u64, ticks_per_second: u64) {
        let then = now.saturating_sub(ticks_per_second.saturating_mul(DISCOUNT_SECONDS));
        for queue in self.by_number.iter_mut().flatten() {
            queue.in_flight.discount(then).for_each(|command| batch.discount(&command));
        }
    }

    /// Takes out what all of them have in flight.
    pub(crate) fn drain(&mut self) -> Vec<Command> {
        self.by_number
            .iter_mut()
            .flatten()
            .flat_map(|queue| queue.in_flight.drain())
            .map(|(command, _)| command)
            .collect()
    }

    /// After a confirmed reset of the controller, which has none of them any more.
    ///
    /// # Errors
    /// As [`QueuePair::reset`](crate::controller::queue_pair::QueuePair::reset).
    pub(crate) fn reset(&mut self) -> Result<(), DeviceFault> {
        for queue in self.by_number.iter_mut().flatten() {
            queue.pair.reset()?;
            queue.state = State::Absent;
        }
        Ok(())
    }
}
