//! PCI-to-PCI bridges, root ports and switch ports: header type 1 (Bridge 3.2), and the requester ids of requests above
//! them.

use core::fmt;

use bitfield_struct::bitfield;

use crate::Bdf;
use crate::express::PortType;

/// Byte offsets in a type 1 header, each of an aligned dword.
pub mod offset {
    /// [`super::BusNumbers`], and the secondary latency timer in 31:24.
    pub const BUS_NUMBERS: u8 = 0x18;
    /// I/O base (7:0) and limit (15:8): [`super::IoWindow`]; secondary status in 31:16.
    pub const IO: u8 = 0x1c;
    /// Memory base (15:0) and limit (31:16): [`super::MemoryWindow::from_memory`].
    pub const MEMORY: u8 = 0x20;
    /// Prefetchable memory base (15:0) and limit (31:16): [`super::MemoryWindow::from_prefetchable`].
    pub const PREFETCHABLE: u8 = 0x24;
    /// Upper 32 bits of the prefetchable base.
    pub const PREFETCHABLE_BASE_UPPER: u8 = 0x28;
    /// Upper 32 bits of the prefetchable limit.
    pub const PREFETCHABLE_LIMIT_UPPER: u8 = 0x2c;
    /// Upper 16 bits of the I/O base (15:0) and limit (31:16).
    pub const IO_UPPER: u8 = 0x30;
    /// Expansion ROM; bit 0 lets it answer.
    pub const ROM: u8 = 0x38;
}

/// The buses a bridge joins (Bridge 3.2.5.2 to 3.2.5.4). All zeroes until they are numbered.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct BusNumbers {
    /// The bus that the bridge is on.
    pub primary: u8,
    /// The bus right below it.
    pub secondary: u8,
    /// The last bus below it.
    pub subordinate: u8,
    /// Secondary latency timer; read-only 0 on PCI Express.
    pub latency: u8,
}

impl BusNumbers {
    /// Whether a walk from the bridge's bus can go down: all buses below lie above it, so that every walk ends.
    #[must_use]
    pub const fn is_consistent(self, own_bus: u8) -> bool {
        self.primary() == own_bus && self.secondary() > own_bus && self.subordinate() >= self.secondary()
    }

    /// Whether a bus lies below the bridge.
    #[must_use]
    pub const fn forwards(self, bus: u8) -> bool {
        self.secondary() <= bus && bus <= self.subordinate()
    }
}

/// Granularity of both memory windows: 1 MiB.
pub const MEMORY_WINDOW_ALIGN: u64 = 1 << 20;

/// Addresses a bridge forwards downwards: from `base` to `limit`, both included (Bridge 3.2.5.8, 3.2.5.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryWindow {
    base: u64,
    limit: u64,
}

/// Why a window cannot be programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryWindowError {
    /// Base or size is not a multiple of [`MEMORY_WINDOW_ALIGN`].
    Misaligned,
    /// The size is 0, or the end has no address.
    ImpossibleSize,
    /// The window must lie below 4 GiB.
    Above4Gib,
}

impl fmt::Display for MemoryWindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Misaligned => "a bridge's window is not a multiple of 1 MiB",
            Self::ImpossibleSize => "a bridge's window is empty or has no end",
            Self::Above4Gib => "a bridge's window lies above 4 GiB",
        })
    }
}

impl core::error::Error for MemoryWindowError {}

/// The dword at [`offset::MEMORY`] or [`offset::PREFETCHABLE`] that closes the window: its base lies above its limit.
pub const CLOSED: u32 = 0x0000_fff0;
/// The dword at [`offset::IO`] that closes the window and clears no bit of the secondary status.
pub const IO_CLOSED: u32 = 0x0000_00f0;

/// Values to write to open a prefetchable window: the dwords from [`offset::PREFETCHABLE`] on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrefetchableRegisters {
    /// Base and limit, bits 31:20 of each.
    pub low: u32,
    /// Base, bits 63:32.
    pub base_upper: u32,
    /// Limit, bits 63:32.
    pub limit_upper: u32,
}

impl MemoryWindow {
    /// A window of `bytes` from `base`, both multiples of 1 MiB.
    ///
    /// # Errors
    ///
    /// A [`MemoryWindowError`] when there is no such window.
    pub const fn new(base: u64, bytes: u64) -> Result<Self, MemoryWindowError> {
        if (base | bytes) & 0xf_ffff != 0 {
            return Err(MemoryWindowError::Misaligned);
        }
        let Some(beyond_first) = bytes.checked_sub(1) else {
            return Err(MemoryWindowError::ImpossibleSize);
        };
        match base.checked_add(beyond_first) {
            Some(limit) => Ok(Self { base, limit }),
            None => Err(MemoryWindowError::ImpossibleSize),
        }
    }

    /// From the dword at [`offset::MEMORY`]; `None` when the window is closed.
    #[must_use]
    pub const fn from_memory(dword: u32) -> Option<Self> {
        Self::from_parts(((dword & 0xfff0) << 16) as u64, (dword & 0xfff0_0000) as u64)
    }

    /// From the prefetchable registers; `None` when the window is closed. The upper halves count only when the low bits of
    /// base and limit show that the bridge has them.
    #[must_use]
    pub const fn from_prefetchable(registers: PrefetchableRegisters) -> Option<Self> {
        let PrefetchableRegisters { low, base_upper, limit_upper } = registers;
        let mut base = ((low & 0xfff0) << 16) as u64;
        let mut limit = (low & 0xfff0_0000) as u64;
        if is_prefetchable_64(low) {
            base |= (base_upper as u64) << 32;
            limit |= (limit_upper as u64) << 32;
        }
        Self::from_parts(base, limit)
    }

