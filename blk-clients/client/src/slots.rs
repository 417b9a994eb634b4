//! Requests in flight: a fixed table, made when the session is opened.
//!
//! A request is identified by its slot's index and the slot's generation. Together they are the user data that the server
//! returns, so a completion for an earlier use of the slot is recognised. A slot holds the request's leases until the
//! completion came, whether a task still waits or not.
//!
//! A request in flight is not always at the server. It may wait for an earlier change of its blocks (`changes`), or in
//! one of two queues: requests that missed a record, and requests that are due for submission.

use crate::changes::{self, Blocks, Changes};
use crate::completion::{self, Awaited, Class, Completion, Ended};
use crate::error::Error;
use crate::session::Session;
use crate::window::Window;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::request::{Entry, Segment};
use blk_api::ring::Completed;
use core::task::{Context, Poll, Waker};
use platform::{Memory, Platform};

/// Resubmissions of a request that misses records, at one incarnation of the server.
const MOST_MISSES: u8 = 16;

/// Total tries of a request without the controller's verdict.
///
/// Each try costs time, up to minutes for a command that times out. If the request itself breaks the controller, each try
/// costs every session a reset. A reset that another session caused can hit the same request twice in a row by accident.
/// Three times in a row after the first is no accident.
const MOST_TRIES: u8 = 4;

/// Identifies a request in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    index: u32,
    generation: u32,
}

impl Ticket {
    /// The user data that the completion returns.
    #[inline]
    pub(crate) fn user_data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    fn from_user_data(word: u64) -> Self {
        // Both halves are exactly 32 bits.
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    /// In flight; its waker is to be woken if a task `waits`.
    InFlight {
        waits: bool,
    },
    /// No task waits, but the device may still work on it.
    Detached,
    /// Answered, and the task has not asked since.
    Done,
}

/// Place of a request in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// On a ring, or at the server.
    Server,
    /// In this table: an earlier change of its blocks is not answered.
    HeldBack,
    /// In the queue of requests due for submission.
    Due,
    /// In the queue of requests that missed a record.
    Missed,
    /// In this table: the controller was gone, and they wait for its return.
    Kept,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// The free slot after this one.
    next_free: u32,
    state: State,
    /// The answer, once the request is done. As a part of `state` it would be copied byte by byte.
    answer: Completed,
    /// The waker of the task that waited last. It is kept, because mostly the same task waits again.
    waker: Option<Waker>,
    /// The entry and its place in the order of submission, to submit it again after the server's death. Its segments are held.
    entry: Entry,
    order: u64,
    place: Place,
    /// Times it missed a record at this incarnation of the server.
    misses: u8,
    /// Times the controller gave no verdict, or asked for it again.
    undecided: u8,
    /// In the queue of requests due for submission, the time in ticks before which it is not; else 0.
    not_before: u64,
    /// The request's place among those that are awaited by choice; 0 for none.
    awaited: u32,
}

impl Slot {
    const fn is_in_flight(&self) -> bool {
        matches!(self.state, State::InFlight { .. } | State::Detached)
    }

    fn can_be_submitted(&self) -> bool {
        self.is_in_flight() && self.place != Place::HeldBack
    }
}

/// Bytes of the heap for each slot: the slot, its change, its places in both queues and among the requests that are awaited by choice;
/// and while all requests are submitted again, its place in their order and its entry.
pub(crate) const SLOT_BYTES: usize = size_of::<Slot>()
    + changes::SLOT_BYTES
    + 2 * size_of::<u32>()
    + completion::SLOT_BYTES
    + size_of::<&mut Slot>()
    + size_of::<Entry>();

/// No slot: the end of the list of free ones.
const NONE: u32 = u32::MAX;

/// The table.
#[derive(Debug)]
pub(crate) struct Slots<M: Memory> {
    slots: Vec<Slot>,
    first_free: u32,
    window: Window<M>,
    in_flight: u32,
    asked: u64,
    changes: Changes,
    /// Indices of requests that missed, in their order. Never grows beyond its initial capacity.
    missed: VecDeque<u32>,
    /// Indices of requests due for submission: they wait for no other request any more, or are retries. Never grows beyond its
    /// initial capacity.
    due: VecDeque<u32>,
    /// Number of retries of requests without the controller's verdict.
    retries: u64,
    /// The requests that are awaited by choice.
    pub(crate) awaited: Awaited,
}

