//! The SR-IOV extended capability: the number of a function's virtual functions, their registers, and their routing ids
//! (PCIe 9.3.3).
//!
//! A function may report anything. [`Sriov::read`] refuses impossible numbers, and routing ids are computed with checks.
//! Left out: VF migration, which exists only below a multi-root switch, and sizing of BARs, which needs writes.

use core::fmt;

use crate::{Bar, Bdf, extended};
use bitfield_struct::bitfield;

/// Byte offsets from the capability's start, each of an aligned dword.
pub mod offset {
    /// [`super::Capabilities`].
    pub const CAPABILITIES: u16 = 0x04;
    /// [`super::Control`] (15:0) and status (31:16).
    pub const CONTROL: u16 = 0x08;
    /// InitialVFs (15:0) and TotalVFs (31:16).
    pub const TOTAL: u16 = 0x0c;
    /// NumVFs (15:0) and Function Dependency Link (23:16).
    pub const NUMBER: u16 = 0x10;
    /// First VF Offset (15:0) and VF Stride (31:16): [`super::Routing`].
    pub const ROUTING: u16 = 0x14;
    /// VF Device ID (31:16).
    pub const DEVICE: u16 = 0x18;
    /// Supported Page Sizes: bit n stands for 4 KiB << n.
    pub const SUPPORTED_PAGE_SIZES: u16 = 0x1c;
    /// System Page Size: one bit, of which bit n stands for 4 KiB << n.
    pub const SYSTEM_PAGE_SIZE: u16 = 0x20;
    /// The first of six BARs, each of which all virtual functions share, one part after the other.
    pub const BAR0: u16 = 0x24;
}

/// BARs that virtual functions share.
pub const BARS: usize = 6;
/// Bytes of the capability.
pub const BYTES: u16 = 0x40;
/// [`offset::SYSTEM_PAGE_SIZE`] for pages of 4 KiB, which every function supports.
pub const PAGES_OF_4_KIB: u32 = 1;
/// Bytes of these pages: no part of a BAR is smaller (PCIe 9.3.3.13).
pub const PAGE_BYTES: u64 = 4096;
/// Milliseconds from VF Enable to the first access to a virtual function (PCIe 9.3.3.3.1).
pub const ENABLE_MS: u64 = 100;
/// Milliseconds from the end of VF Enable to the next read of the capability (PCIe 9.3.3.3.1).
pub const DISABLE_MS: u64 = 1000;

/// SR-IOV capabilities (PCIe 9.3.3.2).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Capabilities {
    /// Virtual functions can migrate: some of TotalVFs may be elsewhere.
    pub vf_migration: bool,
    /// [`Control::ari_capable_hierarchy`] keeps its value in power states.
    pub ari_preserved: bool,
    #[bits(30)]
    __: u32,
}

/// SR-IOV control (PCIe 9.3.3.3).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Control {
    /// There are virtual functions.
    pub vf_enable: bool,
    /// Virtual functions can migrate.
    pub vf_migration_enable: bool,
    /// Migration interrupts.
    pub vf_migration_interrupt: bool,
    /// Virtual functions answer memory cycles (VF MSE).
    pub vf_memory_space: bool,
    /// Routing ids of virtual functions may have any device number, because the port above forwards by ARI.
    pub ari_capable_hierarchy: bool,
    /// Everything else: to be written back as read.
    #[bits(11)]
    pub others: u16,
}

/// Which routing ids virtual functions have (PCIe 9.3.3.9, 9.3.3.10). They may change with NumVFs and
/// [`Control::ari_capable_hierarchy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Routing {
    /// From the physical function's to the first one's.
    pub first: u16,
    /// From one to the next.
    pub stride: u16,
}

impl Routing {
    /// From the dword at [`offset::ROUTING`].
    #[must_use]
    pub const fn from_dword(dword: u32) -> Self {
        Self { first: dword as u16, stride: (dword >> 16) as u16 }
    }

    /// The routing id of virtual function `number_z`, counted from 0, of `physical`. `None` beyond the last bus.
    #[must_use]
    pub fn function(self, physical: Bdf, number_z: u16) -> Option<Bdf> {
        let beyond_first = number_z.checked_mul(self.stride)?;
        physical.to_raw().checked_add(self.first)?.checked_add(beyond_first).map(Bdf::from_raw)
    }

    /// The bus of the last of `total` virtual functions of `physical`. `None` when there is none, or no such routing id.
    #[must_use]
    pub fn last_bus(self, physical: Bdf, total: u16) -> Option<u8> {
        self.function(physical, total.checked_sub(1)?).map(Bdf::bus)
    }

    /// Whether `total` virtual functions have different routing ids, none of them their physical function's.
    #[must_use]
    pub const fn is_distinct(self, total: u16) -> bool {
        self.first != 0 && (self.stride != 0 || total <= 1)
    }
}