    const fn from_parts(base: u64, last_mebibyte: u64) -> Option<Self> {
        if base > last_mebibyte {
            return None;
        }
        Some(Self { base, limit: last_mebibyte | 0xf_ffff })
    }

    /// The dword for [`offset::MEMORY`].
    ///
    /// # Errors
    ///
    /// [`MemoryWindowError::Above4Gib`].
    pub const fn to_memory(self) -> Result<u32, MemoryWindowError> {
        if self.limit > u32::MAX as u64 {
            return Err(MemoryWindowError::Above4Gib);
        }
        Ok(self.low_halves())
    }

    /// The dwords for the prefetchable window.
    #[must_use]
    pub const fn to_prefetchable(self) -> PrefetchableRegisters {
        PrefetchableRegisters {
            low: self.low_halves(),
            base_upper: (self.base >> 32) as u32,
            limit_upper: (self.limit >> 32) as u32,
        }
    }

    const fn low_halves(self) -> u32 {
        (((self.base >> 16) as u32) & 0xfff0) | ((self.limit as u32) & 0xfff0_0000)
    }

    /// The first address, a multiple of 1 MiB.
    #[must_use]
    pub const fn base(self) -> u64 {
        self.base
    }

    /// The last address.
    #[must_use]
    pub const fn limit(self) -> u64 {
        self.limit
    }

    /// Whether all of `bytes` from `address` are forwarded; false for no bytes.
    #[must_use]
    pub const fn contains(self, address: u64, bytes: u64) -> bool {
        let Some(beyond_first) = bytes.checked_sub(1) else {
            return false;
        };
        match address.checked_add(beyond_first) {
            Some(last) => self.base <= address && last <= self.limit,
            None => false,
        }
    }
}

/// Whether a bridge whose dword at [`offset::PREFETCHABLE`] reads `low`, after [`CLOSED`] was written, has a prefetchable
/// window: without one the register reads zero (Bridge 3.2.5.9).
#[must_use]
pub const fn has_prefetchable(low: u32) -> bool {
    low & 0xfff0 != 0
}

/// Whether the dword at [`offset::PREFETCHABLE`] shows that base and limit have upper halves (Bridge 3.2.5.9).
#[must_use]
pub const fn is_prefetchable_64(low: u32) -> bool {
    low & 0xf == 1 && (low >> 16) & 0xf == 1
}

/// The ports a bridge forwards downwards, both included (Bridge 3.2.5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoWindow {
    /// The first port, a multiple of 4096.
    pub base: u32,
    /// The last port.
    pub limit: u32,
}

impl IoWindow {
    /// From the dwords at [`offset::IO`] and [`offset::IO_UPPER`]; `None` when the window is closed.
    #[must_use]
    pub const fn from_registers(io: u32, upper: u32) -> Option<Self> {
        let mut base = (io & 0xf0) << 8;
        let mut last_page = io & 0xf000;
        if io & 0xf == 1 && (io >> 8) & 0xf == 1 {
            base |= upper << 16;
            last_page |= upper & 0xffff_0000;
        }
        if base > last_page {
            return None;
        }
        Some(Self { base, limit: last_page | 0xfff })
    }
}

/// A bridge's effect on the requester id of requests from below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BridgeKind {
    /// A root port or a switch's port: forwards requests under the id of their sender.
    Express,
    /// PCI Express above, conventional PCI below: all requests from below carry its secondary bus, device 0, function 0
    /// (PCIe to PCI/PCI-X Bridge Specification 2.3).
    ExpressToPci {
        /// The bridge's secondary bus.
        secondary: u8,
    },
    /// Conventional PCI above: requests on a conventional bus carry no id, and get the bridge's own.
    Conventional {
        /// The bridge.
        bdf: Bdf,
    },
}

impl BridgeKind {
    /// The kind of the bridge with this `bdf`, these buses and this port type, which is `None` without a PCI Express capability.
    #[must_use]
    pub const fn new(bdf: Bdf, buses: BusNumbers, port: Option<PortType>) -> Self {
        match port {
            Some(PortType::RootPort | PortType::SwitchUpstream | PortType::SwitchDownstream) => Self::Express,
            Some(PortType::ExpressToPci) => Self::ExpressToPci { secondary: buses.secondary() },
            // Types that no bridge has are taken for the kind that keeps functions least apart.
            _ => Self::Conventional { bdf },
        }
    }
}

/// The requester id under which a function's DMA and messages arrive at the root, where the IOMMU looks it up.
///
/// `path` holds the bridges above the function, from the nearest up to the one on the root bus. Functions that get the
/// same requester id cannot be kept apart by an IOMMU.
#[must_use]
pub const fn requester_id(path: &[BridgeKind], bdf: Bdf) -> Bdf {
    // The topmost bridge that replaces the id determines it, so the search goes from the root down.
    let mut rest = path;
    while let [below @ .., bridge] = rest {
        match *bridge {
            BridgeKind::Express => rest = below,
            BridgeKind::ExpressToPci { secondary } => {
                return Bdf::from_raw((secondary as u16) << 8);
            }
            BridgeKind::Conventional { bdf } => return bdf,
        }
    }
    bdf
}

#[cfg(test)]
#[path = "bridge_tests.rs"]
mod tests;
