//! The requests in flight whose completion is awaited by choice, each with the time of its submission.
//!
//! Requests without a choice are not here and cost nothing. A slot knows its request's place here; places begin at 1, and 0 is none.

use super::Completion;
use super::choice::{Means, Wait};
use super::estimate::{Class, Estimates};
use alloc::vec::Vec;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    /// The request's slot.
    index: u32,
    completion: Completion,
    class: Class,
    /// Time of its submission, ticks.
    since: u64,
}

/// Bytes of the heap for each slot.
pub(crate) const SLOT_BYTES: usize = size_of::<Chosen>();

/// The way in which a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Done at its first try: its time counts.
    AtOnce,
    /// Otherwise.
    Otherwise,
}

/// Requests that are awaited, and what they are expected to take.
#[derive(Debug)]
pub(crate) struct Awaited {
    /// Never grows beyond its initial capacity: there are as many slots.
    requests: Vec<Chosen>,
    estimates: Estimates,
    /// Time of the current poll, ticks.
    now: u64,
    /// The client slept without a signal before the current poll.
    slept: bool,
}

impl Awaited {
    /// Creates an empty table for the requests of `slots` slots.
    pub(crate) fn new(slots: u32) -> Self {
        Self { requests: Vec::with_capacity(slots as usize), estimates: Estimates::new(), now: 0, slept: false }
    }

    /// Whether there are none.
    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Number of requests.
    pub(crate) fn count(&self) -> u32 {
        // As many as slots at most.
        self.requests.len() as u32
    }

    /// Adds the request in slot `index`. Returns its place.
    pub(crate) fn add(&mut self, index: u32, completion: Completion, class: Class, now: u64) -> u32 {
        self.requests.push(Chosen { index, completion, class, since: now });
        self.count()
    }

    /// Changes the choice of the request at `place`.
    pub(crate) fn change(&mut self, place: u32, completion: Completion) {
        if let Some(chosen) = self.requests.get_mut(place.wrapping_sub(1) as usize) {
            chosen.completion = completion;
        }
    }

    /// Begins a poll.
    pub(crate) const fn begin_poll(&mut self, now: u64) {
        self.now = now;
    }

    /// Ends a poll.
    pub(crate) const fn end_poll(&mut self) {
        self.slept = false;
    }

    /// Removes the request at `place`, which ended. Returns the slot whose request has that place now, if one has.
    pub(crate) fn end(&mut self, place: u32, ended: Ended) -> Option<u32> {
        let position = place.wrapping_sub(1) as usize;
        let Chosen { completion, class, since, .. } = *self.requests.get(position)?;
        self.requests.swap_remove(position);
        let ticks = self.now.saturating_sub(since);
        let sleeps = matches!(completion, Completion::SleepThenPoll | Completion::Automatic);
        match ended {
            Ended::AtOnce if self.slept && sleeps => self.estimates.measure_late(class, ticks),
            Ended::AtOnce => self.estimates.measure(class, ticks),
            Ended::Otherwise => {}
        }
        self.requests.get(position).map(|moved| moved.index)
    }

    /// Decides how to wait for these requests; `others` is whether there are requests in flight beside them.
    pub(crate) fn wait(&mut self, means: Means, now: u64, others: bool) -> Wait {
        let estimates = &self.estimates;
        let is_alone = !others && self.requests.len() == 1;
        let waits = self.requests.iter().map(|chosen| {
            let elapsed = now.saturating_sub(chosen.since);
            means.wait(chosen.completion, elapsed, estimates.expected(chosen.class), is_alone)
        });
        let others = others.then(|| means.default_wait());
        let wait = others.into_iter().chain(waits).reduce(Wait::and).unwrap_or_else(|| means.default_wait());
        self.slept = !wait.polls && !wait.signal;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blk_api::request::Opcode;
    use proptest::prelude::*;

    fn class() -> Class {
        Class::of(Opcode::Read as u8, 4096)
    }

    /// On a clock of nanoseconds.
    fn means() -> Means {
        Means::new(1_000_000_000, false, false, true)
    }

    #[test]
    fn request_that_was_retried_leaves_the_estimate_alone() {
        let mut awaited = Awaited::new(4);
        for (ended, expected) in [(Ended::Otherwise, None), (Ended::AtOnce, Some(300))] {
            let place = awaited.add(0, Completion::Polled, class(), 100);
            awaited.begin_poll(400);
            assert_eq!(awaited.end(place, ended), None);
            assert_eq!(awaited.estimates.expected(class()), expected);
        }
    }

    #[test]
    fn default_request_beside_others_is_waited_for_too() {
        let mut awaited = Awaited::new(4);
        let place = awaited.add(0, Completion::SleepThenPoll, class(), 0);
        awaited.begin_poll(1_000_000);
        awaited.end(place, Ended::AtOnce);
        awaited.add(0, Completion::SleepThenPoll, class(), 0);
        let asleep = Wait { alarm: Some(3), ..Wait::SIGNAL };
        assert_eq!(awaited.wait(means(), 0, false), Wait { signal: false, ..asleep });
        assert_eq!(awaited.wait(means(), 0, true), asleep);
        awaited.add(1, Completion::Polled, class(), 0);
        assert_eq!(awaited.wait(means(), 0, true), Wait::POLL);
    }

    proptest! {
        #[test]
        fn every_slot_knows_its_place(ends in prop::collection::vec(0..8u32, 1..60)) {
            let (mut awaited, mut places) = (Awaited::new(8), [0u32; 8]);
            for index in ends {
                let place = core::mem::take(&mut places[index as usize]);
                if place == 0 {
                    places[index as usize] = awaited.add(index, Completion::Automatic, class(), 0);
                } else if let Some(moved) = awaited.end(place, Ended::AtOnce) {
                    places[moved as usize] = place;
                }
                let taken = places.iter().zip(0u32..).filter(|(place, _)| **place > 0);
                for (place, index) in taken.clone() {
                    prop_assert_eq!(awaited.requests[*place as usize - 1].index, index);
                }
                prop_assert_eq!(taken.count(), awaited.requests.len());
            }
        }
    }
}
