//! The list of extended capabilities, from byte 100h of configuration space on, walked with a bound (PCIe 7.6).
//!
//! Only PCI Express functions have one. Elsewhere the first header reads all zeroes or all ones, which is an empty list.

use core::fmt;

/// Where the list begins. No capability lies before it.
pub const FIRST_OFFSET: u16 = 0x100;
/// The end of configuration space.
pub const END: u16 = 0x1000;
/// The most capabilities a list may have: no function comes near this many.
pub const LIMIT: u32 = 64;

/// Extended capability identifiers.
pub mod id {
    /// Single-root I/O virtualization: [`crate::sriov`].
    pub const SRIOV: u16 = 0x0010;
}

/// Why a list was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtendedError {
    /// A pointer into the first 256 bytes.
    OutOfRange {
        /// The pointer.
        pointer: u16,
    },
    /// More than [`LIMIT`] capabilities, or a loop.
    TooLong,
}

impl fmt::Display for ExtendedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { pointer } => {
                write!(f, "extended capability pointer {pointer:#05x} leads out of the list")
            }
            Self::TooLong => write!(f, "more than {LIMIT} extended capabilities"),
        }
    }
}

impl core::error::Error for ExtendedError {}

/// Offset of the first extended capability with this identifier, a multiple of 4 from 100h to FFCh. `read` returns the
/// dword at such an offset.
///
/// # Errors
///
/// An [`ExtendedError`] when the list turns out broken before one is found.
pub fn find(read: impl Fn(u16) -> u32, id: u16) -> Result<Option<u16>, ExtendedError> {
    let mut at = FIRST_OFFSET;
    for _ in 0..LIMIT {
        let header = read(at);
        if header == 0 || header == u32::MAX {
            return Ok(None);
        }
        if header & 0xffff == u32::from(id) {
            return Ok(Some(at));
        }
        // 12 bits, of which the lowest two are reserved.
        let pointer = ((header >> 20) & 0xffc) as u16;
        match pointer {
            0 => return Ok(None),
            FIRST_OFFSET.. => at = pointer,
            _ => return Err(ExtendedError::OutOfRange { pointer }),
        }
    }
    Err(ExtendedError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of capabilities by offset: identifier and next pointer.
    fn list(headers: &'static [(u16, u16, u32)]) -> impl Fn(u16) -> u32 {
        move |at| {
            let here = headers.iter().find(|(offset, ..)| *offset == at);
            here.map_or(0, |(_, id, next)| u32::from(*id) | 1 << 16 | next << 20)
        }
    }

    #[test]
    fn a_capability_is_found_behind_others() {
        let read = list(&[(0x100, 0x0e, 0x120), (0x120, 0x10, 0)]);
        assert_eq!(find(&read, id::SRIOV), Ok(Some(0x120)));
        assert_eq!(find(&read, 0x0e), Ok(Some(0x100)));
        assert_eq!(find(&read, 0x77), Ok(None));
    }

    #[test]
    fn zeroes_and_all_ones_are_an_empty_list() {
        assert_eq!(find(|_| 0, id::SRIOV), Ok(None));
        assert_eq!(find(|_| u32::MAX, id::SRIOV), Ok(None));
    }

    #[test]
    fn loops_and_pointers_out_of_the_list_are_refused() {
        assert_eq!(find(list(&[(0x100, 1, 0x140), (0x140, 2, 0x100)]), id::SRIOV), Err(ExtendedError::TooLong));
        let out = list(&[(0x100, 1, 0x40)]);
        assert_eq!(find(out, id::SRIOV), Err(ExtendedError::OutOfRange { pointer: 0x40 }));
    }
}
