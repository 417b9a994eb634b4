//! The first instructions of programs.

/// A component's: the root task starts the thread here with two arguments and a stack pointer that is a multiple of 16.
#[doc(hidden)]
#[macro_export]
macro_rules! __start_component {
    ($main:path) => {
        core::arch::global_asm!(".globl _start", "_start:", "mov x29, xzr", "bl {main}", "udf #0", main = sym $main);
    };
}

/// The root task's: the kernel passes the boot info's address and no stack. Uses our own stack, whose top is page aligned.
#[doc(hidden)]
#[macro_export]
macro_rules! __start_root_task {
    ($main:path) => {
        core::arch::global_asm!(
            ".globl _start",
            "_start:",
            "adrp x1, {stack} + {bytes}",
            "mov sp, x1",
            "mov x29, xzr",
            "bl {main}",
            "udf #0",
            stack = sym $crate::STACK,
            bytes = const $crate::STACK_BYTES,
            main = sym $main,
        );
    };
}