/// A function's SR-IOV capability with possible numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sriov {
    /// Where the capability begins in configuration space.
    pub offset: u16,
    /// Virtual functions there can be, at least 1.
    pub total: u16,
    /// Routing ids of the virtual functions, for the NumVFs that was set when they were read.
    pub routing: Routing,
    /// Device id of the virtual functions.
    pub device: u16,
}

/// Why a capability was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SriovError {
    /// The capability does not fit into configuration space.
    Truncated,
    /// TotalVFs is 0.
    NoFunctions,
    /// InitialVFs is not a possible part of TotalVFs.
    InitialFunctions {
        /// InitialVFs.
        initial: u16,
        /// TotalVFs.
        total: u16,
    },
    /// First VF Offset or VF Stride is 0, so that two functions have one routing id.
    SharedRoutingId(Routing),
    /// A virtual function lies beyond the last bus.
    NoRoutingId(Routing),
    /// The virtual functions depend on those of another physical function of the device (PCIe 9.3.3.8), which would have to be
    /// enabled with them.
    DependsOn {
        /// Number of the other function.
        function: u8,
    },
    /// Pages of 4 KiB are not supported, which the standard requires.
    PageSizes {
        /// Supported Page Sizes.
        supported: u32,
    },
}

impl fmt::Display for SriovError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the SR-IOV capability does not fit into configuration space"),
            Self::NoFunctions => f.write_str("the SR-IOV capability has no virtual functions"),
            Self::InitialFunctions { initial, total } => {
                write!(f, "{initial} of {total} virtual functions are there at first")
            }
            Self::SharedRoutingId(Routing { first, stride }) => {
                write!(f, "virtual functions share routing ids: offset {first}, stride {stride}")
            }
            Self::NoRoutingId(Routing { first, stride }) => {
                write!(f, "virtual functions lie beyond the last bus: offset {first}, stride {stride}")
            }
            Self::DependsOn { function } => write!(f, "virtual functions depend on those of function {function}"),
            Self::PageSizes { supported } => write!(f, "pages of 4 KiB are not among {supported:#x}"),
        }
    }
}

impl core::error::Error for SriovError {}

impl Sriov {
    /// Reads and checks the capability at `offset` of `physical`, found with [`extended::id::SRIOV`]. `read` returns the
    /// dword at a byte offset that is a multiple of 4. Routing ids are those for the NumVFs that is set.
    ///
    /// # Errors
    ///
    /// A [`SriovError`] for impossible values, among them those of a function that is gone.
    pub fn read(read: impl Fn(u16) -> u32, physical: Bdf, offset: u16) -> Result<Self, SriovError> {
        check_place(offset)?;
        let register = |bytes: u16| read(offset.saturating_add(bytes));
        let supported = register(offset::SUPPORTED_PAGE_SIZES);
        if supported & PAGES_OF_4_KIB == 0 {
            return Err(SriovError::PageSizes { supported });
        }
        let capabilities = Capabilities::from_bits(register(offset::CAPABILITIES));
        let counts = register(offset::TOTAL);
        let (initial, total) = (counts as u16, (counts >> 16) as u16);
        if total == 0 {
            return Err(SriovError::NoFunctions);
        }
        // Without migration all of them are there from the beginning (PCIe 9.3.3.5).
        if initial == 0 || initial > total || (initial < total && !capabilities.vf_migration()) {
            return Err(SriovError::InitialFunctions { initial, total });
        }
        let routing = Routing::from_dword(register(offset::ROUTING));
        if !routing.is_distinct(initial) {
            return Err(SriovError::SharedRoutingId(routing));
        }
        routing.last_bus(physical, initial).ok_or(SriovError::NoRoutingId(routing))?;
        let link = (register(offset::NUMBER) >> 16) as u8;
        if link != physical.function() {
            return Err(SriovError::DependsOn { function: link });
        }
        Ok(Self { offset, total: initial, routing, device: (register(offset::DEVICE) >> 16) as u16 })
    }

    /// Byte offset of a register of the capability, of those in [`offset`].
    #[must_use]
    pub const fn register(self, bytes: u16) -> u16 {
        self.offset.saturating_add(bytes)
    }
}

/// Checks that a capability at `offset` ends inside configuration space: an access beyond would be to another function.
///
/// # Errors
///
/// [`SriovError::Truncated`].
pub fn check_place(offset: u16) -> Result<(), SriovError> {
    let end = offset.checked_add(BYTES).filter(|end| *end <= extended::END);
    end.map(|_| ()).ok_or(SriovError::Truncated)
}

/// Bytes that `functions` virtual functions decode with `bar`, one function's part (PCIe 9.3.3.14). `None` for a part
/// smaller than a page, for one of I/O ports, and for more bytes than there are addresses.
#[must_use]
pub fn bytes(bar: &Bar, functions: u16) -> Option<u64> {
    let possible = bar.is_memory() && bar.size() >= PAGE_BYTES;
    possible.then(|| bar.size().checked_mul(functions.into())).flatten()
}

#[cfg(test)]
#[path = "sriov_tests.rs"]
#[expect(clippy::arithmetic_side_effects, reason = "tests compute with numbers of their own")]
mod tests;
