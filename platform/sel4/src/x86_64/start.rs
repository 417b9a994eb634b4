//! The first instructions of programs.

/// A component's: the root task starts the thread here with two arguments and a stack pointer that is a multiple of 16.
#[doc(hidden)]
#[macro_export]
macro_rules! __start_component {
    ($main:path) => {
        core::arch::global_asm!(".globl _start", "_start:", "call {main}", "ud2", main = sym $main);
    };
}

/// The root task's: the kernel gives the boot info's address and no stack. Takes our own, and calls as if somebody had called.
#[doc(hidden)]
#[macro_export]
macro_rules! __start_root_task {
    ($main:path) => {
        core::arch::global_asm!(
            ".globl _start",
            "_start:",
            "lea rsp, [rip + {stack} + {bytes}]",
            "xor ebp, ebp",
            "call {main}",
            "ud2",
            stack = sym $crate::STACK,
            bytes = const $crate::STACK_BYTES,
            main = sym $main,
        );
    };
}
