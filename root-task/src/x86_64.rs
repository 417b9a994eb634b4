//! The supervisor's timer on x86_64: the HPET.

use platform::Paddr;
use platform_sel4::Sel4Mmio;
use root_task::BuildError;
use root_task::hpet::{self, Hpet};

/// Where q35 has its HPET, as most machines do. The ACPI tables would tell.
const HPET: Paddr = Paddr::new(0xfed0_0000);

pub(crate) type Timer = Hpet<Sel4Mmio>;

pub(crate) fn timer(registers: impl FnOnce(Paddr) -> Result<Sel4Mmio, BuildError>) -> Result<Timer, BuildError> {
    hpet::at(HPET, registers)
}
