//! The time that requests are expected to take, by operation and size, from those that were measured.
//!
//! Pure arithmetic on ticks of the clock. Each class has an exponentially weighted mean, in which a measurement has the weight
//! 1/8. So the mean follows a device whose speed changes within some ten requests, and one late request moves it little.
//! A class that was never measured is unknown.

use blk_api::operation::{Kind, Opcode};

/// Size classes: up to 512 bytes, up to twice that, and so on up to 2 MiB, and beyond.
const SIZES: usize = 14;
/// Kinds of operations: reads, writes, and those without data.
const OPERATIONS: usize = 3;
/// The logarithm of the size of the first class.
const SMALLEST_SHIFT: u32 = 9;
/// The logarithm of a measurement's weight.
const WEIGHT_SHIFT: u32 = 3;
/// The longest time that counts, so that sums do not overflow.
const LONGEST: u64 = u64::MAX >> 8;

/// A class of requests that are expected to take as long as each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Class(u8);

impl Class {
    /// The class of a request.
    pub(crate) fn of(opcode: u8, bytes: u64) -> Self {
        let operation = match Opcode::from_raw(opcode).filter(|opcode| opcode.moves_data()).map(Opcode::kind) {
            Some(Kind::Read) => 0,
            Some(Kind::Write) => 1,
            Some(Kind::Other) | None => 2,
        };
        // The logarithm, rounded up: at most 64.
        let shift = u64::BITS.saturating_sub(bytes.saturating_sub(1).leading_zeros());
        let size = (shift.saturating_sub(SMALLEST_SHIFT) as usize).min(SIZES.saturating_sub(1));
        // Below 42.
        Self(SIZES.saturating_mul(operation).saturating_add(size) as u8)
    }
}

/// A mean of measured times, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Mean {
    /// The mean times 8; `None` before the first measurement.
    scaled: Option<u64>,
}

impl Mean {
    fn ticks(self) -> Option<u64> {
        self.scaled.map(|scaled| scaled >> WEIGHT_SHIFT)
    }

    fn measure(&mut self, ticks: u64) {
        let ticks = ticks.min(LONGEST);
        self.scaled = Some(match self.scaled {
            None => ticks << WEIGHT_SHIFT,
            Some(scaled) => scaled.saturating_sub(scaled >> WEIGHT_SHIFT).saturating_add(ticks),
        });
    }
}

/// The means of all classes.
#[derive(Clone, Debug)]
pub(crate) struct Estimates([Mean; SIZES * OPERATIONS]);

impl Estimates {
    /// Nothing is known.
    pub(crate) const fn new() -> Self {
        Self([Mean { scaled: None }; SIZES * OPERATIONS])
    }

    /// Ticks that a request of this class is expected to take, if any was measured.
    pub(crate) fn expected(&self, class: Class) -> Option<u64> {
        self.0.get(usize::from(class.0)).copied().unwrap_or_default().ticks()
    }

    /// A request of this class took `ticks`.
    pub(crate) fn measure(&mut self, class: Class, ticks: u64) {
        if let Some(mean) = self.0.get_mut(usize::from(class.0)) {
            mean.measure(ticks);
        }
    }

    /// A request of this class was found done after a sleep, `ticks` after its submission: it took that long at most. Three quarters
    /// of what was expected are counted, so that the next sleep is a little shorter.
    pub(crate) fn measure_late(&mut self, class: Class, ticks: u64) {
        let shorter = self.expected(class).map_or(ticks, |expected| expected.saturating_sub(expected >> 2));
        self.measure(class, ticks.min(shorter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const READ: u8 = Opcode::Read as u8;
    const WRITE: u8 = Opcode::Write as u8;

    fn after(times: &[u64]) -> u64 {
        let (mut estimates, class) = (Estimates::new(), Class::of(READ, 4096));
        times.iter().for_each(|ticks| estimates.measure(class, *ticks));
        estimates.expected(class).expect("it was measured")
    }

    #[test]
    fn a_class_is_a_power_of_two_of_one_operation() {
        assert_eq!(Class::of(READ, 512), Class::of(READ, 0));
        assert_eq!(Class::of(READ, 513), Class::of(READ, 1024));
        assert_ne!(Class::of(READ, 1024), Class::of(READ, 1025));
        assert_ne!(Class::of(READ, 4096), Class::of(WRITE, 4096));
        assert_eq!(Class::of(READ, 4 << 20), Class::of(READ, u64::MAX), "there is a last one");
        assert_eq!(Class::of(Opcode::Flush as u8, 0), Class::of(Opcode::Discard as u8, 0));
        assert_eq!(Class::of(Opcode::Flush as u8, 0), Class::of(Opcode::Verify as u8, 0));
        assert_eq!(Class::of(Opcode::Compare as u8, 4096), Class::of(READ, 4096));
    }

    #[test]
    fn unknown_class_has_no_expectation() {
        let mut estimates = Estimates::new();
        estimates.measure(Class::of(READ, 4096), 100);
        assert_eq!(estimates.expected(Class::of(READ, 8192)), None);
        assert_eq!(estimates.expected(Class::of(READ, 4096)), Some(100));
    }

    #[test]
    fn mean_follows_a_device_that_becomes_slower() {
        let mut times = vec![100; 50];
        times.extend([1000; 40]);
        assert!((980..=1000).contains(&after(&times)), "{}", after(&times));
    }

    #[test]
    fn sleeps_that_are_too_long_become_shorter() {
        let (mut estimates, class) = (Estimates::new(), Class::of(READ, 4096));
        estimates.measure(class, 800);
        (0..60).for_each(|_| estimates.measure_late(class, 900));
        assert!(estimates.expected(class) < Some(200), "{:?}", estimates.expected(class));
    }

    proptest! {
        #[test]
        fn mean_is_between_the_least_and_the_most(times in prop::collection::vec(0..u64::MAX, 1..100)) {
            let bounded = times.iter().map(|ticks| (*ticks).min(LONGEST));
            let (least, most) = (bounded.clone().min().unwrap(), bounded.max().unwrap());
            prop_assert!((least..=most).contains(&after(&times)));
        }

        #[test]
        fn constant_times_are_expected_exactly(ticks in 0..LONGEST, count in 1..100usize) {
            prop_assert_eq!(after(&vec![ticks; count]), ticks);
        }

        #[test]
        fn late_measurement_never_lengthens_a_sleep(first in 0..LONGEST, late in 0..u64::MAX) {
            let (mut estimates, class) = (Estimates::new(), Class::of(READ, 512));
            estimates.measure(class, first);
            estimates.measure_late(class, late);
            prop_assert!(estimates.expected(class) <= Some(first));
        }

        #[test]
        fn every_request_has_a_class_that_counts(bytes: u64, opcode: u8) {
            let (mut estimates, class) = (Estimates::new(), Class::of(opcode, bytes));
            estimates.measure(class, 7);
            prop_assert_eq!(estimates.expected(class), Some(7));
        }
    }
}
