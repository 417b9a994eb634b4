//! Requests in flight: a fixed table, made when the session is opened.
//!
//! A request is known by its slot's index and the slot's generation, which together are the word the server hands back:
//! a completion with a word of an earlier life of the slot is recognised. A slot holds the request's leases until the
//! completion came, whether anybody still waits or not.
//!
//! A request in flight need not be at the server: it may wait for an earlier change of its blocks (`changes`), or for
//! being made again, in a queue of those that missed a record or of those that are only to be submitted.

use crate::changes::Changes;
use crate::error::Error;
use crate::window::Held;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use blk_api::request::Entry;
use blk_api::ring::Completed;
use core::task::{Context, Poll, Waker};
use platform::Memory;

/// Times that a request is made again which misses records.
const MOST_MISSES: u8 = 16;

/// Tries that a request has, all in all, of which the controller gives no verdict.
///
/// Each of them costs time, up to minutes where a command is waited for, and where the request itself is what the
/// controller does not survive, each costs everybody a reset. That somebody else's reset takes the same request is an
/// accident, which happens twice in a row at times; three times in a row after the first it is none.
const MOST_TRIES: u8 = 4;

/// A request in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    index: u32,
    generation: u32,
}

impl Ticket {
    /// The word that comes back with the completion.
    pub(crate) fn user_data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    fn from_user_data(word: u64) -> Self {
        // Both halves are exactly 32 bits.
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }
}

#[derive(Debug)]
enum State {
    Free,
    InFlight(Option<Waker>),
    /// Nobody waits, the device may still be at it.
    Abandoned,
    Done(Completed),
}

/// Where a request in flight is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// On a ring or behind it.
    Server,
    /// Here: an earlier change of its blocks is not answered.
    HeldBack,
    /// Here, in the queue of those to be submitted.
    Due,
    /// Here, in the queue of those that missed a record.
    Missed,
}

#[derive(Debug)]
struct Slot<M: Memory> {
    generation: u32,
    state: State,
    held: Held<M>,
    /// What was asked, and when in the order of asking: to ask again when the server died with it.
    entry: Entry,
    order: u64,
    place: Place,
    /// Times it missed a record.
    misses: u8,
    /// Times the controller gave no verdict.
    undecided: u8,
}

impl<M: Memory> Slot<M> {
    const fn is_in_flight(&self) -> bool {
        matches!(self.state, State::InFlight(_) | State::Abandoned)
    }

