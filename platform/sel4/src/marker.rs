//! Marks in the instruction stream, for counting instructions between them from outside.

use core::arch::asm;

/// A long NOP that carries `ID` in its unused displacement: the bytes `0f 1f 80 ID a1 5e 7c`. It does nothing; whoever
/// records the executed instructions finds it.
#[inline(always)]
pub fn marker<const ID: u8>() {
    // SAFETY: the bytes are one NOP with an operand it does not access.
    unsafe {
        asm!(".byte 0x0f, 0x1f, 0x80, {id}, 0xa1, 0x5e, 0x7c", id = const ID, options(nomem, nostack, preserves_flags));
    }
}
