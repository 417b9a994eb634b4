//! Whom to look at: a bit for each session, so that a pass costs what those sessions cost that may have something, however
//! many there are.

use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use platform::Badge;

/// Bits of a badge.
const BADGE_BITS: usize = 64;

/// The sessions to look at in the next pass, and which signals may concern whom.
pub(crate) struct Board {
    marked: Cell<u128>,
    /// By bit of a badge.
    hearers: RefCell<[u128; BADGE_BITS]>,
}

impl Board {
    /// With nobody marked, and nobody who hears anything.
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self { marked: Cell::new(0), hearers: RefCell::new([0; BADGE_BITS]) })
    }

    /// Those that are marked.
    #[inline]
    pub(crate) fn marked(&self) -> Bits {
        Bits(self.marked.get())
    }

    /// Those that a signal with this badge may concern.
    #[inline]
    pub(crate) fn hearers(&self, badge: Badge) -> Bits {
        let hearers = self.hearers.borrow();
        // What is not said of sessions concerns nobody, and its bits are not looked up.
        let (mut bits, mut all) = (badge.0 & !(Badge::SIGNAL | Badge::TICK | Badge::ALARM), 0);
        while bits != 0 {
            all |= hearers.get(bits.trailing_zeros() as usize).copied().unwrap_or(0);
            bits &= bits.wrapping_sub(1);
        }
        Bits(all)
    }
}

/// One session's place on the board.
pub(crate) struct Mark {
    board: Rc<Board>,
    bit: u128,
}

impl Mark {
    /// Of session `index`.
    pub(crate) fn new(board: &Rc<Board>, index: usize) -> Self {
        // Sessions are no more than bits.
        let Bits(bit) = Bits::from_iter([index]);
        Self { board: Rc::clone(board), bit }
    }

    /// From now on signals with any of these bits may concern it.
    pub(crate) fn hears(&self, bits: u64) {
        let mut hearers = self.board.hearers.borrow_mut();
        for bit in Bits(u128::from(bits)) {
            if let Some(hearers) = hearers.get_mut(bit) {
                *hearers |= self.bit;
            }
        }
    }

    /// Whether it is looked at in the next pass.
    #[inline]
    pub(crate) fn set(&self, marked: bool) {
        let others = self.board.marked.get() & !self.bit;
        self.board.marked.set(if marked { others | self.bit } else { others });
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

    /// The same numbers, from `first` on and then those below.
    #[inline]
    pub(crate) fn from(self, first: usize) -> impl Iterator<Item = usize> {
        if self.0 & self.0.wrapping_sub(1) == 0 {
            // There is no order of one.
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
        // By words, which are what a processor has.
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
    fn a_signal_concerns_those_who_hear_one_of_its_bits_and_marks_are_each_ones_own() {
        let board = Board::new();
        let (first, last) = (Mark::new(&board, 0), Mark::new(&board, 127));
        first.hears(0b101);
        last.hears(0b110);
        let hearers = |badge| board.hearers(Badge(badge)).collect::<Vec<_>>();
        assert_eq!((hearers(0b001), hearers(0b010), hearers(0b100)), (vec![0], vec![127], vec![0, 127]));
        assert!(board.hearers(Badge(0b1000)).is_empty());
        first.set(true);
        last.set(true);
        first.set(false);
        assert_eq!(board.marked().collect::<Vec<_>>(), [127]);
    }
}
