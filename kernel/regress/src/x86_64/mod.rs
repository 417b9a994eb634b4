//! The PC: the system call, the clock, the ports. Neighbour: `suite` has the tests for this architecture alone.

use core::arch::{asm, global_asm};

use crate::sys::{self, PROBED, REGISTER_WORDS, Received, Slot, message_info, values};

mod context_cache;
mod edu;
mod interrupt_direction;
mod io_frame;
mod io_page_table;
mod io_space;
mod io_space_revoke;
pub(crate) mod ports;
mod segment_bases;
mod stack_alignment;
mod suite;
mod syscall_flags;
mod user_top;

pub(crate) use ports::{exit, put};
pub(crate) use suite::{open, run};

/// Bytes that a call leaves on the stack: a function finds it aligned but for these.
pub(crate) const CALL_BYTES: u64 = 8;

/// Makes a system call: number, capability, message info, and the words that travel in registers.
pub(crate) fn system_call(number: i64, capability: Slot, info: u64, words: [u64; REGISTER_WORDS]) -> Received {
    let (info_out, word_out): (u64, u64);
    // SAFETY: this is the kernel's calling convention; all registers it changes are listed. It keeps memory as it is
    // but for the IPC buffer, which is accessed by volatile operations only, and what the invocation is made for.
    unsafe {
        asm!(
            "mov r14, rsp",
            "syscall",
            "mov rsp, r14",
            in("rdx") number,
            inlateout("rdi") capability => _,
            inlateout("rsi") info => info_out,
            inlateout("r10") words[0] => word_out,
            inlateout("r8") words[1] => _,
            inlateout("r9") words[2] => _,
            inlateout("r15") words[3] => _,
            lateout("rcx") _,
            lateout("r11") _,
            out("r14") _,
        );
    }
    Received { label: info_out >> 12, word: word_out }
}

/// The time stamp counter: it counts nanoseconds where time goes by instructions.
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86_64 processor has the counter, and the kernel leaves it readable.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Instructions in so many ticks, where time goes by instructions: one of them takes four nanoseconds.
pub(crate) const fn instructions(ticks: u64) -> u64 {
    ticks / 4
}

// The program of a thread in an address space of its own: waits for a message at its first argument, and sends one to
// its second.
global_asm!(
    "regress_receiver:",
    "mov r12, rsi",
    "xor esi, esi",
    "mov rdx, {receive}",
    "syscall",
    "mov rdi, r12",
    "mov esi, {probed}",
    "mov rdx, {send}",
    "syscall",
    "ud2",
    "regress_receiver_end:",
    receive = const values::SYS_RECV,
    send = const values::SYS_SEND,
    probed = const message_info(PROBED, 0, 0),
);

unsafe extern "C" {
    static regress_receiver: u8;
    static regress_receiver_end: u8;
}

/// That program's instructions.
pub(crate) fn receiver() -> &'static [u8] {
    // SAFETY: both symbols are of the instructions above, which nobody writes to.
    unsafe { sys::between(&raw const regress_receiver, &raw const regress_receiver_end) }
}
