//! Whether a session may run now, and the set of those that are polled in the next pass.
//!
//! ```text
//!                     signal, completion, tick
//!        Asleep ----------------------------------> Ready { idle_polls } <---+ polled on: commands are in flight,
//!          ^                                          |  |  |  |             | or few polls in a row found nothing
//!          |   nothing to take; the client signals    |  |  |  +-------------+
//!          +------------------------------------------+  |  |
//!                                                        |  +--> WaitsTurn   until the scheduling policy serves it
//!                         something to take, and no turn |
//!                         or no room for it              +--+--> HeldBack    until the tick, or a record is installed
//!                                                           +--> NoRoom      until a command completes in its queue pairs
//! ```
//!
//! Every state but `Ready` goes to `Ready` by the event that it waits for, and at each tick, so that a lost signal costs time and no
//! more. The ready set has a bit for each session in `Ready`: the cost of a pass depends on those sessions alone. A session falls
//! asleep in two steps, which `blk-api/tests/sleep.rs` shows to lose nothing: the client is asked to signal, then the ring is looked
//! at again. Left out: the order of those that wait for a turn (`schedule`).

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use platform::Badge;

/// Bits of a badge.
const BADGE_BITS: usize = 64;

/// The sessions to poll in the next pass, and which signals may concern which session.
pub(crate) struct ReadySet {
    ready: Cell<u128>,
    /// By bit of a badge.
    listeners: RefCell<[u128; BADGE_BITS]>,
}

impl ReadySet {
    /// Creates a set with no session ready and no listener.
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self { ready: Cell::new(0), listeners: RefCell::new([0; BADGE_BITS]) })
    }

    /// The ready sessions.
    #[inline]
    pub(crate) fn sessions(&self) -> Bits {
        Bits(self.ready.get())
    }

    /// The sessions that a signal with this badge may concern.
    #[inline]
    pub(crate) fn listeners(&self, badge: Badge) -> Bits {
        let listeners = self.listeners.borrow();
        // Ticks and alarms concern no session, and their bits are not looked up.
        let (mut bits, mut all) = (badge.0 & !(Badge::SIGNAL | Badge::TICK | Badge::ALARM), 0);
        while bits != 0 {
            all |= listeners.get(bits.trailing_zeros() as usize).copied().unwrap_or(0);
            bits &= bits.wrapping_sub(1);
        }
        Bits(all)
    }
}

/// Whether a session may run now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readiness {
    /// There is nothing to do for it, and a signal tells when there is.
    Asleep,
    /// The session is polled in the next pass, after some polls in a row that found nothing.
    Ready { idle_polls: u16 },
    /// The session has entries, and the scheduling policy knows that it waits.
    WaitsTurn,
    /// The session has entries, and its refusals are used up, or its client has taken no answers.
    HeldBack,
    /// The session has entries, and its queue pairs are full.
    NoRoom,
}

/// A session's readiness, with its bit of the ready set.
pub(crate) struct Place {
    set: Rc<ReadySet>,
    bit: u128,
    readiness: Readiness,
}

impl Place {
    /// The place of session `index`, which is asleep.
    pub(crate) fn new(set: &Rc<ReadySet>, index: usize) -> Self {
        // Sessions are no more than bits.
        let Bits(bit) = Bits::from_iter([index]);
        Self { set: Rc::clone(set), bit, readiness: Readiness::Asleep }
    }

    /// Adds it to the listeners of signals with any of these bits.
    pub(crate) fn listen(&self, bits: u64) {
        let mut listeners = self.set.listeners.borrow_mut();
        for bit in Bits(u128::from(bits)) {
            if let Some(listeners) = listeners.get_mut(bit) {
                *listeners |= self.bit;
            }
        }
    }

    /// The session's readiness.
    #[inline(always)]
    pub(crate) const fn readiness(&self) -> Readiness {
        self.readiness
    }

    /// Polls in a row that found nothing.
    #[inline(always)]
    pub(crate) const fn idle_polls(&self) -> u16 {
        if let Readiness::Ready { idle_polls } = self.readiness { idle_polls } else { 0 }
    }

