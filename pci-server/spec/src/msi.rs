//! MSI: its capability (PCI 6.8.1), and the message that MSI and MSI-X both send.

use bitfield_struct::bitfield;

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

/// What a function writes where, to interrupt.
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
