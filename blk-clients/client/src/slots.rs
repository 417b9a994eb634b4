//! Requests in flight: a fixed table, made when the session is opened.
//!
//! A request is known by its slot's index and the slot's generation, which together are the word the server hands back:
//! a completion with a word of an earlier life of the slot is recognised. A slot holds the request's leases until the
//! completion came, whether anybody still waits or not.
//!
//! A request that missed a record stays in flight, in a queue of its own, until it is made again or ended.

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

#[derive(Debug)]
struct Slot<M: Memory> {
    generation: u32,
    state: State,
    held: Held<M>,
    /// What was asked, and when in the order of asking: to ask again when the server died with it.
    entry: Entry,
    order: u64,
    /// Times it missed a record.
    misses: u8,
    /// It did, and was not made again so far: it is on no ring.
    is_missed: bool,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Slots<M: Memory> {
    slots: Vec<Slot<M>>,
    free: Vec<u32>,
    in_flight: u32,
    asked: u64,
    /// Places of those that missed, in their order. Never grows beyond what it was made for.
    missed: VecDeque<u32>,
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
            misses: 0,
            is_missed: false,
        };
        Self {
            slots: (0..count).map(slot).collect(),
            free: (0..count).rev().collect(),
            in_flight: 0,
            asked: 0,
            missed: VecDeque::with_capacity(count as usize),
        }
    }

    /// Requests whose completion has not come.
    pub(crate) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The ticket the next [`Slots::begin`] gives, if a slot is free.
    pub(crate) fn next(&self) -> Option<Ticket> {
        let index = *self.free.last()?;
        let slot = self.slots.get(index as usize)?;
        Some(Ticket { index, generation: slot.generation })
    }

    /// Takes the slot that [`Slots::next`] told of, for what `entry` asks.
    pub(crate) fn begin(&mut self, entry: Entry, held: Held<M>) {
        self.asked = self.asked.wrapping_add(1);
        let Some(slot) = self.free.pop().and_then(|index| self.slots.get_mut(index as usize)) else { return };
        slot.state = State::InFlight(None);
        slot.held = held;
        slot.entry = entry;
        slot.order = self.asked;
        slot.misses = 0;
        slot.is_missed = false;
        self.in_flight = self.in_flight.saturating_add(1);
    }

    /// What is in flight, in the order in which it was asked.
    pub(crate) fn unanswered(&self) -> Vec<Entry> {
        let in_flight = |slot: &&Slot<M>| matches!(slot.state, State::InFlight(_) | State::Abandoned);
        let mut slots: Vec<_> = self.slots.iter().filter(in_flight).collect();
        slots.sort_unstable_by_key(|slot| slot.order);
        slots.into_iter().map(|slot| slot.entry).collect()
    }

    /// Takes the answer that a request missed a record: whether it is to be made again.
    ///
    /// # Errors
    /// [`Error::UnknownCompletion`] when no request with its word is in flight.
    pub(crate) fn miss(&mut self, completed: &Completed) -> Result<bool, Error> {
        let ticket = Ticket::from_user_data(completed.user_data);
        let slot = self.slots.get_mut(ticket.index as usize).filter(|slot| slot.generation == ticket.generation);
        let is_in_flight = |slot: &&mut Slot<M>| matches!(slot.state, State::InFlight(_) | State::Abandoned);
        let slot = slot.filter(is_in_flight).filter(|slot| !slot.is_missed).ok_or(Error::UnknownCompletion)?;
        if slot.misses >= MOST_MISSES {
            return Ok(false);
        }
        slot.misses = slot.misses.saturating_add(1);
        slot.is_missed = true;
        self.missed.push_back(ticket.index);
        Ok(true)
    }

    /// The first request that missed and was not made again.
    pub(crate) fn missed(&self) -> Option<Entry> {
        let index = *self.missed.front()?;
        self.slots.get(index as usize).map(|slot| slot.entry)
    }

    /// Takes it: it is on its way again, or at its end.
    pub(crate) fn take_missed(&mut self) -> Option<Entry> {
        let slot = self.missed.pop_front().and_then(|index| self.slots.get_mut(index as usize))?;
        slot.is_missed = false;
        Some(slot.entry)
    }

    /// All of them are on their way again.
    pub(crate) fn forget_misses(&mut self) {
        while self.take_missed().is_some() {}
    }

    /// Takes a completion to the request it is for.
    ///
    /// # Errors
    /// [`Error::UnknownCompletion`] when no request with its word is in flight.
    pub(crate) fn complete(&mut self, completed: &Completed) -> Result<(), Error> {
        let ticket = Ticket::from_user_data(completed.user_data);
        let slot = self.slots.get_mut(ticket.index as usize).filter(|slot| slot.generation == ticket.generation);
        let slot = slot.filter(|slot| !slot.is_missed).ok_or(Error::UnknownCompletion)?;
        match &mut slot.state {
            State::Free | State::Done(_) => return Err(Error::UnknownCompletion),
            State::InFlight(waker) => {
                let waker = waker.take();
                slot.state = State::Done(*completed);
                slot.held = Held::nothing();
                waker.into_iter().for_each(Waker::wake);
            }
            State::Abandoned => self.free(ticket),
        }
        self.in_flight = self.in_flight.saturating_sub(1);
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