    /// Sets the session's readiness.
    #[inline(always)]
    pub(crate) fn set(&mut self, readiness: Readiness) {
        self.readiness = readiness;
        let ready = self.set.ready.get();
        let is_ready = matches!(readiness, Readiness::Ready { .. });
        self.set.ready.set(if is_ready { ready | self.bit } else { ready & !self.bit });
    }

    /// Has it polled in the next pass, because something may have happened.
    #[inline]
    pub(crate) fn wake(&mut self) {
        self.set(Readiness::Ready { idle_polls: 0 });
    }

    /// Has it polled in the next pass, if it was not to be polled anyway.
    #[inline]
    pub(crate) fn wake_too(&mut self) {
        if !matches!(self.readiness, Readiness::Ready { .. }) {
            self.wake();
        }
    }
}

/// The numbers of the bits that are set, the least first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bits(u128);

/// Bits of a word.
const WORD_BITS: usize = 64;

impl FromIterator<usize> for Bits {
    /// Numbers beyond the last bit are left out.
    fn from_iter<T: IntoIterator<Item = usize>>(numbers: T) -> Self {
        let bit = |number| u32::try_from(number).ok().and_then(|number| 1u128.checked_shl(number)).unwrap_or(0);
        Self(numbers.into_iter().fold(0, |bits, number| bits | bit(number)))
    }
}

impl Bits {
    /// Whether there are none.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of the bits, from `first` on and then those below.
    #[inline]
    pub(crate) fn from(self, first: usize) -> impl Iterator<Item = usize> {
        if self.0 & self.0.wrapping_sub(1) == 0 {
            // One session needs no order.
            return self.chain(Self(0));
        }
        let below = u32::try_from(first).ok().and_then(|first| 1u128.checked_shl(first)).unwrap_or(0).wrapping_sub(1);
        Self(self.0 & !below).chain(Self(self.0 & below))
    }
}

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        // By words, the size that a processor handles at once.
        let (low, high) = (self.0 as u64, (self.0 >> WORD_BITS) as u64);
        if low != 0 {
            self.0 = u128::from(high) << WORD_BITS | u128::from(low & low.wrapping_sub(1));
            return Some(low.trailing_zeros() as usize);
        }
        if high == 0 {
            return None;
        }
        self.0 = u128::from(high & high.wrapping_sub(1)) << WORD_BITS;
        Some((high.trailing_zeros() as usize).wrapping_add(WORD_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn bits_go_round_from_anywhere() {
        let bits = Bits(1 << 63 | 1 << 5 | 1);
        assert_eq!(bits.collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!(bits.from(0).collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!(bits.from(5).collect::<Vec<_>>(), [5, 63, 0]);
        assert_eq!(bits.from(6).collect::<Vec<_>>(), [63, 0, 5]);
    }

    #[test]
    fn signal_readies_each_listener_separately() {
        let set = ReadySet::new();
        let (mut first, mut last) = (Place::new(&set, 0), Place::new(&set, 127));
        first.listen(0b101);
        last.listen(0b110);
        let listeners = |badge| set.listeners(Badge(badge)).collect::<Vec<_>>();
        assert_eq!((listeners(0b001), listeners(0b010), listeners(0b100)), (vec![0], vec![127], vec![0, 127]));
        assert!(set.listeners(Badge(0b1000)).is_empty());
        first.wake();
        last.wake();
        first.set(Readiness::NoRoom);
        assert_eq!(set.sessions().collect::<Vec<_>>(), [127]);
    }

    #[test]
    fn the_ready_set_has_who_is_ready() {
        let set = ReadySet::new();
        let mut place = Place::new(&set, 3);
        for readiness in [Readiness::Asleep, Readiness::WaitsTurn, Readiness::HeldBack, Readiness::NoRoom] {
            place.set(Readiness::Ready { idle_polls: 7 });
            place.wake_too();
            assert_eq!((place.idle_polls(), set.sessions().count()), (7, 1), "it was to be polled anyway");
            place.set(readiness);
            assert!(set.sessions().is_empty() && place.idle_polls() == 0);
            place.wake_too();
            assert_eq!(place.readiness(), Readiness::Ready { idle_polls: 0 });
        }
    }
}
