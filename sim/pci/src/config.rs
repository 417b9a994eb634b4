//! Configuration of a function: identity, BARs, capabilities. Checked once, when it is attached.
//!
//! Neighbours: `layout` writes it into configuration space. Left out: expansion ROMs (none here has one).

use core::fmt;
use pci_spec::bar::Prefetch;
use pci_spec::{BarKind, ClassCode, Pin};

/// BARs of a type 0 header.
pub const BARS: usize = 6;
/// Bytes of BAR 0 of an `edu` device.
pub const EDU_BAR_BYTES: u64 = 1 << 20;

/// An endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionConfig {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Revision id.
    pub revision: u8,
    /// Class code.
    pub class: ClassCode,
    /// Subsystem vendor id and subsystem id.
    pub subsystem: (u16, u16),
    /// The function's BARs; the place after a 64-bit one stays `None`.
    pub bars: [Option<BarConfig>; BARS],
    /// The function's interrupt pin.
    pub pin: Option<Pin>,
    /// MSI-X.
    pub msix: Option<MsixConfig>,
    /// MSI.
    pub msi: Option<MsiConfig>,
    /// PCI Express or not.
    pub bus_type: BusType,
    /// Whether the function can be reset alone.
    pub function_level_reset: FunctionLevelReset,
    /// Virtual functions.
    pub sriov: Option<SriovConfig>,
}

/// A BAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarConfig {
    /// The address space that it decodes. I/O BARs can be sized and moved, but no port is decoded.
    pub kind: BarKind,
    /// Bytes, a power of two: 16 and more of memory, 4 to 256 ports.
    pub bytes: u64,
}

/// MSI-X table and pending bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsixConfig {
    /// Vectors: 1..=2048.
    pub vectors: u16,
    /// BAR and byte offset in it of the table, a multiple of 8.
    pub table: (u8, u32),
    /// BAR and byte offset in it of the pending bits, a multiple of 8.
    pub pending: (u8, u32),
}

/// MSI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiConfig {
    /// log2 of the vectors: 0..=5.
    pub vectors_log2: u8,
}

/// The kind of a function on its bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BusType {
    /// A PCI Express endpoint, behind a port.
    Express(Link),
    /// A PCI Express endpoint on the root bus, without a link.
    Integrated,
    /// Conventional PCI: 256 bytes of configuration space.
    Conventional,
}

/// A link's speed and width (PCIe 7.5.3.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Generation 1 to 5: 2.5, 5, 8, 16, 32 GT/s.
    pub generation: u8,
    /// Lanes: 1, 2, 4, 8, 16.
    pub lanes: u8,
}

impl Link {
    /// 8 GT/s, four lanes: the link of NVMe drives of that generation.
    pub const GEN3_X4: Self = Self { generation: 3, lanes: 4 };
}

/// Function level reset (PCIe 6.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionLevelReset {
    /// Absent.
    Absent,
    /// Present. The function answers nothing for this long afterwards; the standard allows 100 ms.
    Takes {
        /// Nanoseconds.
        ns: u64,
    },
}

/// Virtual functions (PCIe 9.3.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SriovConfig {
    /// TotalVFs and InitialVFs. As many devices go into [`crate::Endpoint::virtual_functions`].
    pub total: u16,
    /// From the physical function's routing id to the first virtual function's.
    pub first_offset: u16,
    /// From one virtual function's routing id to the next one's.
    pub stride: u16,
    /// Device id of the virtual functions.
    pub device: u16,
    /// BARs of each virtual function; memory only.
    pub bars: [Option<BarConfig>; BARS],
    /// MSI-X of each virtual function.
    pub msix: Option<MsixConfig>,
}

