//! The system calls' instructions on AArch64.
//!
//! Registers: x7 the call's number, x0 the capability and then the badge, x1 the message's description, x2 to x5 the first four words. The
//! kernel keeps every other register.

use crate::syscall::{REGISTER_WORDS, Received};
use core::arch::asm;

/// A call that sends a message and may receive one.
#[inline(always)]
pub(crate) fn exchange(number: u64, cap: u64, info: u64, words: [u64; REGISTER_WORDS]) -> Received {
    let mut received = Received { badge: cap, info, words };
    let [word0, word1, word2, word3] = &mut received.words;
    // SAFETY: the kernel reads and writes the named registers and, beyond them, only memory this component cannot
    // reach or its IPC buffer, which is behind raw pointers and counts as clobbered here (no `nomem`). What an invocation
    // does to the memory this program runs in is the responsibility of the holder of its capabilities, the root task.
    unsafe {
        asm!(
            "svc #0",
            in("x7") number,
            inlateout("x0") received.badge,
            inlateout("x1") received.info,
            inlateout("x2") *word0,
            inlateout("x3") *word1,
            inlateout("x4") *word2,
            inlateout("x5") *word3,
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
            "svc #0",
            in("x7") number,
            inlateout("x0") cap => badge,
            lateout("x1") info,
            lateout("x2") word0,
            lateout("x3") word1,
            lateout("x4") word2,
            lateout("x5") word3,
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
            "svc #0",
            in("x7") number,
            inlateout("x0") cap => _,
            inlateout("x1") 0u64 => _,
            options(nostack),
        );
    }
}

/// Faults on purpose, so that the supervisor sees this component and ends it.
pub(crate) fn crash() -> ! {
    // SAFETY: the instruction raises an exception and does nothing else; it never completes.
    unsafe { asm!("udf #0", options(noreturn, nomem, nostack)) }
}

/// The virtual counter of the generic timer.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let ticks;
    // SAFETY: the loader lets user level read the counter.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Ticks of the counter a second.
pub(crate) fn ticks_per_second() -> u64 {
    let frequency;
    // SAFETY: as for `ticks`.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack, preserves_flags)) };
    frequency
}
