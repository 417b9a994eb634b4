//! Fix `interrupt-direction`: an exception while string instructions run backwards.
//!
//! The root task alone sees no difference as long as the compiler puts no string instruction there, so the build machine looks:
//! QEMU logs the processor's flags where the kernel's compiled code begins, and this program sees to it that the flag is set
//! before.

use core::arch::asm;

use crate::machine::{HIGHEST, Machine};
use crate::sys::{self, PROBED, Slot, values};
use crate::verdict::{Check, need};

pub(crate) fn run(machine: &mut Machine) -> Check {
    let endpoint = machine.object(values::ENDPOINT_OBJECT)?;
    machine.start(backwards, 0, endpoint, HIGHEST)?;
    need(sys::receive(endpoint).label != PROBED, "a thread that reads address 0 does not fault")
}

/// The program of a second thread: reads `address`, where nothing is mapped, with the flag set.
extern "C" fn backwards(address: usize, _: Slot) -> ! {
    // SAFETY: the thread faults in the second instruction, and nobody resumes it.
    unsafe { asm!("std", "mov rax, [rdi]", "ud2", in("rdi") address, options(noreturn)) }
}
