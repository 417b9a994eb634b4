//! Registers that say what user level may do, as the kernel leaves them: it sets none of these.
//!
//! After a reset most of their bits have no value that the architecture gives (Arm ARM DDI 0487, section D24.2).

/// `SCTLR_EL1`: translation and caches on, stacks aligned. User level may wait for events and interrupts. It may not mask interrupts
/// (UMA), maintain caches (UCI), clear by lines (DZE) or read the caches' sizes (UCT): there these are exceptions.
pub const SYSTEM_CONTROL: u64 = {
    const TRANSLATION: u64 = 1;
    const DATA_CACHE: u64 = 1 << 2;
    const STACK_ALIGNMENT: u64 = 0b11 << 3;
    const INSTRUCTION_CACHE: u64 = 1 << 12;
    const WAITS: u64 = 1 << 16 | 1 << 18;
    // Fields of later processors, and of 32-bit programs, which read as one on this one.
    const ONES: u64 = 1 << 5 | 1 << 11 | 1 << 20 | 0b11 << 22 | 0b11 << 28;
    TRANSLATION | DATA_CACHE | STACK_ALIGNMENT | INSTRUCTION_CACHE | WAITS | ONES
};

/// `MDSCR_EL1`: no single steps, no breakpoints, and the debugger's channel is not for user level (TDCC).
pub const DEBUG_CONTROL: u64 = 1 << 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_level_may_not_mask_interrupts_nor_reach_caches() {
        let (uma, dze, uct, uci) = (1 << 9, 1 << 14, 1 << 15, 1 << 26);
        assert_eq!(SYSTEM_CONTROL & (uma | dze | uct | uci), 0);
        // Little endian on both levels, and writable memory can hold instructions until the kernel's tables say otherwise.
        assert_eq!(SYSTEM_CONTROL & (1 << 24 | 1 << 25 | 1 << 19), 0);
        // Worked out by hand from section D24.2.177.
        assert_eq!(SYSTEM_CONTROL, 0x30d5_183d);
    }
}
