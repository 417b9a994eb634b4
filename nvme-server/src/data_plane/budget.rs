//! A client's budget per tick for requests to the server that lead to no I/O.
//!
//! The server runs before its clients, so a call, an opening, or a signal without an entry takes time from other clients.
//! Each session has a number of them per tick; those beyond wait for the next tick. A caller waits with its call, so it
//! makes no more calls meanwhile.
//!
//! An entry that is refused costs no device time, so no scheduling policy holds it back. All sessions together have a
//! number of refusals per tick, in equal parts ([`refusals`]); the session counts its own.
//!
//! Left out: requests that reach the device, which the scheduling policy decides about; and the kernel's part. A client
//! that signals or sends without waiting for an answer still wakes the server each time, and no server can refuse that.

use platform::Allowance;

/// Calls answered at once.
const CALLS: u32 = 4096;
/// Openings: each has the controller make queues and leaves a record in the log.
const OPENINGS: u32 = 2;
/// Signals after which the poll found nothing.
const IDLE_SIGNALS: u32 = 1024;
/// Entries of all sessions together that are answered without a command. Each costs two crossings to its client; this
/// number of them takes less than one percent of a tick.
const REFUSALS: usize = 64;

/// A session's part of the refusals per tick, of this many sessions; at least one refusal.
pub(crate) fn refusals(sessions: usize) -> u16 {
    let part = REFUSALS.checked_div(sessions).unwrap_or(REFUSALS).max(1);
    u16::try_from(part).unwrap_or(u16::MAX)
}

/// A session's budget, since the last tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Budget {
    calls: Allowance,
    openings: Allowance,
    /// Signals that were followed by a poll, less the polls that found something.
    idle_signals: u32,
    max_idle_signals: u32,
}

impl Budget {
    /// Creates the budget of a session whose client alone signals with its badge.
    pub(crate) const fn new() -> Self {
        let (calls, openings) = (Allowance::new(CALLS), Allowance::new(OPENINGS));
        Self { calls, openings, idle_signals: 0, max_idle_signals: IDLE_SIGNALS }
    }

    /// Creates the budget of a session that shares its badge: its neighbour's signals must not use up its own.
    pub(crate) const fn with_shared_badge() -> Self {
        Self { max_idle_signals: u32::MAX, ..Self::new() }
    }

    /// Restores the budget at a tick.
    pub(crate) const fn refill(&mut self) {
        let Self { calls, openings, idle_signals, max_idle_signals: _ } = self;
        calls.refill();
        openings.refill();
        *idle_signals = 0;
    }

    /// Whether a call is answered now.
    pub(crate) const fn takes_call(&mut self) -> bool {
        self.calls.takes(1)
    }

    /// Whether an opening is begun now.
    pub(crate) const fn takes_opening(&mut self) -> bool {
        self.openings.takes(1)
    }

    /// Whether the session is polled for a signal now.
    #[inline(always)]
    pub(crate) const fn hears_signal(&mut self) -> bool {
        let hears = self.idle_signals < self.max_idle_signals;
        self.idle_signals = self.idle_signals.wrapping_add(hears as u32);
        hears
    }

    /// Takes one signal back from the count, because a poll found something.
    #[inline(always)]
    pub(crate) const fn found_something(&mut self) {
        self.idle_signals = self.idle_signals.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spurious_signals_are_bounded_per_tick() {
        let mut budget = Budget::new();
        for _ in 0..2 {
            assert_eq!((0..IDLE_SIGNALS * 2).filter(|_| budget.hears_signal()).count(), IDLE_SIGNALS as usize);
            budget.refill();
        }
    }

    #[test]
    fn signals_that_bring_something_are_always_heard() {
        let mut budget = Budget::new();
        for _ in 0..IDLE_SIGNALS * 4 {
            assert!(budget.hears_signal());
            budget.found_something();
        }
    }

    #[test]
    fn a_neighbour_with_the_same_badge_deafens_nobody() {
        let mut budget = Budget::with_shared_badge();
        assert!((0..IDLE_SIGNALS * 4).all(|_| budget.hears_signal()));
    }

    #[test]
    fn refusals_are_shared_and_nobody_is_without() {
        assert_eq!([1, 2, 32, 64, 128].map(refusals), [64, 32, 2, 1, 1]);
    }

    #[test]
    fn calls_and_openings_are_bounded_apart() {
        let mut budget = Budget::new();
        assert_eq!((0..CALLS * 2).filter(|_| budget.takes_call()).count(), CALLS as usize);
        assert_eq!((0..10).filter(|_| budget.takes_opening()).count(), OPENINGS as usize);
    }
}
