//! Marks in the instruction stream, for counting instructions between them from outside.

use core::arch::asm;

/// An instruction that does nothing and carries `ID`; a recorder of the executed instructions finds it. On x86_64 it is a
/// long NOP with an unused displacement, the bytes `0f 1f 80 ID a1 5e 7c`. On AArch64 it is a move of an immediate to the
/// register that reads as zero, which has no other use: `movz xzr, #0xa1 << 8 | ID`.
#[inline(always)]
pub fn marker<const ID: u8>() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: it writes a register that cannot be written.
    unsafe {
        asm!(".inst 0xd2800000 | ((0xa100 | {id}) << 5) | 31", id = const ID, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the bytes are one NOP with an operand it does not access.
    unsafe {
        asm!(".byte 0x0f, 0x1f, 0x80, {id}, 0xa1, 0x5e, 0x7c", id = const ID, options(nomem, nostack, preserves_flags));
    }
}