    fn can_be_submitted(&self) -> bool {
        self.is_in_flight() && self.place != Place::HeldBack
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct Slots<M: Memory> {
    slots: Vec<Slot<M>>,
    free: Vec<u32>,
    in_flight: u32,
    asked: u64,
    changes: Changes,
    /// Indices of those that missed, in their order. Never grows beyond what it was made for.
    missed: VecDeque<u32>,
    /// Likewise of those that are to be submitted: they wait for nobody any more, or are made again.
    due: VecDeque<u32>,
    /// Times that a request was made again of which the controller gave no verdict.
    retries: u64,
}

impl<M: Memory> Slots<M> {
    /// `count` free slots.
    pub(crate) fn new(count: u32) -> Self {
        let slot = |_| Slot {
            generation: 0,
            state: State::Free,
            held: Held::nothing(),
            entry: Entry::default(),
            order: 0,
            place: Place::Server,
            misses: 0,
            undecided: 0,
        };
        Self {
            slots: (0..count).map(slot).collect(),
            free: (0..count).rev().collect(),
            in_flight: 0,
            asked: 0,
            changes: Changes::new(count),
            missed: VecDeque::with_capacity(count as usize),
            due: VecDeque::with_capacity(count as usize),
            retries: 0,
        }
    }

    /// Requests whose completion has not come.
    pub(crate) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Times that a request was made again of which the controller gave no verdict.
    pub(crate) const fn retries(&self) -> u64 {
        self.retries
    }

    /// Unanswered changes that what `entry` asks has to wait for.
    pub(crate) fn changes_before(&self, entry: &Entry) -> u32 {
        self.changes.before(entry)
    }

    /// The ticket the next [`Slots::begin`] gives, if a slot is free.
    pub(crate) fn next(&self) -> Option<Ticket> {
        let index = *self.free.last()?;
        let slot = self.slots.get(index as usize)?;
        Some(Ticket { index, generation: slot.generation })
    }

    /// Takes the slot that [`Slots::next`] told of, for what `entry` asks. It is at the server, unless it waits for
    /// `awaits` changes, as [`Slots::changes_before`] said: it is [`Slots::due`] later.
    pub(crate) fn begin(&mut self, entry: Entry, held: Held<M>, awaits: u32) {
        self.asked = self.asked.wrapping_add(1);
        let Some(index) = self.free.pop() else { return };
        self.changes.begin(index, &entry, awaits);
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        slot.state = State::InFlight(None);
        slot.held = held;
        slot.entry = entry;
        slot.order = self.asked;
        slot.place = if awaits == 0 { Place::Server } else { Place::HeldBack };
        slot.misses = 0;
        slot.undecided = 0;
        self.in_flight = self.in_flight.saturating_add(1);
    }

    /// What is in flight and waits for nobody, in the order in which it was asked: all of it is at the server from now on.
    pub(crate) fn submit_all_again(&mut self) -> Vec<Entry> {
        self.missed.clear();
        self.due.clear();
        let mut slots: Vec<_> = self.slots.iter_mut().filter(|slot| slot.can_be_submitted()).collect();
        slots.sort_unstable_by_key(|slot| slot.order);
        let again = |slot: &mut Slot<M>| {
            slot.place = Place::Server;
            slot.entry
        };
        slots.into_iter().map(again).collect()
    }

    /// The request at the server that this completion is for.
    ///
    /// # Errors
    /// [`Error::UnknownCompletion`].
    fn at_server(&mut self, ticket: Ticket) -> Result<&mut Slot<M>, Error> {
        let slot = self.slots.get_mut(ticket.index as usize).filter(|slot| slot.generation == ticket.generation);
        slot.filter(|slot| slot.is_in_flight() && slot.place == Place::Server).ok_or(Error::UnknownCompletion)
    }

    /// Takes the answer that a request missed a record: whether it is to be made again.
    ///
    /// # Errors
    /// [`Error::UnknownCompletion`] when no request with its word is at the server.
    pub(crate) fn miss(&mut self, completed: &Completed) -> Result<bool, Error> {
        let ticket = Ticket::from_user_data(completed.user_data);
        let slot = self.at_server(ticket)?;
        if slot.misses >= MOST_MISSES {
            return Ok(false);
        }
        slot.misses = slot.misses.saturating_add(1);
        slot.place = Place::Missed;
        self.missed.push_back(ticket.index);
        Ok(true)
    }

    /// Takes the answer that the controller gave no verdict of a request: whether it is made again.
    ///
    /// # Errors
    /// As [`Slots::miss`].
    pub(crate) fn leave_undecided(&mut self, completed: &Completed) -> Result<bool, Error> {
        let ticket = Ticket::from_user_data(completed.user_data);
        let slot = self.at_server(ticket)?;
        slot.undecided = slot.undecided.saturating_add(1);
        if slot.undecided >= MOST_TRIES {
            return Ok(false);
        }
        slot.place = Place::Due;
        self.due.push_back(ticket.index);
        self.retries = self.retries.saturating_add(1);
        Ok(true)
    }

    /// The first request that is to be submitted.
    pub(crate) fn due(&self) -> Option<Entry> {
        let index = *self.due.front()?;
        self.slots.get(index as usize).map(|slot| slot.entry)
    }

    /// It was.
    pub(crate) fn submit_due(&mut self) {
        if let Some(slot) = self.due.pop_front().and_then(|index| self.slots.get_mut(index as usize)) {
            slot.place = Place::Server;
        }
    }

    /// The first request that missed and was not made again.
    pub(crate) fn missed(&self) -> Option<Entry> {
        let index = *self.missed.front()?;
        self.slots.get(index as usize).map(|slot| slot.entry)
    }

    /// Takes it: it is on its way again, or at its end.
    pub(crate) fn take_missed(&mut self) -> Option<Entry> {
        let slot = self.missed.pop_front().and_then(|index| self.slots.get_mut(index as usize))?;
        slot.place = Place::Server;
        Some(slot.entry)
    }

    /// Takes a completion to the request it is for. Changes that waited for this one alone are due.
    ///
    /// # Errors
    /// As [`Slots::miss`].
    pub(crate) fn complete(&mut self, completed: &Completed) -> Result<(), Error> {
        let ticket = Ticket::from_user_data(completed.user_data);
        let slot = self.at_server(ticket)?;
        let entry = slot.entry;
        if let State::InFlight(waker) = &mut slot.state {
            let waker = waker.take();
            slot.state = State::Done(*completed);
            slot.held = Held::nothing();
            waker.into_iter().for_each(Waker::wake);
        } else {
            self.free(ticket);
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        let (slots, due) = (&mut self.slots, &mut self.due);
        self.changes.answered(ticket.index, &entry, |index| {
            slots.get_mut(index as usize).into_iter().for_each(|slot| slot.place = Place::Due);
            due.push_back(index);
        });
        Ok(())
    }

    /// Whether the request is done; if not, `context` is woken when it is.
    pub(crate) fn poll(&mut self, ticket: Ticket, context: &Context<'_>) -> Poll<Completed> {
        let Some(slot) = self.slots.get_mut(ticket.index as usize) else { return Poll::Pending };
        match &mut slot.state {
            State::Done(completed) => {
                let completed = *completed;
                self.free(ticket);
                Poll::Ready(completed)
            }
            State::InFlight(Some(waker)) if waker.will_wake(context.waker()) => Poll::Pending,
            State::InFlight(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            State::Free | State::Abandoned => Poll::Pending,
        }
    }

    /// Nobody waits for the request any more. Its slot and leases stay taken until the completion comes.
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        let Some(slot) = self.slots.get_mut(ticket.index as usize) else { return };
        match slot.state {
            State::InFlight(_) => slot.state = State::Abandoned,
            State::Done(_) => self.free(ticket),
            State::Free | State::Abandoned => {}
        }
    }

    /// Wakes everybody who waits, for there is something else to learn.
    pub(crate) fn wake_all(&mut self) {
        for slot in &mut self.slots {
            if let State::InFlight(waker) = &mut slot.state {
                waker.take().into_iter().for_each(Waker::wake);
            }
        }
    }

    fn free(&mut self, ticket: Ticket) {
        let Some(slot) = self.slots.get_mut(ticket.index as usize) else { return };
        slot.state = State::Free;
        slot.held = Held::nothing();
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(ticket.index);
    }
}
