//! The list of capabilities in configuration space, walked with a bound (PCI 6.7).
//!
//! The list comes from the function; a broken or hostile one may point it out of range or back to itself. Every walk ends
//! after at most [`LIMIT`] reads of a header, with a typed error for an impossible list.

use core::fmt;

use crate::header::{Status, offset};

/// Capability identifiers (PCI appendix H and its successors).
pub mod id {
    /// Power management.
    pub const POWER_MANAGEMENT: u8 = 0x01;
    /// MSI: [`crate::msi`].
    pub const MSI: u8 = 0x05;
    /// The vendor's own; virtio uses it.
    pub const VENDOR: u8 = 0x09;
    /// PCI Express: [`crate::express`].
    pub const EXPRESS: u8 = 0x10;
    /// MSI-X: [`crate::msix`].
    pub const MSIX: u8 = 0x11;
    /// SATA configuration.
    pub const SATA: u8 = 0x12;
}

/// The most capabilities a list may have. There is room for 48 of four bytes; no function comes near this many.
pub const LIMIT: u32 = 32;

/// The first offset a capability may have: after the header.
pub const FIRST_OFFSET: u8 = 0x40;

/// Reads the configuration space of one function. Any closure from offset to dword will do.
pub trait ConfigRead {
    /// The dword at a byte offset that is a multiple of 4.
    fn read32(&self, offset: u8) -> u32;
}

impl<F: Fn(u8) -> u32> ConfigRead for F {
    fn read32(&self, offset: u8) -> u32 {
        self(offset)
    }
}

/// A capability found in the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capability {
    /// Where it begins, a multiple of 4 from 40h to FCh.
    pub offset: u8,
    /// Which one: see [`id`].
    pub id: u8,
    /// The 16 bits after its header, for most their control register.
    pub control: u16,
}

impl Capability {
    /// Reads the dword `bytes` beyond the capability's start; `None` if that is not aligned or beyond configuration
    /// space.
    pub fn read32(&self, config: &impl ConfigRead, bytes: u8) -> Option<u32> {
        let offset = self.offset.checked_add(bytes)?;
        (offset & 3 == 0).then(|| config.read32(offset))
    }
}

/// Why a list was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapabilityError {
    /// A pointer into the header.
    OutOfRange {
        /// The pointer.
        pointer: u8,
    },
    /// A pointer that is not a multiple of 4.
    Misaligned {
        /// The pointer.
        pointer: u8,
    },
    /// A pointer to a capability met before.
    Loop {
        /// The pointer.
        pointer: u8,
    },
    /// More than [`LIMIT`] capabilities.
    TooLong,
    /// A header of all ones: the function is gone.
    Absent {
        /// Where it was read.
        pointer: u8,
    },
}

impl fmt::Display for CapabilityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { pointer } => {
                write!(f, "capability pointer {pointer:#04x} leads into the header")
            }
            Self::Misaligned { pointer } => write!(f, "capability pointer {pointer:#04x} is not a multiple of 4"),
            Self::Loop { pointer } => write!(f, "capability pointer {pointer:#04x} closes a loop"),
            Self::TooLong => write!(f, "more than {LIMIT} capabilities"),
            Self::Absent { pointer } => write!(f, "nothing answers at capability {pointer:#04x}"),
        }
    }
}

impl core::error::Error for CapabilityError {}

/// A walk along the list: capabilities in order; after an error, the end.
#[derive(Debug)]
pub struct Capabilities<'a, C> {
    config: &'a C,
    /// 0 ends the list.
    next: u8,
    /// A bit for each dword of configuration space that a capability was met at.
    met: u64,
}

/// Begins a walk. Empty when the status register shows no list.
pub fn walk<C: ConfigRead>(config: &C) -> Capabilities<'_, C> {
    let status = Status::from_bits((config.read32(offset::COMMAND_STATUS) >> 16) as u16);
    let next = if status.capabilities() { (config.read32(offset::CAPABILITIES) & 0xff) as u8 } else { 0 };
    Capabilities { config, next, met: 0 }
}

/// The first capability with this identifier.
///
/// # Errors
///
/// A [`CapabilityError`] when the list turns out broken before one is found.
pub fn find(config: &impl ConfigRead, id: u8) -> Result<Option<Capability>, CapabilityError> {
    for capability in walk(config) {
        let capability = capability?;
        if capability.id == id {
            return Ok(Some(capability));
        }
    }
    Ok(None)
}

impl<C: ConfigRead> Capabilities<'_, C> {
    fn step(&mut self, pointer: u8) -> Result<Capability, CapabilityError> {
        if pointer & 3 != 0 {
            return Err(CapabilityError::Misaligned { pointer });
        }
        if pointer < FIRST_OFFSET {
            return Err(CapabilityError::OutOfRange { pointer });
        }
        let bit = 1u64 << (pointer >> 2);
        if self.met & bit != 0 {
            return Err(CapabilityError::Loop { pointer });
        }
        if self.met.count_ones() == LIMIT {
            return Err(CapabilityError::TooLong);
        }
        self.met |= bit;

        let header = self.config.read32(pointer);
        if header == u32::MAX {
            return Err(CapabilityError::Absent { pointer });
        }
        let [id, next, ..] = header.to_le_bytes();
        self.next = next;
        Ok(Capability { offset: pointer, id, control: (header >> 16) as u16 })
    }
}

impl<C: ConfigRead> Iterator for Capabilities<'_, C> {
    type Item = Result<Capability, CapabilityError>;

    fn next(&mut self) -> Option<Self::Item> {
        let pointer = core::mem::take(&mut self.next);
        (pointer != 0).then(|| self.step(pointer))
    }
}

#[cfg(test)]
#[path = "capability_tests.rs"]
mod tests;
