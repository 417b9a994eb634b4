//! The configuration header: the layout of the first 64 bytes, and the identity of a function (PCI 6.1, 6.2).

use core::fmt;

use bitfield_struct::bitfield;

/// Byte offsets in every header, each to be read as the aligned dword it begins or lies in.
pub mod offset {
    /// Vendor (15:0) and device (31:16). A vendor of all ones: no function here.
    pub const ID: u8 = 0x00;
    /// [`super::Command`] (15:0) and [`super::Status`] (31:16).
    pub const COMMAND_STATUS: u8 = 0x04;
    /// Revision (7:0) and [`super::ClassCode`] (31:8).
    pub const CLASS_REVISION: u8 = 0x08;
    /// [`super::HeaderType`] (23:16), among cache line size, latency timer and BIST.
    pub const HEADER_TYPE: u8 = 0x0c;
    /// The first BAR: six of them in type 0, two in type 1.
    pub const BAR0: u8 = 0x10;
    /// Expansion ROM in type 0; bit 0 lets it answer.
    pub const ROM: u8 = 0x30;
    /// Where the list of capabilities begins (7:0); types 0 and 1.
    pub const CAPABILITIES: u8 = 0x34;
    /// Interrupt line (7:0) and interrupt pin (15:8, see [`crate::Pin`]); in type 1 also bridge control (31:16).
    pub const INTERRUPT: u8 = 0x3c;

    /// Offset of BAR `index`; `None` above 5.
    #[must_use]
    pub const fn bar(index: u8) -> Option<u8> {
        match index {
            0..=5 => BAR0.checked_add(index << 2),
            _ => None,
        }
    }
}

/// The value read where no function answers.
pub const NO_VENDOR: u16 = 0xffff;

/// Buses in a segment (PCI 3.2.2.3.2, as for the next two).
pub const BUSES: usize = 256;
/// Devices on a bus.
pub const DEVICES: u8 = 32;
/// Functions of a device.
pub const FUNCTIONS: u8 = 8;
/// BARs in a type 0 header.
pub const BARS_TYPE_0: u8 = 6;
/// BARs in a type 1 header.
pub const BARS_TYPE_1: u8 = 2;

/// Header type register (PCI 6.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderType(u8);

/// Layout of the header from offset 10h on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Type 0: an endpoint.
    Endpoint,
    /// Type 1: a PCI-to-PCI bridge, a root port or a switch's port.
    Bridge,
    /// Type 2 (CardBus) or one that is not defined.
    Other(u8),
}

impl HeaderType {
    /// From the register's byte.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Self {
        Self(raw)
    }

    /// From the dword at [`offset::HEADER_TYPE`].
    #[must_use]
    pub const fn from_dword(dword: u32) -> Self {
        Self((dword >> 16) as u8)
    }

    /// The layout.
    #[must_use]
    pub const fn layout(self) -> Layout {
        match self.0 & 0x7f {
            0 => Layout::Endpoint,
            1 => Layout::Bridge,
            other => Layout::Other(other),
        }
    }

    /// Whether functions 1 to 7 may exist. If not, they must not be probed, because some devices answer for all eight.
    #[must_use]
    pub const fn is_multifunction(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// How many BARs the header has.
    #[must_use]
    pub const fn bars(self) -> u8 {
        match self.layout() {
            Layout::Endpoint => BARS_TYPE_0,
            Layout::Bridge => BARS_TYPE_1,
            Layout::Other(_) => 0,
        }
    }
}

/// Class code: the kind of a function (PCI 6.2.1, appendix D).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClassCode {
    /// Base class.
    pub base: u8,
    /// Subclass.
    pub sub: u8,
    /// Programming interface.
    pub interface: u8,
}

impl ClassCode {
    /// An NVM Express I/O controller.
    pub const NVME: Self = Self { base: 0x01, sub: 0x08, interface: 0x02 };
    /// A PCI-to-PCI bridge; root ports and switch ports have the same.
    pub const PCI_BRIDGE: Self = Self { base: 0x06, sub: 0x04, interface: 0x00 };

    /// From the dword at [`offset::CLASS_REVISION`].
    #[must_use]
    pub const fn from_dword(dword: u32) -> Self {
        let [_revision, interface, sub, base] = dword.to_le_bytes();
        Self { base, sub, interface }
    }
}

impl fmt::Display for ClassCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}{:02x}", self.base, self.sub, self.interface)
    }
}

/// Command register (PCI 6.2.2).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Command {
    /// Answers I/O cycles.
    pub io_space: bool,
    /// Answers memory cycles.
    pub memory_space: bool,
    /// May be bus master: reads and writes memory, and sends MSI and MSI-X.
    pub bus_master: bool,
    #[bits(3)]
    __: u8,
    /// Reacts to parity errors.
    pub parity_error_response: bool,
    __: bool,
    /// Reports system errors.
    pub serr: bool,
    __: bool,
    /// Does not assert INTx.
    pub interrupt_disable: bool,
    #[bits(5)]
    __: u8,
}

/// Status register (PCI 6.2.3). Error bits are cleared by writing 1.
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Status {
    #[bits(3)]
    __: u8,
    /// INTx is wanted, whether or not it is disabled.
    pub interrupt: bool,
    /// There is a list of capabilities.
    pub capabilities: bool,
    #[bits(3)]
    __: u8,
    /// A parity error of data this function was master for.
    pub master_data_parity_error: bool,
    #[bits(2)]
    __: u8,
    /// This function aborted as target.
    pub signaled_target_abort: bool,
    /// A target aborted this function's cycle.
    pub received_target_abort: bool,
    /// This function's cycle was not answered.
    pub received_master_abort: bool,
    /// This function reported a system error.
    pub signaled_system_error: bool,
    /// This function saw a parity error.
    pub detected_parity_error: bool,
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
