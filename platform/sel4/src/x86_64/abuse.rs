//! What a program can do to the processor to harm others: states that it may enter, and instructions that it must not execute.
//!
//! For attackers alone. `docs/kernel-entry.md` says for each what the kernel does about it.

use crate::abi;
use crate::bindings::syscall_number as number;
use crate::syscall::{REGISTER_WORDS, Received};
use core::arch::asm;
use platform::ProcessorState;

/// Ticks of the time stamp counter during which a state is kept: the kernel's timer interrupts every two milliseconds.
const KEPT_TICKS: u64 = 8_000_000;
/// What the x87 and MXCSR get: no exception masked, and in MXCSR another rounding.
const X87_CONTROL: u64 = 0x340;
const MXCSR: u64 = 0x6000;

/// Enters a state, is interrupted in it, sleeps in it at `$wait`, and leaves it. `$value` is there in r12, before and after.
macro_rules! in_state {
    ($wait:expr, $value:expr, enter: [$($enter:literal),+], leave: [$($leave:literal),*]) => {{
        let mut received = Received { badge: $wait, info: 0, words: [0; REGISTER_WORDS] };
        let [word0, word1, word2, word3] = &mut received.words;
        let mut value: u64 = $value;
        // SAFETY: as in `syscall::receive`. The stack pointer and the flags are again at the end what compiled code expects.
        // Programs use neither segment registers nor floating point registers.
        unsafe {
            asm!(
                "mov r14, rsp",
                $($enter,)+
                "rdtsc",
                "shl rdx, 32",
                "lea r13, [rdx + rax + {ticks}]",
                "2:",
                "rdtsc",
                "shl rdx, 32",
                "or rax, rdx",
                "cmp rax, r13",
                "jb 2b",
                "mov rdx, {receive}",
                "syscall",
                "mov rsp, r14",
                "push 2",
                "popfq",
                $($leave,)*
                ticks = const KEPT_TICKS,
                receive = const number::Recv as i64,
                inlateout("rdi") received.badge,
                lateout("rsi") received.info,
                lateout("r10") *word0,
                lateout("r8") *word1,
                lateout("r9") *word2,
                lateout("r15") *word3,
                inlateout("r12") value,
                out("rax") _,
                out("rcx") _,
                out("rdx") _,
                out("r11") _,
                out("r13") _,
                out("r14") _,
            );
        }
        (received, value)
    }};
}

/// Enters the state of that number and sleeps in it at `wait`. `None` where there is none.
pub(crate) fn enter_state(index: usize, wait: u64) -> Option<(ProcessorState, Received)> {
    let (name, expected, (received, found)) = match index {
        0 => {
            let enter = in_state!(wait, 0, enter: ["pushfq", "or qword ptr [rsp], 0x4000", "popfq"], leave: []);
            ("sleep with the nested-task flag", 0, enter)
        }
        1 => ("sleep with the direction flag", 0, in_state!(wait, 0, enter: ["std"], leave: [])),
        2 => {
            let enter = in_state!(wait, 0, enter: ["pushfq", "or qword ptr [rsp], 0x240cd5", "popfq"], leave: []);
            ("sleep with all other flags", 0, enter)
        }
        3 => {
            let enter = in_state!(
                wait, 0,
                enter: ["mov eax, 0x3b", "mov ds, eax", "mov ss, eax", "mov eax, 0x43", "mov es, eax", "mov gs, eax",
                    "mov eax, 3", "mov fs, eax"],
                leave: []
            );
            ("sleep with other segments", 0, enter)
        }
        4 => {
            let enter = in_state!(wait, 0, enter: ["mov rsp, 1", "ror rsp, 1"], leave: []);
            ("sleep with a stack at no address", 0, enter)
        }
        // Without floating point it would end in an exception.
        5 if abi::HAS_FLOATING_POINT => {
            // 1 divided by 0: the exception is pending until the next instruction of the x87.
            let enter = in_state!(
                wait, X87_CONTROL | MXCSR << 32,
                enter: ["fninit", "push r12", "fldcw [rsp]", "ldmxcsr [rsp + 4]", "movq xmm15, r12", "fld1", "fldz",
                    "fdivp st(1), st"],
                leave: ["push 0", "fnstcw [rsp]", "stmxcsr [rsp + 4]", "pop rax", "movq r12, xmm15", "xor ecx, ecx",
                    "cmp rax, r12", "cmovne r12, rcx", "fninit"]
            );
            ("sleep with floating point exceptions", X87_CONTROL | MXCSR << 32, enter)
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
        unsafe { asm!($($instruction),+, out("rax") _, out("rcx") _, out("rdx") _) }
    };
}

/// Executes the forbidden instruction of that number. `None` where there is none.
pub(crate) fn execute_forbidden(index: usize) -> Option<()> {
    match index {
        // Keeps interrupts, the timer's among them, from the processor.
        0 => forbidden!("cli"),
        1 => forbidden!("mov rax, 0x401", "mov dr7, rax"),
        // A single step.
        2 => forbidden!("pushfq", "or qword ptr [rsp], 0x100", "popfq", "nop"),
        // A page fault with all flags, and with the other segments.
        3 => forbidden!(
            "mov eax, 0x43",
            "mov ds, eax",
            "mov es, eax",
            "mov fs, eax",
            "mov gs, eax",
            "pushfq",
            "or qword ptr [rsp], 0x244cd5",
            "popfq",
            "mov eax, 0x1000",
            "mov rax, [rax]"
        ),
        // The machine's way to turn itself off (ACPI), as QEMU has it.
        4 => forbidden!("mov edx, 0x604", "mov eax, 0x2000", "out dx, ax"),
        // The register of the flags that system calls clear.
        5 => forbidden!("mov ecx, 0xc0000084", "xor eax, eax", "xor edx, edx", "wrmsr"),
        6 => forbidden!("xor eax, eax", "mov cr3, rax"),
        7 => forbidden!("lidt [rsp]"),
        8 => forbidden!("hlt"),
        // The gates of the page fault, and of a device's interrupt.
        9 => forbidden!("int 14"),
        10 => forbidden!("int 0x40"),
        // Returns to the kernel's segments.
        11 => forbidden!("lea rax, [rip]", "push 8", "push rax", "retfq"),
        12 => {
            forbidden!("lea rax, [rip]", "mov rcx, rsp", "push 16", "push rcx", "push 2", "push 8", "push rax", "iretq")
        }
        13 => forbidden!("sysenter"),
        14 => forbidden!("swapgs"),
        15 => forbidden!("push 0x340", "fninit", "fldcw [rsp]", "fld1", "fldz", "fdivp st(1), st", "fwait"),
        16 => forbidden!("mov rax, 0xffffffff80110000", "jmp rax"),
        // The first address that is not canonical.
        17 => forbidden!("mov rax, 0x800000000000", "jmp rax"),
        18 => forbidden!("mov rsp, 0x800000001000", "push rax"),
        19 => forbidden!("xor eax, eax", "wrgsbase rax"),
        _ => return None,
    }
    Some(())
}
