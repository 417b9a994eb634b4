//! The PC: the first instruction, the system call, the ports, and the tests for this architecture alone.

use core::arch::{asm, global_asm};

use crate::machine::Machine;
use crate::sys::{self, PROBED, REGISTER_WORDS, Received, STACK, STACK_BYTES, Slot, message_info, values};
use crate::verdict::{Check, Failure};

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
mod syscall_flags;
mod user_top;

pub(crate) use ports::{exit, put};

// The kernel starts the root task without a stack, with the boot information in rdi, where a C function expects its
// first argument.
global_asm!(
    ".pushsection .text._start, \"ax\"",
    ".global _start",
    "_start:",
    "lea rsp, [rip + {stack} + {size}]",
    "xor ebp, ebp",
    "call {main}",
    "ud2",
    ".popsection",
    stack = sym STACK,
    size = const STACK_BYTES,
    main = sym crate::entry::main,
);

/// Bytes that a call leaves on the stack: a function finds it aligned but for these.
pub(crate) const CALL_BYTES: u64 = 8;

/// The ports need no preparation.
#[expect(clippy::unnecessary_wraps, reason = "the other architecture maps its devices here")]
pub(crate) fn open(_: &mut Machine) -> Check {
    Ok(())
}

/// Runs the test `name`, one of those for this architecture alone.
pub(crate) fn run(name: &[u8], machine: &mut Machine) -> Check {
    match name {
        b"stack-alignment" => stack_alignment::run(machine),
        b"frame-copy-io-space" => io_frame::run(machine),
        b"context-cache-table" => context_cache::table(machine),
        b"context-cache-space" => context_cache::space(machine),
        b"io-page-table-entries" => io_page_table::entries(machine),
        b"io-page-table-copies" => io_page_table::copies(machine),
        b"io-space-revoke-copy" => io_space_revoke::copy(machine),
        b"io-space-revoke-dma" => io_space_revoke::dma(machine),
        b"io-space-revoke-master" => io_space_revoke::master(machine),
        b"io-space-revoke-mint" => io_space_revoke::mint(machine),
        b"syscall-flags-nested-task" => syscall_flags::nested_task(machine),
        b"syscall-flags-others" => syscall_flags::others(machine),
        b"interrupt-direction" => interrupt_direction::run(machine),
        b"segment-bases-schedule" => segment_bases::schedule(machine),
        b"segment-bases-fastpath" => segment_bases::fastpath(machine),
        b"user-top-page" => user_top::page(machine),
        b"user-top-buffer" => user_top::buffer(machine),
        _ => Err(Failure::Broken("no test of that name", 0)),
    }
}

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
