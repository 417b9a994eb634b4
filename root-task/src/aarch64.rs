//! The supervisor's timer on AArch64: the processor's own, which no other address space may touch.

use platform::Paddr;
use platform_sel4::{Sel4Mmio, TIMER_LINE, TimerRegisters};
use root_task::BuildError;
use root_task::generic_timer::{GenericTimer, Registers};

pub(crate) type Timer = GenericTimer<Own>;

/// Returns the timer, which has no registers in memory.
pub(crate) fn timer(_: impl FnOnce(Paddr) -> Result<Sel4Mmio, BuildError>) -> Result<Timer, BuildError> {
    Ok(GenericTimer::new(Own(TimerRegisters), TIMER_LINE))
}

/// The processor's registers.
#[derive(Debug)]
pub(crate) struct Own(TimerRegisters);

impl Registers for Own {
    fn counter(&self) -> u64 {
        self.0.counter()
    }

    fn ticks_per_second(&self) -> u64 {
        self.0.ticks_per_second()
    }

    fn set_deadline(&self, deadline: u64) {
        self.0.set_deadline(deadline);
    }

    fn disarm(&self) {
        self.0.disarm();
    }
}
