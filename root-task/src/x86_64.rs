//! The supervisor's timer on x86_64: the HPET.

use platform::Paddr;
use platform_sel4::Sel4Mmio;
use root_task::BuildError;
use root_task::hpet::{self, Hpet};

/// Address of the HPET on q35, as on most machines. It is also in the ACPI tables.
const HPET: Paddr = Paddr::new(0xfed0_0000);

pub(crate) type Timer = Hpet<Sel4Mmio>;

pub(crate) fn timer(registers: impl FnOnce(Paddr) -> Result<Sel4Mmio, BuildError>) -> Result<Timer, BuildError> {
    hpet::at(HPET, registers)
}
