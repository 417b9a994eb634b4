//! Fix `timer-owner`: only the first address space may use the physical timer; all may read the counters.

use core::arch::asm;

use super::{counter, timer};
use crate::machine::{HIGHEST, Machine};
use crate::own_space::OwnSpace;
use crate::sys::{self, Slot, values};
use crate::verdict::{Check, defect_if, need};

pub(crate) fn run(machine: &mut Machine) -> Check {
    defect_if(!reports(machine, counter())?, "another address space cannot read the counter")?;
    defect_if(reports(machine, timer())?, "another address space reaches the physical timer")?;
    // Without access to the timer this is a fault that nobody handles.
    sys::print("the timer\n");
    let control: u64;
    // SAFETY: only reads the register.
    unsafe { asm!("mrs {}, cntp_ctl_el0", out(reg) control, options(nomem, nostack)) };
    need(control & 1 == 0, "the timer runs, and nobody started it")
}

/// Whether `program` comes to its end in an address space of its own, and does not fault.
fn reports(machine: &mut Machine, program: &[u8]) -> Check<bool> {
    let space = OwnSpace::new(machine, values::CAP_ASID_POOL as Slot, program)?;
    let endpoint = machine.object(values::ENDPOINT_OBJECT)?;
    space.start(machine, [0, endpoint], endpoint, HIGHEST)?;
    Ok(sys::receive(endpoint).label == sys::PROBED)
}