/// The reason why a function cannot be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// A size that is not a power of two, too small, or too large for its kind.
    BarSize {
        /// Which BAR.
        index: u8,
    },
    /// No place for the upper half of a 64-bit BAR.
    NoUpperHalf {
        /// Which BAR.
        index: u8,
    },
    /// No vectors, or too many.
    Vectors,
    /// The MSI-X table or the pending bits lie outside a memory BAR, are misaligned, or overlap.
    TablePlace,
    /// Virtual functions with impossible numbers, with I/O BARs, or of a function that is not PCI Express.
    VirtualFunctions,
    /// The number of devices differs from the number of virtual functions.
    VirtualDevices,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BarSize { index } => write!(f, "BAR {index} has an impossible size"),
            Self::NoUpperHalf { index } => write!(f, "BAR {index} has no place for its upper half"),
            Self::Vectors => f.write_str("an impossible number of vectors"),
            Self::TablePlace => f.write_str("the MSI-X table or its pending bits cannot lie there"),
            Self::VirtualFunctions => f.write_str("virtual functions that cannot be"),
            Self::VirtualDevices => f.write_str("not as many devices as virtual functions"),
        }
    }
}

impl core::error::Error for ConfigError {}

impl FunctionConfig {
    /// Returns a PCI Express endpoint with no BARs, no interrupts and no reset of its own.
    #[must_use]
    pub const fn new(vendor: u16, device: u16, class: ClassCode) -> Self {
        Self {
            vendor,
            device,
            revision: 0,
            class,
            subsystem: (0, 0),
            bars: [None; BARS],
            pin: None,
            msix: None,
            msi: None,
            bus_type: BusType::Express(Link::GEN3_X4),
            function_level_reset: FunctionLevelReset::Absent,
            sriov: None,
        }
    }

    /// QEMU's `edu` device (1234:11e8), a conventional PCI function with a pin and one MSI vector (QEMU's `docs/specs/edu.rst`).
    #[must_use]
    pub fn edu() -> Self {
        let mut config = Self::new(0x1234, 0x11e8, ClassCode { base: 0, sub: 0xff, interface: 0 });
        let kind = BarKind::Memory32(Prefetch::NonPrefetchable);
        config.revision = 0x10;
        config.pin = Some(Pin::A);
        config.bars[0] = Some(BarConfig { kind, bytes: EDU_BAR_BYTES });
        config.msi = Some(MsiConfig { vectors_log2: 0 });
        config.bus_type = BusType::Conventional;
        config
    }

    /// An NVMe controller like QEMU's (1b36:0010): BAR 0 is 64 bits wide, with `register_bytes` of registers and
    /// doorbells, then the page of the MSI-X table, then that of the pending bits.
    ///
    /// QEMU's own has its table at 2000h when it has up to 64 queues: `nvme(0x2000, 65)`.
    #[must_use]
    pub fn nvme(register_bytes: u32, vectors: u16) -> Self {
        let (bar, msix) = nvme_places(register_bytes, vectors);
        let mut config = Self::new(0x1b36, 0x0010, ClassCode::NVME);
        config.revision = 2;
        config.subsystem = (0x1af4, 0x1100);
        config.pin = Some(Pin::A);
        config.bars[0] = Some(bar);
        config.msix = Some(msix);
        config.function_level_reset = FunctionLevelReset::Takes { ns: 0 };
        config
    }

    /// Returns the same with a prefetchable BAR 2 of `bytes`, a power of two, in which nothing is.
    #[must_use]
    pub const fn with_memory_in_bar_2(mut self, bytes: u64) -> Self {
        self.bars[2] = Some(BarConfig { kind: BarKind::Memory64(Prefetch::Prefetchable), bytes });
        self
    }

    /// Returns the same with the MSI-X table and the pending bits at the start of BAR 4, and BAR 0 for what was before them.
    #[must_use]
    pub fn with_table_in_bar_4(mut self) -> Self {
        let Some(MsixConfig { vectors, table: (_, table), pending: (_, pending) }) = self.msix else { return self };
        let Some(bar) = self.bars[0] else { return self };
        let after = pending.saturating_sub(table);
        let config = MsixConfig { vectors, table: (4, 0), pending: (4, after) };
        let bytes = (u64::from(after) + config.pending_bytes()).next_power_of_two();
        self.bars[0] = Some(BarConfig { bytes: u64::from(table).next_power_of_two(), ..bar });
        self.bars[4] = Some(BarConfig { bytes, ..bar });
        self.msix = Some(config);
        self
    }

