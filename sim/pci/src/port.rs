//! Bridges and ports: type 1 headers, bridge windows, bus numbers, and the slot of a hot-plug port.
//!
//! Neighbours: `routing` follows the registers from the root down; `hot_plug` moves things in and out of slots. Left out:
//! I/O windows (no port is decoded here), secondary status, and switches' internal link states.

use crate::config::{BARS, BarConfig, Link, MsixConfig};
use crate::ids::BusId;
use crate::layout::{self, INTERRUPT, LINK_STATUS, List, SLOT};
use crate::space::{CONVENTIONAL_BYTES, EXPRESS_BYTES, Space};
use core::ops::Range;
use pci_spec::bar::Prefetch;
use pci_spec::bridge::{BusNumbers, MemoryWindow, PrefetchableRegisters, offset};
use pci_spec::express::{Capabilities, DeviceCapabilities, PortType};
use pci_spec::{BarKind, ClassCode, Pin};

/// Byte offsets of a type 1 header's registers.
pub(crate) const BUS_NUMBERS: u16 = offset::BUS_NUMBERS as u16;
pub(crate) const MEMORY: u16 = offset::MEMORY as u16;
pub(crate) const PREFETCHABLE: u16 = offset::PREFETCHABLE as u16;
pub(crate) const PREFETCHABLE_LIMIT_UPPER: u16 = offset::PREFETCHABLE_LIMIT_UPPER as u16;
/// Secondary bus reset, in the dword that bridge control is the upper half of (Bridge 3.2.5.18).
pub(crate) const SECONDARY_BUS_RESET: u32 = 1 << 22;

/// The kind of a bridge or port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortKind {
    /// A root port.
    Root(Link),
    /// A switch's port towards the root.
    SwitchUpstream,
    /// A switch's port towards a device.
    SwitchDownstream(Link),
    /// PCI Express above, conventional PCI below.
    ExpressToPci,
    /// Conventional PCI above and below.
    Conventional,
}

/// A bridge or port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// The port's kind.
    pub kind: PortKind,
    /// The port's slot, if devices below it can be taken out. Only root ports and switches' downstream ports have one.
    pub slot: Option<SlotConfig>,
    /// The device numbers at which the device below answers.
    pub numbers: DeviceNumbers,
}

/// The device numbers at which the one device below a root port or a switch's downstream port answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceNumbers {
    /// Number 0 alone, as the standard has it (PCIe 7.3.1).
    #[default]
    Zero,
    /// All 32: the port forwards configuration accesses whatever their device number, and the device answers them.
    All,
}

/// A hot-plug slot with attention button, indicators and a power controller (PCIe 6.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotConfig {
    /// Physical slot number, 13 bits.
    pub number: u16,
}

impl PortConfig {
    /// Returns a root port like QEMU's (1b36:000c) with a slot of this number.
    #[must_use]
    pub const fn root_port(slot: u16) -> Self {
        let kind = PortKind::Root(Link { generation: 4, lanes: 16 });
        Self {
            vendor: 0x1b36,
            device: 0x000c,
            kind,
            slot: Some(SlotConfig { number: slot }),
            numbers: DeviceNumbers::Zero,
        }
    }

    /// Returns a conventional bridge like QEMU's (1b36:0001).
    #[must_use]
    pub const fn conventional() -> Self {
        Self { vendor: 0x1b36, device: 0x0001, kind: PortKind::Conventional, slot: None, numbers: DeviceNumbers::Zero }
    }

    /// Returns a bridge from PCI Express to conventional PCI like QEMU's (1b36:000e).
    #[must_use]
    pub const fn express_to_pci() -> Self {
        Self { vendor: 0x1b36, device: 0x000e, kind: PortKind::ExpressToPci, slot: None, numbers: DeviceNumbers::Zero }
    }

    /// Returns a switch's upstream port like QEMU's (104c:8232).
    #[must_use]
    pub const fn switch_upstream() -> Self {
        Self {
            vendor: 0x104c,
            device: 0x8232,
            kind: PortKind::SwitchUpstream,
            slot: None,
            numbers: DeviceNumbers::Zero,
        }
    }

    /// Returns a switch's downstream port like QEMU's (104c:8233), with a slot of this number.
    #[must_use]
    pub const fn switch_downstream(slot: u16) -> Self {
        let kind = PortKind::SwitchDownstream(Link { generation: 4, lanes: 16 });
        Self {
            vendor: 0x104c,
            device: 0x8233,
            kind,
            slot: Some(SlotConfig { number: slot }),
            numbers: DeviceNumbers::Zero,
        }
    }

    /// Returns its message table: ports that signal events have one vector.
    pub(crate) fn msix(&self) -> Option<MsixConfig> {
        self.slot.map(|_| MsixConfig { vectors: 1, table: (0, 0), pending: (0, 0x800) })
    }

    pub(crate) fn pin(&self) -> Option<Pin> {
        self.slot.map(|_| Pin::A)
    }

    /// Returns a page for the message table.
    pub(crate) fn bars(&self) -> [Option<BarConfig>; BARS] {
        let kind = BarKind::Memory32(Prefetch::NonPrefetchable);
        let mut bars = [None; BARS];
        bars[0] = self.slot.map(|_| BarConfig { kind, bytes: 4096 });
        bars
    }