impl<M: Memory> Slots<M> {
    /// Makes `count` free slots, for requests that hold ranges of `window`.
    pub(crate) fn new(count: u32, window: Window<M>) -> Self {
        let slot = |index: u32| Slot {
            generation: 0,
            next_free: if index.saturating_add(1) < count { index.saturating_add(1) } else { NONE },
            state: State::Free,
            answer: Completed::default(),
            waker: None,
            entry: Entry::default(),
            order: 0,
            place: Place::Server,
            misses: 0,
            undecided: 0,
            not_before: 0,
            awaited: 0,
        };
        Self {
            slots: (0..count).map(slot).collect(),
            first_free: if count > 0 { 0 } else { NONE },
            window,
            in_flight: 0,
            asked: 0,
            changes: Changes::new(count),
            missed: VecDeque::with_capacity(count as usize),
            due: VecDeque::with_capacity(count as usize),
            retries: 0,
            awaited: Awaited::new(count),
        }
    }

    /// Number of requests without a completion.
    pub(crate) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Times that a request was made again of which the controller gave no verdict.
    pub(crate) const fn retries(&self) -> u64 {
        self.retries
    }

    /// The next request's entry, to be filled in, if a slot is free. Its user data are set already.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<&mut Entry> {
        let index = self.first_free;
        let slot = self.slots.get_mut(index as usize)?;
        slot.entry.user_data = Ticket { index, generation: slot.generation }.user_data();
        Some(&mut slot.entry)
    }

    /// Begins the request whose entry [`Slots::next`] gave, and submits it to `session`. If it waits for an earlier
    /// change of its blocks, it is [`Slots::due`] later instead. The leases of its segments stay held until it is done.
    /// Returns `None` when `session` has no room: nothing has begun.
    ///
    /// # Errors
    /// As [`Session::submit`].
    #[inline(always)]
    pub(crate) fn begin<P>(&mut self, session: &mut Session<P>) -> Result<Option<Ticket>, Error>
    where
        P: Platform<Memory = M>,
    {
        let index = self.first_free;
        let Some(slot) = self.slots.get_mut(index as usize) else { return Ok(None) };
        let awaits = Blocks::changed_by(&slot.entry).map_or(0, |blocks| self.changes.begin(index, blocks));
        slot.place = if awaits == 0 { Place::Server } else { Place::HeldBack };
        if awaits == 0 {
            let submitted = session.submit(&slot.entry);
            if !matches!(submitted, Ok(true)) {
                self.changes.end(index, |_| {});
                return submitted.map(|_| None);
            }
        }
        self.asked = self.asked.wrapping_add(1);
        self.first_free = slot.next_free;
        slot.state = State::InFlight { waits: false };
        slot.order = self.asked;
        slot.misses = 0;
        slot.undecided = 0;
        // At most one a slot.
        self.in_flight = self.in_flight.wrapping_add(1);
        Ok(Some(Ticket { index, generation: slot.generation }))
    }

    /// Abandons the request whose entry [`Slots::next`] gave: releases the leases of its segments.
    pub(crate) fn let_go_next(&mut self) {
        let next = self.slots.get(self.first_free as usize);
        next.into_iter().for_each(|slot| self.window.let_go(segments(&slot.entry)));
    }

    /// Returns the requests in flight that wait for no other, in the order of submission. All of them count as at the server
    /// from now on.
    pub(crate) fn submit_all_again(&mut self) -> Vec<Entry> {
        self.missed.clear();
        self.due.clear();
        let mut slots: Vec<_> = self.slots.iter_mut().filter(|slot| slot.can_be_submitted()).collect();
        slots.sort_unstable_by_key(|slot| slot.order);
        let again = |slot: &mut Slot| {
            slot.place = Place::Server;
            // The table of records is the successor's, and empty.
            slot.misses = 0;
            slot.not_before = 0;
            slot.entry
        };
        slots.into_iter().map(again).collect()
    }

    /// Handles the answer that a request missed a record. Returns whether it is to be made again.
    ///
    /// # Errors
    /// [`Error::UnknownCompletion`] when no request with its user data is at the server.
    pub(crate) fn miss(&mut self, completed: &Completed) -> Result<bool, Error> {
        let ticket = Ticket::from_user_data(completed.user_data);
        let slot = at_server(&mut self.slots, ticket)?;
        if slot.misses >= MOST_MISSES {
            return Ok(false);
        }
        slot.misses = slot.misses.saturating_add(1);
        slot.place = Place::Missed;
        self.missed.push_back(ticket.index);
        Ok(true)
    }

    /// Keeps a request until all are submitted again, because the controller was gone. It may have been done, wholly or in part.
    ///
    /// # Errors
    /// As [`Slots::miss`].
    pub(crate) fn keep(&mut self, completed: &Completed) -> Result<(), Error> {
        at_server(&mut self.slots, Ticket::from_user_data(completed.user_data))?.place = Place::Kept;
        Ok(())
    }

    /// Handles the answer that the controller gave no verdict. Returns whether the request is resubmitted.
    ///
    /// # Errors
    /// As [`Slots::miss`].
    pub(crate) fn leave_undecided(&mut self, completed: &Completed) -> Result<bool, Error> {
        if self.tries(completed)?.saturating_add(1) >= MOST_TRIES {
            return Ok(false);
        }
        self.make_again(completed, 0).map(|()| true)
    }

    /// Times that the request of an answer was made again.
    ///
    /// # Errors
    /// As [`Slots::miss`].
    pub(crate) fn tries(&mut self, completed: &Completed) -> Result<u8, Error> {
        at_server(&mut self.slots, Ticket::from_user_data(completed.user_data)).map(|slot| slot.undecided)
    }

    /// Has the request of an answer made again, not before a time in ticks.
    ///
    /// # Errors
    /// As [`Slots::miss`].
    pub(crate) fn make_again(&mut self, completed: &Completed, not_before: u64) -> Result<(), Error> {
        let ticket = Ticket::from_user_data(completed.user_data);
        let slot = at_server(&mut self.slots, ticket)?;
        slot.undecided = slot.undecided.saturating_add(1);
        (slot.place, slot.not_before) = (Place::Due, not_before);
        self.due.push_back(ticket.index);
        self.retries = self.retries.saturating_add(1);
        Ok(())
    }

    /// Whether requests are in the queue of those due for submission.
    #[inline]
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The first request due for submission now, and its place in their queue.
    pub(crate) fn due(&self, now: u64) -> Option<(usize, Entry)> {
        let due = |index: &u32| self.slots.get(*index as usize).filter(|slot| slot.not_before <= now);
        self.due.iter().enumerate().find_map(|(place, index)| Some((place, due(index)?.entry)))
    }

    /// Records that the due request in this place was submitted.
    pub(crate) fn submit_due(&mut self, place: usize) {
        if let Some(slot) = self.due.remove(place).and_then(|index| self.slots.get_mut(index as usize)) {
            (slot.place, slot.not_before) = (Place::Server, 0);
        }
    }

    /// The first request that missed and was not made again yet.
    pub(crate) fn missed(&self) -> Option<Entry> {
        let index = *self.missed.front()?;
        self.slots.get(index as usize).map(|slot| slot.entry)
    }

    /// Removes that request from its queue: it is submitted again, or ended.
    pub(crate) fn take_missed(&mut self) -> Option<Entry> {
        let slot = self.missed.pop_front().and_then(|index| self.slots.get_mut(index as usize))?;
        slot.place = Place::Server;
        Some(slot.entry)
    }

    /// Completes the request of a completion. Changes that waited only for this one become due.
    ///
    /// # Errors
    /// As [`Slots::miss`].
    #[inline(always)]
    pub(crate) fn complete(&mut self, completed: &Completed) -> Result<(), Error> {
        let ticket = Ticket::from_user_data(completed.user_data);
        let slot = at_server(&mut self.slots, ticket)?;
        let is_detached = match slot.state {
            State::InFlight { waits } => {
                (slot.state, slot.answer) = (State::Done, *completed);
                if let Some(waker) = slot.waker.as_ref().filter(|_| waits) {
                    waker.wake_by_ref();
                }
                false
            }
            _ => true,
        };
        self.window.let_go(segments(&slot.entry));
        let place = slot.awaited;
        if place != 0 {
            self.end_awaited(ticket, completed.status);
        }
        // It was among them.
        self.in_flight = self.in_flight.wrapping_sub(1);
        let (slots, due) = (&mut self.slots, &mut self.due);
        self.changes.end(ticket.index, |index| {
            slots.get_mut(index as usize).into_iter().for_each(|slot| slot.place = Place::Due);
            due.push_back(index);
        });
        if is_detached {
            self.free(ticket.index);
        }
        Ok(())
    }

    /// Has the request, submitted `now`, awaited in this way from now on.
    pub(crate) fn await_by(&mut self, ticket: Ticket, completion: Completion, now: u64) {
        let slot = self.slots.get_mut(ticket.index as usize).filter(|slot| slot.generation == ticket.generation);
        let Some(slot) = slot.filter(|slot| slot.is_in_flight()) else { return };
        if slot.awaited != 0 {
            return self.awaited.change(slot.awaited, completion);
        }
        let bytes = segments(&slot.entry).iter().fold(0u64, |sum, segment| sum.saturating_add(segment.len.into()));
        let class = Class::of(slot.entry.opcode, bytes);
        slot.awaited = self.awaited.add(ticket.index, completion, class, now);
    }

    /// Ends the wait for a request that is awaited by choice.
    #[cold]
    #[inline(never)]
    fn end_awaited(&mut self, ticket: Ticket, status: u16) {
        let Some(slot) = self.slots.get_mut(ticket.index as usize) else { return };
        let place = core::mem::take(&mut slot.awaited);
        let is_first_try = slot.misses == 0 && slot.undecided == 0 && status == Status::Success as u16;
        let ended = if is_first_try { Ended::AtOnce } else { Ended::Otherwise };
        let moved = self.awaited.end(place, ended).and_then(|moved| self.slots.get_mut(moved as usize));
        moved.into_iter().for_each(|slot| slot.awaited = place);
    }

    /// Returns the result if the request is done; otherwise `context` is woken when it is.
    #[inline(always)]
    pub(crate) fn poll(&mut self, ticket: Ticket, context: &Context<'_>) -> Poll<Completed> {
        let Some(slot) = self.slots.get_mut(ticket.index as usize) else { return Poll::Pending };
        match &mut slot.state {
            State::Done => {
                let answer = slot.answer;
                self.free(ticket.index);
                Poll::Ready(answer)
            }
            State::InFlight { waits } => {
                *waits = true;
                if !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    slot.waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
            State::Free | State::Detached => Poll::Pending,
        }
    }

    /// Records that no task waits for the request any more. Its slot and leases stay taken until the completion comes.
    pub(crate) fn detach(&mut self, ticket: Ticket) {
        let Some(slot) = self.slots.get_mut(ticket.index as usize) else { return };
        match slot.state {
            State::InFlight { .. } => {
                slot.state = State::Detached;
                if slot.awaited != 0 {
                    // Nobody polls for it.
                    self.awaited.change(slot.awaited, Completion::Interrupt);
                }
            }
            State::Done => self.free(ticket.index),
            State::Free | State::Detached => {}
        }
    }

    /// Wakes all waiting tasks, because the session's state changed.
    pub(crate) fn wake_all(&mut self) {
        for slot in &mut self.slots {
            if let State::InFlight { waits } = &mut slot.state
                && core::mem::take(waits)
            {
                slot.waker.iter().for_each(Waker::wake_by_ref);
            }
        }
    }

    #[inline]
    fn free(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = core::mem::replace(&mut self.first_free, index);
    }
}

/// The segments that an entry uses.
#[inline]
pub(crate) fn segments(entry: &Entry) -> &[Segment] {
    entry.segments.get(..usize::from(entry.segment_count)).unwrap_or_default()
}

/// Finds the request at the server that this ticket identifies.
///
/// # Errors
/// [`Error::UnknownCompletion`].
#[inline]
fn at_server(slots: &mut [Slot], ticket: Ticket) -> Result<&mut Slot, Error> {
    let slot = slots.get_mut(ticket.index as usize).filter(|slot| slot.generation == ticket.generation);
    slot.filter(|slot| slot.is_in_flight() && slot.place == Place::Server).ok_or(Error::UnknownCompletion)
}
