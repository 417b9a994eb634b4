//! MSI-X: its capability, and the table that holds a message per vector (PCI 6.8.2).
//!
//! A component that can write the table can send messages anywhere, so its pages are the PCI server's alone:
//! [`Place::pages`] returns them.

use core::fmt;
use core::ops::Range;

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::capability::{Capability, ConfigRead};
use crate::msi::Message;

/// Bytes of an entry of the table.
pub const ENTRY_BYTES: u64 = 16;

/// Message control of MSI-X: the upper half of the capability's first dword (PCI 6.8.2.3).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Control {
    /// Entries of the table, 0's based.
    #[bits(11)]
    pub table_size_z: u16,
    #[bits(3)]
    __: u8,
    /// All vectors are masked, whatever their own bits say.
    pub function_mask: bool,
    /// MSI-X is on; INTx and MSI are not used.
    pub enable: bool,
}

/// An MSI-X capability with possible places for its table and pending bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsixCapability {
    /// Where the capability begins in configuration space.
    pub offset: u8,
    /// The control register when the capability was read.
    pub control: Control,
    /// The table.
    pub table: Place,
    /// The pending bit array (PBA).
    pub pending: Place,
}

/// A piece of a BAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// BIR: which BAR, 0..=5.
    pub bar: u8,
    /// Byte offset in the BAR, a multiple of 8.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
}

/// Why an MSI-X capability was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MsixError {
    /// The capability does not fit into configuration space.
    Truncated,
    /// An impossible BAR.
    ReservedBar {
        /// The BIR as read.
        bar: u8,
    },
    /// Table and pending bits overlap.
    Overlap,
}

impl fmt::Display for MsixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the MSI-X capability does not fit into configuration space"),
            Self::ReservedBar { bar } => write!(f, "the MSI-X capability names BAR {bar}"),
            Self::Overlap => f.write_str("the MSI-X table and its pending bits overlap"),
        }
    }
}

impl core::error::Error for MsixError {}

impl Control {
    /// Entries of the table: 1..=2048.
    #[must_use]
    pub const fn entries(self) -> u16 {
        self.table_size_z().saturating_add(1)
    }
}

impl MsixCapability {
    /// Reads and checks a capability that was found with [`crate::capability::id::MSIX`].
    ///
    /// # Errors
    ///
    /// A [`MsixError`] for impossible values. [`Place::fits`] checks that the places lie within their BARs.
    pub fn read(config: &impl ConfigRead, capability: Capability) -> Result<Self, MsixError> {
        let table = capability.read32(config, 4).ok_or(MsixError::Truncated)?;
        let pending = capability.read32(config, 8).ok_or(MsixError::Truncated)?;
        Self::decode(capability, table, pending)
    }

    /// As [`Self::read`], from the capability's second and third dword.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn decode(capability: Capability, table: u32, pending: u32) -> Result<Self, MsixError> {
        let control = Control::from_bits(capability.control);
        let entries = u32::from(control.entries());
        let table = Place::decode(table, entries << 4)?;
        // A bit per entry, in whole 64-bit words.
        let pending = Place::decode(pending, entries.div_ceil(64) << 3)?;
        if table.overlaps(pending) {
            return Err(MsixError::Overlap);
        }
        Ok(Self { offset: capability.offset, control, table, pending })
    }

    /// Byte offset in the table's BAR of a vector's entry; `None` for a vector that does not exist.
    #[must_use]
    pub const fn entry_offset(&self, vector: u16) -> Option<u64> {
        if vector >= self.control.entries() {
            return None;
        }
        (self.table.offset as u64).checked_add((vector as u64) << 4)
    }
}

impl Place {
    const fn decode(dword: u32, bytes: u32) -> Result<Self, MsixError> {
        let bar = (dword & 7) as u8;
        if bar > 5 {
            return Err(MsixError::ReservedBar { bar });
        }
        Ok(Self { bar, offset: dword & !7, bytes })
    }

    /// The first byte offset beyond it. Both parts have 32 bits, the sum has more.
    #[must_use]
    pub const fn end(self) -> u64 {
        (self.offset as u64).saturating_add(self.bytes as u64)
    }

    /// Whether the place lies within a BAR of this size.
    #[must_use]
    pub const fn fits(self, bar_bytes: u64) -> bool {
        self.end() <= bar_bytes
    }

    /// The 4 KiB pages of the BAR that it touches, counted from the BAR's start.
    #[must_use]
    pub const fn pages(self) -> Range<u64> {
        (self.offset as u64) >> 12..self.end().div_ceil(4096)
    }

    const fn overlaps(self, other: Self) -> bool {
        self.bar == other.bar && (self.offset as u64) < other.end() && (other.offset as u64) < self.end()
    }
}

/// An entry of the table (PCI 6.8.2.6 to 6.8.2.9). To be changed only while masked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Entry {
    /// Message address, lower half.
    pub address: u32,
    /// Message address, upper half.
    pub address_upper: u32,
    /// Message data.
    pub data: u32,
    /// Vector control: see [`VectorControl`].
    pub control: u32,
}

const _: () = assert!(size_of::<Entry>() as u64 == ENTRY_BYTES);

/// Byte offset of the vector control in an [`Entry`].
pub const CONTROL_OFFSET: usize = core::mem::offset_of!(Entry, control);

/// Vector control of an [`Entry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum VectorControl {
    /// Messages are sent.
    Unmasked = 0,
    /// Messages wait in the pending bits.
    Masked = 1,
}

impl Entry {
    /// An entry with this message.
    #[must_use]
    pub const fn new(message: Message, control: VectorControl) -> Self {
        Self {
            address: message.address as u32,
            address_upper: (message.address >> 32) as u32,
            data: message.data,
            control: control as u32,
        }
    }

    /// The message.
    #[must_use]
    pub const fn message(self) -> Message {
        Message { address: (self.address as u64) | ((self.address_upper as u64) << 32), data: self.data }
    }

    /// Whether the entry is masked.
    #[must_use]
    pub const fn is_masked(self) -> bool {
        self.control & 1 != 0
    }
}

#[cfg(test)]
#[path = "msix_tests.rs"]
mod tests;