    /// Returns the same with virtual functions whose registers are as large: the next routing ids, one after the other.
    #[must_use]
    pub fn with_virtual_nvme(mut self, total: u16, register_bytes: u32, vectors: u16) -> Self {
        let (bar, msix) = nvme_places(register_bytes, vectors);
        let mut bars = [None; BARS];
        bars[0] = Some(bar);
        self.sriov = Some(SriovConfig { total, first_offset: 1, stride: 1, device: 0x0010, bars, msix: Some(msix) });
        self
    }

    /// # Errors
    ///
    /// A [`ConfigError`] for an impossible function.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check_bars(&self.bars, self.msix)?;
        if self.msi.is_some_and(|msi| msi.vectors_log2 > 5) {
            return Err(ConfigError::Vectors);
        }
        let Some(sriov) = &self.sriov else {
            return Ok(());
        };
        check_bars(&sriov.bars, sriov.msix)?;
        let io = sriov.bars.iter().flatten().any(|bar| bar.kind == BarKind::Io);
        let places = sriov.total > 0 && sriov.first_offset > 0 && (sriov.stride > 0 || sriov.total == 1);
        if io || !places || self.bus_type == BusType::Conventional {
            return Err(ConfigError::VirtualFunctions);
        }
        Ok(())
    }
}

fn nvme_places(register_bytes: u32, vectors: u16) -> (BarConfig, MsixConfig) {
    const PAGE: u64 = 4096;
    let table = u64::from(register_bytes.max(0x1000)).next_multiple_of(PAGE);
    let pending = (table + u64::from(vectors) * pci_spec::msix::ENTRY_BYTES).next_multiple_of(PAGE);
    let bytes = (pending + u64::from(vectors).div_ceil(64) * 8).next_power_of_two();
    let kind = BarKind::Memory64(Prefetch::NonPrefetchable);
    // An offset beyond 4 GiB is refused when the function is attached.
    let at = |offset: u64| (0, u32::try_from(offset).unwrap_or(u32::MAX));
    (BarConfig { kind, bytes }, MsixConfig { vectors, table: at(table), pending: at(pending) })
}

fn check_bars(bars: &[Option<BarConfig>; BARS], msix: Option<MsixConfig>) -> Result<(), ConfigError> {
    for (index, bar) in (0u8..).zip(bars) {
        let Some(bar) = bar else { continue };
        let (least, most) = match bar.kind {
            BarKind::Io => (4, 256),
            BarKind::Memory32(_) => (16, 1 << 31),
            BarKind::Memory64(_) => (16, 1 << 62),
        };
        if !bar.bytes.is_power_of_two() || !(least..=most).contains(&bar.bytes) {
            return Err(ConfigError::BarSize { index });
        }
        let wide = matches!(bar.kind, BarKind::Memory64(_));
        if wide && bars.get(usize::from(index) + 1) != Some(&None) {
            return Err(ConfigError::NoUpperHalf { index });
        }
    }
    msix.map_or(Ok(()), |msix| check_msix(bars, msix))
}

fn check_msix(bars: &[Option<BarConfig>; BARS], msix: MsixConfig) -> Result<(), ConfigError> {
    if !(1..=2048).contains(&msix.vectors) {
        return Err(ConfigError::Vectors);
    }
    let table = u64::from(msix.table.1)..u64::from(msix.table.1) + msix.table_bytes();
    let pending = u64::from(msix.pending.1)..u64::from(msix.pending.1) + msix.pending_bytes();
    for ((bar, offset), end) in [(msix.table, table.end), (msix.pending, pending.end)] {
        let bar = bars.get(usize::from(bar)).copied().flatten().ok_or(ConfigError::TablePlace)?;
        if bar.kind == BarKind::Io || end > bar.bytes || offset % 8 != 0 {
            return Err(ConfigError::TablePlace);
        }
    }
    if msix.table.0 == msix.pending.0 && table.start < pending.end && pending.start < table.end {
        return Err(ConfigError::TablePlace);
    }
    Ok(())
}

impl MsixConfig {
    /// Bytes of the table.
    pub(crate) const fn table_bytes(self) -> u64 {
        self.vectors as u64 * pci_spec::msix::ENTRY_BYTES
    }

    /// Bytes of the pending bits: whole 64-bit words.
    pub(crate) const fn pending_bytes(self) -> u64 {
        (self.vectors as u64).div_ceil(64) * 8
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
