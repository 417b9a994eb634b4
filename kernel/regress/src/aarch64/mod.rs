//! The virt machine: the system call, the clock, the devices. Neighbour: `suite` has the tests for this architecture alone.

use core::arch::{asm, global_asm};

use crate::sys::{self, PROBED, REGISTER_WORDS, Received, Slot, message_info, values};

pub(crate) mod devices;
mod fpu_owner;
mod frame_without_table;
mod suite;
mod timer_owner;

pub(crate) use devices::{exit, put};
pub(crate) use suite::{open, run};

/// Bytes that a call leaves on the stack.
pub(crate) const CALL_BYTES: u64 = 0;

/// Makes a system call: number, capability, message info, and the words that travel in registers.
pub(crate) fn system_call(number: i64, capability: Slot, info: u64, words: [u64; REGISTER_WORDS]) -> Received {
    let (info_out, word_out): (u64, u64);
    // SAFETY: this is the kernel's calling convention; all registers it changes are listed. It keeps memory as it is
    // but for the IPC buffer, which is accessed by volatile operations only, and what the invocation is made for.
    unsafe {
        asm!(
            "svc #0",
            in("x7") number,
            inlateout("x0") capability => _,
            inlateout("x1") info => info_out,
            inlateout("x2") words[0] => word_out,
            inlateout("x3") words[1] => _,
            inlateout("x4") words[2] => _,
            inlateout("x5") words[3] => _,
            options(nostack),
        );
    }
    Received { label: info_out >> 12, word: word_out }
}

/// The virtual counter of the generic timer.
pub(crate) fn ticks() -> u64 {
    let ticks;
    // SAFETY: the loader lets user level read the counter.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Instructions in so many ticks, where time goes by instructions: one of them takes four nanoseconds, and a tick 16.
pub(crate) const fn instructions(ticks: u64) -> u64 {
    ticks * 4
}

// Programs of threads in an address space of their own, one after the other. The first waits for a message at its first
// argument. Those after it read the control register of the physical timer, and the virtual counter. Each then sends a
// message to its second argument.
global_asm!(
    ".macro regress_report",
    "mov x0, x20",
    "mov x1, {probed}",
    "mov x7, {send}",
    "svc #0",
    "udf #0",
    ".endm",
    "regress_receiver:",
    "mov x20, x1",
    "mov x1, xzr",
    "mov x7, {receive}",
    "svc #0",
    "regress_report",
    "regress_timer:",
    "mov x20, x1",
    "mrs x2, cntp_ctl_el0",
    "regress_report",
    "regress_counter:",
    "mov x20, x1",
    "mrs x2, cntvct_el0",
    "regress_report",
    "regress_end:",
    receive = const values::SYS_RECV,
    send = const values::SYS_SEND,
    probed = const message_info(PROBED, 0, 0),
);

unsafe extern "C" {
    static regress_receiver: u8;
    static regress_timer: u8;
    static regress_counter: u8;
    static regress_end: u8;
}

/// The instructions of the program that waits.
pub(crate) fn receiver() -> &'static [u8] {
    // SAFETY: both symbols are of the instructions above, which nobody writes to; so in the functions below.
    unsafe { sys::between(&raw const regress_receiver, &raw const regress_timer) }
}

/// The instructions of the program that reads the timer.
fn timer() -> &'static [u8] {
    // SAFETY: as in `receiver`.
    unsafe { sys::between(&raw const regress_timer, &raw const regress_counter) }
}

/// The instructions of the program that reads the counter.
fn counter() -> &'static [u8] {
    // SAFETY: as in `receiver`.
    unsafe { sys::between(&raw const regress_counter, &raw const regress_end) }
}
