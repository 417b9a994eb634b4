//! The system calls' instructions on x86_64.
//!
//! Registers: rdx the call's number, rdi the capability and then the badge, rsi the message's description, r10, r8, r9
//! and r15 the first four words. The kernel keeps every other register but rcx and r11, which the instruction takes,
//! and rsp, which comes back as zero and so waits in r14.

use crate::syscall::{REGISTER_WORDS, Received};
use core::arch::asm;

/// A call that sends a message and may receive one.
#[inline(always)]
pub(crate) fn exchange(number: u64, cap: u64, info: u64, words: [u64; REGISTER_WORDS]) -> Received {
    let mut received = Received { badge: cap, info, words };
    let [word0, word1, word2, word3] = &mut received.words;
    // SAFETY: the kernel reads and writes the named registers and, beyond them, only memory this component cannot
    // reach or its IPC buffer, which is behind raw pointers and counts as clobbered here (no `nomem`). The stack
    // pointer is the same afterwards, and nothing is pushed on the stack between. What an invocation does to the
    // memory this program runs in is the responsibility of the holder of its capabilities, the root task.
    unsafe {
        asm!(
            "mov r14, rsp",
            "syscall",
            "mov rsp, r14",
            inlateout("rdx") number => _,
            inlateout("rdi") received.badge,
            inlateout("rsi") received.info,
            inlateout("r10") *word0,
            inlateout("r8") *word1,
            inlateout("r9") *word2,
            inlateout("r15") *word3,
            lateout("rcx") _,
            lateout("r11") _,
            out("r14") _,
            options(nostack),
        );
    }
    received
}

/// A call that receives a message and sends none.
#[inline(always)]
pub(crate) fn receive(number: u64, cap: u64) -> Received {
    let (badge, info, word0, word1, word2, word3);
    // SAFETY: as in `exchange`.
    unsafe {
        asm!(
            "mov r14, rsp",
            "syscall",
            "mov rsp, r14",
            inlateout("rdx") number => _,
            inlateout("rdi") cap => badge,
            lateout("rsi") info,
            lateout("r10") word0,
            lateout("r8") word1,
            lateout("r9") word2,
            lateout("r15") word3,
            lateout("rcx") _,
            lateout("r11") _,
            out("r14") _,
            options(nostack),
        );
    }
    Received { badge, info, words: [word0, word1, word2, word3] }
}

/// A call that neither sends nor receives words: the kernel leaves their registers alone.
#[inline(always)]
pub(crate) fn wordless(number: u64, cap: u64) {
    // SAFETY: as in `exchange`.
    unsafe {
        asm!(
            "mov r14, rsp",
            "syscall",
            "mov rsp, r14",
            inlateout("rdx") number => _,
            inlateout("rdi") cap => _,
            inlateout("rsi") 0u64 => _,
            lateout("rcx") _,
            lateout("r11") _,
            out("r14") _,
            options(nostack),
        );
    }
}

/// Faults on purpose, so that the supervisor sees this component and ends it.
pub(crate) fn crash() -> ! {
    // SAFETY: the instruction raises an exception and does nothing else; it never completes.
    unsafe { asm!("ud2", options(noreturn, nomem, nostack)) }
}

/// The time stamp counter.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86_64 processor has the counter, and the kernel leaves it readable.
    unsafe { core::arch::x86_64::_rdtsc() }
}
