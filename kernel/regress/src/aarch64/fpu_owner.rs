//! Fix `fpu-owner`: the floating point registers of a deleted thread are written nowhere.

use core::arch::asm;

use crate::machine::{HIGHEST, Machine, PAGE};
use crate::sys::{self, PROBED, REGISTER_WORDS, Slot, message_info, values};
use crate::verdict::{Check, defect_if, need};

const PATTERN: u64 = 0x5eed_0005_5eed_0005;

/// The first thread fills the registers and is deleted, its memory becomes a page, and a second thread uses the registers:
/// for this the kernel saves them for their owner.
pub(crate) fn run(machine: &mut Machine) -> Check {
    let memory = machine.untyped(PAGE.ilog2() as u8)?;
    let endpoint = machine.object(values::ENDPOINT_OBJECT)?;
    let tcb = machine.retype(memory, values::TCB_OBJECT, 0)?;
    machine.start_made(tcb, floating, PATTERN as usize, endpoint, HIGHEST)?;
    need(sys::receive(endpoint).label == PROBED, "a thread cannot use the floating point registers")?;
    machine.delete(tcb)?;
    let page = machine.retype(memory, values::SMALL_PAGE_OBJECT, 0)?;
    let address = machine.map(page, values::WRITE_BACK as u64)?;
    machine.start(floating, 0, endpoint, HIGHEST)?;
    need(sys::receive(endpoint).label == PROBED, "a second thread cannot use the floating point registers")?;
    for word in (address..address + PAGE).step_by(8) {
        // SAFETY: the page is mapped there, and nothing of this program lies in it.
        let value: u64 = unsafe { sys::volatile_read(word) };
        defect_if(value != 0, "the kernel wrote a deleted thread's registers to memory that is somebody else's")?;
    }
    Ok(())
}

/// The program of both: fills the registers with `pattern`, and sends a message to `endpoint`.
extern "C" fn floating(pattern: usize, endpoint: Slot) -> ! {
    // SAFETY: this program is compiled without the registers, so nothing depends on their content.
    unsafe {
        asm!(
            ".arch_extension simd",
            ".irp number, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "dup v\\number\\().2d, {pattern}",
            ".endr",
            ".arch_extension nosimd",
            pattern = in(reg) pattern,
            options(nomem, nostack),
        );
    }
    super::system_call(values::SYS_SEND, endpoint, message_info(PROBED, 0, 0), [0; REGISTER_WORDS]);
    loop {
        super::system_call(values::SYS_YIELD, 0, 0, [0; REGISTER_WORDS]);
    }
}
