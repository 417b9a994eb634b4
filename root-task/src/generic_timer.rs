//! The processor's own timer on AArch64, the physical half of the generic timer: a counter of 64 bits that always runs, and
//! a comparator that interrupts from the moment on at which the counter has reached it (Arm ARM DDI 0487, section D12.2).

use crate::timer::{OneShot, is_reached};
use platform::{IrqSource, OutOfBounds, Trigger};

/// The timer's registers.
pub trait Registers {
    /// The counter.
    fn counter(&self) -> u64;
    /// Ticks of the counter per second.
    fn ticks_per_second(&self) -> u64;
    /// Interrupts as long as the counter is at `deadline` or beyond, until another deadline is set.
    fn set_deadline(&self, deadline: u64);
    /// Interrupts no more until another deadline is set.
    fn disarm(&self);
}

/// The timer.
#[derive(Debug)]
pub struct GenericTimer<R> {
    registers: R,
    line: u8,
}

impl<R: Registers> GenericTimer<R> {
    /// The timer that interrupts at `line`.
    #[must_use]
    pub const fn new(registers: R, line: u8) -> Self {
        Self { registers, line }
    }
}

impl<R: Registers> OneShot for GenericTimer<R> {
    fn source(&self) -> IrqSource {
        IrqSource::Line { line: self.line, trigger: Trigger::LevelLow }
    }

    /// Does nothing, because the counter always runs.
    fn start(&self) -> Result<(), OutOfBounds> {
        Ok(())
    }

    /// The counter's low half.
    fn now(&self) -> Result<u32, OutOfBounds> {
        Ok(self.registers.counter() as u32)
    }

    fn arm(&self, deadline: u32) -> Result<bool, OutOfBounds> {
        let counter = self.registers.counter();
        // A reached deadline is behind the counter.
        let distance = i64::from(deadline.wrapping_sub(counter as u32).cast_signed());
        self.registers.set_deadline(counter.wrapping_add_signed(distance));
        Ok(is_reached(deadline, self.now()?))
    }

    fn disarm(&self) -> Result<(), OutOfBounds> {
        self.registers.disarm();
        Ok(())
    }

    fn ticks_in(&self, microseconds: u32) -> u32 {
        let ticks = u128::from(microseconds).saturating_mul(self.registers.ticks_per_second().into()) / 1_000_000;
        u32::try_from(ticks).unwrap_or(u32::MAX).clamp(1, i32::MAX as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// 62.5 MHz, as on QEMU; the counter stands still.
    #[derive(Default)]
    struct Still {
        counter: u64,
        deadline: Cell<Option<u64>>,
    }

    impl Registers for &Still {
        fn counter(&self) -> u64 {
            self.counter
        }

        fn ticks_per_second(&self) -> u64 {
            62_500_000
        }

        fn set_deadline(&self, deadline: u64) {
            self.deadline.set(Some(deadline));
        }

        fn disarm(&self) {
            self.deadline.set(None);
        }
    }

    #[test]
    fn a_deadline_has_the_counters_upper_half_and_carries_into_it() {
        for (counter, deadline, set, reached) in [
            (5 << 32 | 100, 200, 5 << 32 | 200, false),
            (5 << 32 | 100, 100, 5 << 32 | 100, true),
            (5 << 32 | 100, 50, 5 << 32 | 50, true),
            (6 << 32 | 0xffff_fff0, 0x10, 7 << 32 | 0x10, false),
            (6 << 32 | 0x10, 0xffff_fff0, 5 << 32 | 0xffff_fff0, true),
        ] {
            let registers = Still { counter, ..Still::default() };
            let timer = GenericTimer::new(&registers, 30);
            assert_eq!((timer.arm(deadline), registers.deadline.get()), (Ok(reached), Some(set)), "{counter:#x}");
            assert_eq!((timer.disarm(), registers.deadline.get()), (Ok(()), None));
        }
    }

    #[test]
    fn ticks_are_the_counters() {
        let registers = Still::default();
        let timer = GenericTimer::new(&registers, 30);
        assert_eq!((timer.ticks_in(50_000), timer.ticks_in(0)), (3_125_000, 1));
        assert_eq!(timer.ticks_in(u32::MAX), i32::MAX as u32);
    }
}
