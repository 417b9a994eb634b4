//! What a program can do to the processor to harm others: states that it may enter, and instructions that it must not execute.
//!
//! For attackers alone. `docs/kernel-entry.md` says for each what the kernel does about it.

use crate::abi;
use crate::bindings::syscall_number as number;
use crate::syscall::{REGISTER_WORDS, Received};
use core::arch::asm;
use platform::ProcessorState;

/// Ticks of the virtual counter during which a state is kept: the kernel's timer interrupts every two milliseconds.
const KEPT_TICKS: u64 = 250_000;
/// What FPCR gets: rounding to minus infinity, small numbers as zero.
const FPCR: u64 = 0x0180_0000;
/// What FPSR gets: all exceptions that there are.
const FPSR: u64 = 0x0800_009f;

/// Value that the thread pointer gets.
const POINTER: u64 = 0x5eed;

/// Enters a state, is interrupted in it, sleeps in it at `$wait`, and leaves it. `$value` is there in x20, before and after.
macro_rules! in_state {
    ($wait:expr, $value:expr, enter: [$($enter:literal),+], leave: [$($leave:literal),*]) => {{
        let mut received = Received { badge: $wait, info: 0, words: [0; REGISTER_WORDS] };
        let [word0, word1, word2, word3] = &mut received.words;
        let mut value: u64 = $value;
        // SAFETY: as in `syscall::receive`. The stack pointer is again at the end what it was. Programs use no floating point
        // registers, and TPIDR_EL0 is the kernel's.
        unsafe {
            asm!(
                ".arch_extension simd",
                "mov x21, sp",
                $($enter,)+
                "mrs x22, cntvct_el0",
                "add x22, x22, {ticks}",
                "2:",
                "mrs x23, cntvct_el0",
                "cmp x23, x22",
                "b.lo 2b",
                "svc #0",
                "mov sp, x21",
                $($leave,)*
                ".arch_extension nosimd",
                ticks = in(reg) KEPT_TICKS,
                in("x7") number::Recv,
                inlateout("x0") received.badge,
                lateout("x1") received.info,
                lateout("x2") *word0,
                lateout("x3") *word1,
                lateout("x4") *word2,
                lateout("x5") *word3,
                inlateout("x20") value,
                out("x21") _,
                out("x22") _,
                out("x23") _,
            );
        }
        (received, value)
    }};
}

/// Enters the state of that number and sleeps in it at `wait`. `None` where there is none.
pub(crate) fn enter_state(index: usize, wait: u64) -> Option<(ProcessorState, Received)> {
    let (name, expected, (received, found)) = match index {
        0 => (
            "sleep with all condition flags",
            0,
            in_state!(wait, 0, enter: ["mov x22, #0xf0000000", "msr nzcv, x22"], leave: []),
        ),
        1 => {
            let enter = in_state!(
                wait, POINTER,
                enter: ["mrs x22, tpidr_el0", "msr tpidr_el0, x20", "mov x20, x22"],
                leave: ["mrs x22, tpidr_el0", "sub x20, x20, x22"]
            );
            // The kernel's value is there again, the address of its own IPC buffer; or its own, which replaced 0.
            let expected = if abi::WRITES_THREAD_POINTER { 0 } else { 0_u64.wrapping_sub(POINTER) };
            ("sleep with another thread pointer", expected, enter)
        }
        2 => {
            // A store after it would be taken for the end of its own sequence.
            let enter = in_state!(
                wait, 1,
                enter: ["sub x22, x21, #16", "ldxr x23, [x22]"],
                leave: ["sub x22, x21, #16", "stxr w20, x23, [x22]"]
            );
            ("sleep in an exclusive sequence", 1, enter)
        }
        3 => {
            let enter = in_state!(wait, 0, enter: ["mov x22, #0xffffff8000000000", "add x22, x22, #1", "mov sp, x22"], leave: []);
            ("sleep with a stack at no address", 0, enter)
        }
        4 => ("wait for an interrupt", 0, in_state!(wait, 0, enter: ["sevl", "wfe", "wfi"], leave: [])),
        // Without floating point it would end in an exception.
        5 if abi::HAS_FLOATING_POINT => {
            let enter = in_state!(
                wait, FPCR << 32 | FPSR,
                enter: ["lsr x22, x20, #32", "msr fpcr, x22", "and x22, x20, #0xffffffff", "msr fpsr, x22", "fmov d31, x20"],
                leave: ["mrs x22, fpcr", "mrs x23, fpsr", "orr x22, x23, x22, lsl #32", "fmov x20, d31",
                    "cmp x20, x22", "csel x20, x20, xzr, eq", "msr fpcr, xzr", "msr fpsr, xzr"]
            );
            ("sleep with floating point exceptions", FPCR << 32 | FPSR, enter)
        }
        _ => return None,
    };
    Some((ProcessorState { name, is_own: found == expected }, received))
}

/// Executes instructions that end in an exception.
macro_rules! forbidden {
    ($($instruction:literal),+) => {
        // SAFETY: a fault, after which nothing of this program runs. If it does not fault the machine is not safe, whatever this
        // program does.
        unsafe { asm!($($instruction),+, out("x0") _) }
    };
}

/// Executes the forbidden instruction of that number. `None` where there is none.
pub(crate) fn execute_forbidden(index: usize) -> Option<()> {
    match index {
        // Stops the timer by which the supervisor ticks: an exception in all other address spaces.
        0 => forbidden!("msr cntp_ctl_el0, xzr"),
        // Keeps interrupts from the processor.
        1 => forbidden!("msr daifset, #15"),
        // Single steps, and the monitor's channel for user level.
        2 => forbidden!("mov x0, #1", "msr mdscr_el1, x0"),
        3 => forbidden!("mrs x0, pmccntr_el0"),
        4 => forbidden!("mov x0, #15", "msr pmuserenr_el0, x0"),
        5 => forbidden!("msr cntv_ctl_el0, xzr"),
        6 => forbidden!("msr sctlr_el1, xzr"),
        7 => forbidden!("msr ttbr0_el1, xzr"),
        8 => forbidden!("msr vbar_el1, xzr"),
        9 => forbidden!("tlbi vmalle1"),
        // Cache maintenance of its own memory.
        10 => forbidden!("mov x0, sp", "dc civac, x0"),
        11 => forbidden!("sub x0, sp, #256", "dc zva, x0"),
        12 => forbidden!("mrs x0, ctr_el0"),
        // The power interface's way to turn the machine off (Arm DEN 0022, section 5.10).
        13 => forbidden!("mov w0, #8", "movk w0, #0x8400, lsl #16", "hvc #0"),
        14 => forbidden!("mov w0, #8", "movk w0, #0x8400, lsl #16", "smc #0"),
        15 => forbidden!("eret"),
        16 => forbidden!("brk #0"),
        17 => forbidden!("mov x0, #0xffffff8000000000", "br x0"),
        18 => forbidden!("adr x0, .", "add x0, x0, #2", "br x0"),
        // A page fault with all condition flags and a stack at no address.
        19 => forbidden!("mov x0, #0xf0000000", "msr nzcv, x0", "mov x0, #0x1001", "mov sp, x0", "ldrb w0, [x0]"),
        _ => return None,
    }
    Some(())
}
