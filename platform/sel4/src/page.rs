//! Numbers in pages from the kernel.

/// The word at byte `at`, which need not be aligned.
pub(crate) fn word(page: &[u8], at: usize) -> u64 {
    let mut bytes = [0; size_of::<u64>()];
    bytes.copy_from_slice(&page[at..at + size_of::<u64>()]);
    u64::from_le_bytes(bytes)
}
