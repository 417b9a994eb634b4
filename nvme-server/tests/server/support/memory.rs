//! Access to whole ranges of memory, for tests.

use platform::Memory;
pub(crate) use platform::fake::Ram;
use std::ops::Range;

/// Bytes in and out at any offset.
pub(crate) trait Bytes {
    /// A copy of `range`, which must be inside.
    fn get(&self, range: Range<usize>) -> Vec<u8>;
    /// Overwrites bytes from `offset` on.
    fn put(&self, offset: usize, bytes: &[u8]);
}

impl Bytes for Ram {
    fn get(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        self.read_bytes(range.start, &mut bytes).expect("a range of the memory");
        bytes
    }

    fn put(&self, offset: usize, bytes: &[u8]) {
        self.write_bytes(offset, bytes).expect("a range of the memory");
    }
}
