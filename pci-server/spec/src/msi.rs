//! MSI: its capability (PCI 6.8.1), and the message that MSI and MSI-X both send.

use crate::capability::{Capability, ConfigRead};
use bitfield_struct::bitfield;
use core::fmt;

/// Byte offset of the lower half of the message address from the capability's start.
pub const ADDRESS_OFFSET: u8 = 0x04;
/// Byte offset of the upper half, where there is one.
pub const ADDRESS_UPPER_OFFSET: u8 = 0x08;
/// Bytes of the configuration space that capabilities lie in.
const SPACE_BYTES: u16 = 0x100;

/// Message control of MSI: the upper half of the capability's first dword (PCI 6.8.1.3).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Control {
    /// Interrupts are sent as messages.
    pub enable: bool,
    /// Vectors the function can use: 2^n, n at most 5.
    #[bits(3)]
    pub capable: u8,
    /// Vectors the function may use: 2^n.
    #[bits(3)]
    pub enabled: u8,
    /// The address has an upper half.
    pub address_64: bool,
    /// There are mask and pending bits.
    pub maskable: bool,
    #[bits(7)]
    __: u8,
}

impl Control {
    /// How many vectors the function can use: 1..=32; `None` for a value that is reserved.
    #[must_use]
    pub const fn vectors(self) -> Option<u8> {
        match self.capable() {
            exponent @ 0..=5 => Some(1 << exponent),
            _ => None,
        }
    }

    /// Byte offset of the message data (16 bits) from the capability's start.
    #[must_use]
    pub const fn data_offset(self) -> u8 {
        if self.address_64() { 0x0c } else { 0x08 }
    }

    /// Bytes of the capability, with its header.
    #[must_use]
    pub const fn bytes(self) -> u8 {
        match (self.maskable(), self.address_64()) {
            (false, false) => 0x0c,
            (false, true) => 0x10,
            (true, false) => 0x14,
            (true, true) => 0x18,
        }
    }

    /// Byte offset of the mask bits from the capability's start, if there are any.
    #[must_use]
    pub const fn mask_offset(self) -> Option<u8> {
        match (self.maskable(), self.address_64()) {
            (false, _) => None,
            (true, true) => Some(0x10),
            (true, false) => Some(0x0c),
        }
    }
}

/// A function's MSI capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiCapability {
    /// Where it begins in configuration space.
    pub offset: u8,
    /// Message control, as it was read.
    pub control: Control,
}

/// Why a capability was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MsiError {
    /// The number of vectors is a reserved one.
    Vectors {
        /// Multiple Message Capable.
        capable: u8,
    },
    /// The capability's registers end beyond configuration space.
    BeyondSpace {
        /// Where it begins.
        offset: u8,
    },
}

impl fmt::Display for MsiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vectors { capable } => write!(f, "MSI with 2^{capable} vectors"),
            Self::BeyondSpace { offset } => write!(f, "MSI at {offset:#04x} ends beyond configuration space"),
        }
    }
}

impl core::error::Error for MsiError {}

impl MsiCapability {
    /// Reads the capability that was found in a list.
    ///
    /// # Errors
    ///
    /// [`MsiError`] for an impossible capability.
    pub fn read(config: &impl ConfigRead, found: Capability) -> Result<Self, MsiError> {
        let Capability { offset, .. } = found;
        let control = Control::from_bits((config.read32(offset) >> 16) as u16);
        if control.vectors().is_none() {
            return Err(MsiError::Vectors { capable: control.capable() });
        }
        if u16::from(offset).saturating_add(control.bytes().into()) > SPACE_BYTES {
            return Err(MsiError::BeyondSpace { offset });
        }
        Ok(Self { offset, control })
    }

    /// How many vectors the function can use: 1..=32.
    #[must_use]
    pub const fn vectors(&self) -> u8 {
        match self.control.vectors() {
            Some(vectors) => vectors,
            // [`MsiCapability::read`] makes none like that.
            None => 1,
        }
    }
}

/// Address and data that a function writes to interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Address, a multiple of 4.
    pub address: u64,
    /// Data.
    pub data: u32,
}

/// The first vector that is no exception of the processor's.
pub const FIRST_X86_VECTOR: u8 = 0x20;

impl Message {
    /// Fixed delivery, edge triggered, to one local APIC in physical mode (SDM 10.11). `None` for vectors that belong
    /// to the processor's exceptions.
    #[must_use]
    pub const fn x86(apic: u8, vector: u8) -> Option<Self> {
        if vector < FIRST_X86_VECTOR {
            return None;
        }
        Some(Self { address: 0xfee0_0000 | ((apic as u64) << 12), data: vector as u32 })
    }
}

#[cfg(test)]
#[path = "msi_tests.rs"]
mod tests;
