//! The supervisor's timer on AArch64: the processor's own, which no other address space may touch.

use platform::{IrqSource, OutOfBounds, Paddr, Trigger};
use platform_sel4::{Sel4Mmio, TIMER_LINE, TimerRegisters};
use root_task::BuildError;
use root_task::timer::{OneShot, is_reached};

/// It has no registers in memory.
pub(crate) fn timer(_: impl FnOnce(Paddr) -> Result<Sel4Mmio, BuildError>) -> Result<Timer, BuildError> {
    Ok(Timer(TimerRegisters))
}

#[derive(Debug)]
pub(crate) struct Timer(TimerRegisters);

impl OneShot for Timer {
    fn source(&self) -> IrqSource {
        IrqSource::Line { line: TIMER_LINE, trigger: Trigger::LevelLow }
    }

    /// It always runs.
    fn start(&self) -> Result<(), OutOfBounds> {
        Ok(())
    }

    /// The counter's low half.
    fn now(&self) -> Result<u32, OutOfBounds> {
        Ok(self.0.counter() as u32)
    }

    fn arm(&self, deadline: u32) -> Result<bool, OutOfBounds> {
        let counter = self.0.counter();
        // A deadline that has been reached is behind the counter.
        let distance = i64::from(deadline.wrapping_sub(counter as u32).cast_signed());
        self.0.set_deadline(counter.wrapping_add_signed(distance));
        Ok(is_reached(deadline, self.now()?))
    }

    fn disarm(&self) -> Result<(), OutOfBounds> {
        self.0.disarm();
        Ok(())
    }

    fn ticks_in(&self, microseconds: u32) -> u32 {
        let ticks = u128::from(microseconds) * u128::from(self.0.ticks_per_second()) / 1_000_000;
        u32::try_from(ticks).unwrap_or(u32::MAX).clamp(1, i32::MAX as u32)
    }
}
