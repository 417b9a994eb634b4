//! Widths and alignment: the valid accesses, and the value read where nothing answers.

use core::fmt;
use pci_spec::Bdf;

/// An access that the tree rejects: no processor and no chipset makes it, or none needs to support it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadAccess {
    /// Not 1, 2, 4 or 8 bytes; or 8 in configuration space, where a root complex need not take it (PCIe 7.2.2).
    Width {
        /// Bytes of the access.
        bytes: u8,
    },
    /// The address is not a multiple of the width.
    Unaligned {
        /// The address.
        address: u64,
        /// Bytes of the access.
        bytes: u8,
    },
}

impl fmt::Display for BadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Width { bytes } => write!(f, "an access of {bytes} bytes"),
            Self::Unaligned { address, bytes } => write!(f, "an unaligned access of {bytes} bytes at {address:#x}"),
        }
    }
}

impl core::error::Error for BadAccess {}

/// Checks an access to memory.
pub(crate) const fn check(address: u64, bytes: u8) -> Result<(), BadAccess> {
    if !matches!(bytes, 1 | 2 | 4 | 8) {
        return Err(BadAccess::Width { bytes });
    }
    if address & (bytes as u64).wrapping_sub(1) != 0 {
        return Err(BadAccess::Unaligned { address, bytes });
    }
    Ok(())
}

/// Returns all ones, as many as `bytes` (1 to 8) hold: the value read where nothing answers.
pub(crate) const fn all_ones(bytes: u8) -> u64 {
    match bytes {
        0..=7 => (1 << (bytes as u32 * 8)) - 1,
        _ => u64::MAX,
    }
}

/// An access to configuration space, decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfigAccess {
    /// The function. None beyond 256 buses.
    pub(crate) bdf: Option<Bdf>,
    /// Byte offset of the dword, a multiple of 4 below 4096.
    pub(crate) register: u16,
    /// Bits by which the access lies above bit 0 of the dword.
    shift: u32,
    bytes: u8,
}

impl ConfigAccess {
    /// Decodes a byte offset in the ECAM region, which begins with bus 0.
    pub(crate) const fn new(offset: u64, bytes: u8) -> Result<Self, BadAccess> {
        if bytes > 4 {
            return Err(BadAccess::Width { bytes });
        }
        if let Err(bad) = check(offset, bytes) {
            return Err(bad);
        }
        let bdf = if offset >> 28 == 0 { Some(Bdf::from_raw((offset >> 12) as u16)) } else { None };
        Ok(Self { bdf, register: (offset & 0xffc) as u16, shift: (offset & 3) as u32 * 8, bytes })
    }

    /// Bits of the dword that the access touches.
    pub(crate) const fn mask(self) -> u32 {
        (all_ones(self.bytes) as u32) << self.shift
    }

    /// Returns the part of the dword that the access reads.
    pub(crate) const fn extract(self, dword: u32) -> u64 {
        ((dword & self.mask()) >> self.shift) as u64
    }

    /// Returns the value written, at its place in the dword.
    pub(crate) const fn place(self, value: u64) -> u32 {
        ((value as u32) << self.shift) & self.mask()
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