    /// Returns configuration space at power on.
    pub(crate) fn space(&self) -> Space {
        let express = self.kind != PortKind::Conventional;
        let mut space = Space::new(if express { EXPRESS_BYTES } else { CONVENTIONAL_BYTES });
        layout::identity(&mut space, (self.vendor, self.device), 0, ClassCode::PCI_BRIDGE);
        space.fix(layout::HEADER, 1 << 16, 0x7f << 16);
        layout::bars(&mut space, layout::BAR0, &self.bars());
        space.define(BUS_NUMBERS, 0, 0x00ff_ffff);
        space.define(MEMORY, 0, 0xfff0_fff0);
        space.define(PREFETCHABLE, 0x0001_0001, 0xfff0_fff0);
        space.define(PREFETCHABLE + 4, 0, u32::MAX);
        space.define(PREFETCHABLE_LIMIT_UPPER, 0, u32::MAX);
        space.define(offset::IO.into(), 0x0101, 0xf0f0);
        space.define(offset::IO_UPPER.into(), 0, u32::MAX);
        layout::interrupt(&mut space, self.pin());
        // Parity, SERR, ISA, VGA, VGA 16 bit, secondary bus reset.
        space.define(INTERRUPT, space.read(INTERRUPT), 0x005f_00ff);
        let mut list = List::new(&mut space);
        layout::msix(&mut list, self.msix());
        layout::power(&mut list);
        self.express(&mut list);
        space
    }

    fn express(&self, list: &mut List<'_>) {
        let (port, link) = match self.kind {
            PortKind::Root(link) => (PortType::RootPort, Some(link)),
            PortKind::SwitchUpstream => (PortType::SwitchUpstream, None),
            PortKind::SwitchDownstream(link) => (PortType::SwitchDownstream, Some(link)),
            PortKind::ExpressToPci => (PortType::ExpressToPci, None),
            PortKind::Conventional => return,
        };
        let control = Capabilities::new().with_port(port).with_slot(self.slot.is_some());
        layout::express(list, control, DeviceCapabilities::new(), link);
        if link.is_some() {
            // ARI forwarding can be enabled.
            list.define(layout::EXPRESS + 0x24, 1 << 5, 0, 0);
            list.define(layout::DEVICE_CONTROL_2, 0, 1 << 5 | 0xf, 0);
        }
        if let Some(slot) = self.slot {
            slot.define(list);
        }
    }
}

impl SlotConfig {
    /// Attention button, power controller, both indicators, surprise, hot plug.
    const ABILITIES: u32 = 0b111_1011;
    /// Power on, both indicators off.
    const CONTROL: u32 = 0b11 << 6 | 0b11 << 8;
    /// The event bits of the slot's status clear by writing one.
    const EVENTS: u32 = 0x011f_0000;

    fn define(self, list: &mut List<'_>) {
        let number = u32::from(self.number & 0x1fff) << 19;
        list.define(layout::SLOT_CAPABILITIES, number | Self::ABILITIES, 0, 0);
        list.define(SLOT, Self::CONTROL, 0x17ff, Self::EVENTS);
    }
}

/// The state of a port that is not in its registers.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) kind: PortKind,
    /// The bus below.
    pub(crate) below: BusId,
    pub(crate) slot: Option<Presence>,
    pub(crate) numbers: DeviceNumbers,
}

/// Whether something is in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    Empty,
    Occupied,
}

impl Port {
    /// Whether the devices below can be reached: the link is up and nothing is held in reset.
    pub(crate) fn is_open(&self, space: &Space) -> bool {
        self.link_is_up(space) && space.read(INTERRUPT) & SECONDARY_BUS_RESET == 0
    }

    /// Whether there is a device with power at the other end of the link.
    pub(crate) fn link_is_up(&self, space: &Space) -> bool {
        const LINK_DISABLE: u32 = 1 << 4;
        match self.slot {
            None => true,
            Some(Presence::Empty) => false,
            Some(Presence::Occupied) => slot_has_power(space) && space.read(LINK_STATUS) & LINK_DISABLE == 0,
        }
    }

    /// Whether functions of this device number answer below it (PCIe 7.3.1). A link has only device 0 at its end,
    /// unless ARI forwarding is enabled.
    pub(crate) fn forwards_device(&self, space: &Space, device: u8) -> bool {
        match self.kind {
            PortKind::Root(_) | PortKind::SwitchDownstream(_) => {
                device == 0 || self.numbers == DeviceNumbers::All || space.read(layout::DEVICE_CONTROL_2) & 1 << 5 != 0
            }
            PortKind::SwitchUpstream | PortKind::ExpressToPci | PortKind::Conventional => true,
        }
    }
}

/// The power controller's switch: 0 is on.
pub(crate) fn slot_has_power(space: &Space) -> bool {
    space.read(SLOT) & 1 << 10 == 0
}

/// Returns the buses that a bridge's registers name.
pub(crate) fn bus_numbers(space: &Space) -> BusNumbers {
    BusNumbers::from_bits(space.read(BUS_NUMBERS))
}

/// Returns the memory ranges that a bridge forwards downwards by its registers.
pub(crate) fn windows(space: &Space) -> impl Iterator<Item = Range<u64>> {
    let prefetchable = PrefetchableRegisters {
        low: space.read(PREFETCHABLE),
        base_upper: space.read(PREFETCHABLE + 4),
        limit_upper: space.read(PREFETCHABLE_LIMIT_UPPER),
    };
    let windows = [MemoryWindow::from_memory(space.read(MEMORY)), MemoryWindow::from_prefetchable(prefetchable)];
    windows.into_iter().flatten().map(|window| window.base()..window.limit().saturating_add(1))
}
