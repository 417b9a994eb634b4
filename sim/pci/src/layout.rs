//! Places of all registers in configuration space, and their values at power on.
//!
//! Capabilities have fixed places: MSI-X at 40h, power management at 60h, PCI Express at 80h, as in QEMU's NVMe
//! function; MSI at C0h. Extended: ARI at 100h, SR-IOV at 120h, for functions with virtual ones. Neighbours: `effects`
//! and `function` give the registers their meaning.

use crate::config::SriovConfig;
use crate::config::{BARS, BarConfig, BusType, FunctionConfig, FunctionLevelReset, Link, MsiConfig, MsixConfig};
use crate::space::{CONVENTIONAL_BYTES, EXPRESS_BYTES, Space};
use pci_spec::bar::Prefetch;
use pci_spec::capability::id;
use pci_spec::express::{Capabilities, DeviceCapabilities, PortType};
use pci_spec::{BarKind, ClassCode, Pin};

/// Byte offsets of the header's registers, as 16 bits.
pub(crate) const COMMAND: u16 = 0x04;
pub(crate) const HEADER: u16 = 0x0c;
pub(crate) const BAR0: u16 = 0x10;
/// The last BAR of a type 0 header.
pub(crate) const LAST_BAR: u16 = 0x24;
/// The last BAR of a type 1 header.
pub(crate) const LAST_PORT_BAR: u16 = 0x14;
const CAPABILITIES: u16 = 0x34;
/// Expansion ROM of a type 0 header, and of a type 1 header.
pub(crate) const ROM: [u16; 2] = [0x30, 0x38];
pub(crate) const INTERRUPT: u16 = 0x3c;

/// Places of the capabilities.
pub(crate) const MSIX: u16 = 0x40;
const POWER: u16 = 0x60;
pub(crate) const EXPRESS: u16 = 0x80;
pub(crate) const MSI: u16 = 0xc0;
const ARI: u16 = 0x100;
pub(crate) const SRIOV: u16 = 0x120;

/// Power management control and status (PCI Power Management 3.2.4).
pub(crate) const POWER_CONTROL: u16 = POWER + 4;
/// Device control and status (PCIe 7.5.3.4).
pub(crate) const DEVICE_CONTROL: u16 = EXPRESS + 8;
/// Link control and status.
pub(crate) const LINK_STATUS: u16 = EXPRESS + 0x10;
/// Slot capabilities, then slot control and status (PCIe 7.5.3.9 to 7.5.3.11).
pub(crate) const SLOT_CAPABILITIES: u16 = EXPRESS + 0x14;
pub(crate) const SLOT: u16 = EXPRESS + 0x18;
/// Device control 2: ARI forwarding enable in bit 5.
pub(crate) const DEVICE_CONTROL_2: u16 = EXPRESS + 0x28;

/// SR-IOV registers (PCIe 9.3.3).
pub(crate) const SRIOV_CONTROL: u16 = SRIOV + 0x08;
pub(crate) const SRIOV_COUNT: u16 = SRIOV + 0x10;
pub(crate) const SRIOV_PAGE_SIZE: u16 = SRIOV + 0x20;
pub(crate) const SRIOV_BAR0: u16 = SRIOV + 0x24;
pub(crate) const SRIOV_LAST_BAR: u16 = SRIOV + 0x38;

/// Memory and I/O space, bus master, parity, SERR, interrupt disable.
const COMMAND_WRITABLE: u32 = 0x0547;
/// Master data parity error, aborts, system error, parity error.
const STATUS_CLEARS: u32 = 0xf900_0000;
const STATUS_LIST: u32 = 1 << 20;
/// Requests of 512 bytes at most, relaxed ordering, no snoop.
const DEVICE_CONTROL_DEFAULT: u32 = 0x2810;

/// The kind of function that a configuration space belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// An endpoint.
    Physical,
    /// A virtual function: no ids, no BARs of its own, no memory enable (PCIe 9.3.4.1).
    Virtual,
}

/// Returns the configuration space of an endpoint.
pub(crate) fn endpoint(config: &FunctionConfig, role: Role) -> Space {
    let express = config.bus_type != BusType::Conventional;
    let mut space = Space::new(if express { EXPRESS_BYTES } else { CONVENTIONAL_BYTES });
    let ids = (config.vendor, config.device);
    identity(&mut space, ids, config.revision, config.class);
    let (subsystem_vendor, subsystem) = config.subsystem;
    space.define(0x2c, pair(subsystem_vendor, subsystem), 0);
    interrupt(&mut space, config.pin);
    match role {
        Role::Physical => bars(&mut space, BAR0, &config.bars),
        Role::Virtual => {
            space.define(0x00, u32::MAX, 0);
            space.define_with_clears(COMMAND, STATUS_LIST, 1 << 2, STATUS_CLEARS);
            space.define(INTERRUPT, 0, 0);
        }
    }
    let mut list = List::new(&mut space);
    msix(&mut list, config.msix);
    power(&mut list);
    match config.bus_type {
        BusType::Express(link) => express_endpoint(&mut list, PortType::Endpoint, config, Some(link)),
        BusType::Integrated => express_endpoint(&mut list, PortType::IntegratedEndpoint, config, None),
        BusType::Conventional => {}
    }
    msi(&mut list, config.msi);
    if let Some(virtual_functions) = &config.sriov {
        sriov(&mut space, virtual_functions);
    }
    space
}

/// Defines the registers that every header begins with.
pub(crate) fn identity(space: &mut Space, ids: (u16, u16), revision: u8, class: ClassCode) {
    space.define(0x00, pair(ids.0, ids.1), 0);
    space.define_with_clears(COMMAND, 0, COMMAND_WRITABLE, STATUS_CLEARS);
    space.define(0x08, u32::from_le_bytes([revision, class.interface, class.sub, class.base]), 0);
    // Cache line size can be written, for historical reasons.
    space.define(HEADER, 0, 0xff);
}

/// Defines interrupt line, for software's own use, and interrupt pin.
pub(crate) fn interrupt(space: &mut Space, pin: Option<Pin>) {
    let register = pin.map_or(0, |pin| u32::from(pin.index()) + 1);
    space.define(INTERRUPT, register << 8, 0xff);
}

/// Defines BARs from byte offset `first` on.
pub(crate) fn bars(space: &mut Space, first: u16, bars: &[Option<BarConfig>; BARS]) {
    for (register, bar) in (first..).step_by(4).zip(bars) {
        let Some(bar) = bar else { continue };
        let mask = !(bar.bytes.wrapping_sub(1));
        let low = mask as u32 & !if bar.kind == BarKind::Io { 0b11 } else { 0b1111 };
        space.define(register, bar_flags(bar.kind), low);
        if matches!(bar.kind, BarKind::Memory64(_)) {
            space.define(register + 4, 0, (mask >> 32) as u32);
        }
    }
}

/// Returns the low bits of a BAR, which encode its kind (PCI 6.2.5.1).
const fn bar_flags(kind: BarKind) -> u32 {
    match kind {
        BarKind::Io => 1,
        BarKind::Memory32(Prefetch::NonPrefetchable) => 0,
        BarKind::Memory32(Prefetch::Prefetchable) => 0b1000,
        BarKind::Memory64(Prefetch::NonPrefetchable) => 0b0100,
        BarKind::Memory64(Prefetch::Prefetchable) => 0b1100,
    }
}

/// The list of capabilities under construction.
pub(crate) struct List<'a> {
    space: &'a mut Space,
    /// The register whose byte points to the next capability, and where in it that byte is.
    link: (u16, u32),
}

impl<'a> List<'a> {
    pub(crate) fn new(space: &'a mut Space) -> Self {
        Self { space, link: (CAPABILITIES, 0) }
    }

    /// Adds a capability with its 16 bits of control, and the bits of the dword that can be written.
    pub(crate) fn add(&mut self, at: u16, id: u8, control: u16, writable: u32) {
        let (register, shift) = self.link;
        self.space.fix(register, u32::from(at) << shift, 0xff << shift);
        self.space.fix(COMMAND, STATUS_LIST, STATUS_LIST);
        self.space.define(at, u32::from(control) << 16 | u32::from(id), writable);
        self.link = (at, 8);
    }

    /// Defines a dword of a capability's body.
    pub(crate) fn define(&mut self, register: u16, value: u32, writable: u32, clears: u32) {
        self.space.define_with_clears(register, value, writable, clears);
    }
}

/// Adds the MSI-X capability; the table itself is in `msix`.
pub(crate) fn msix(list: &mut List<'_>, config: Option<MsixConfig>) {
    let Some(MsixConfig { vectors, table, pending }) = config else { return };
    list.add(MSIX, id::MSIX, vectors.wrapping_sub(1), 0xc000_0000);
    for (register, (bar, offset)) in [(MSIX + 4, table), (MSIX + 8, pending)] {
        list.define(register, offset | u32::from(bar), 0, 0);
    }
}

/// Adds power management, version 3: D0 and D3hot, nothing lost between them.
pub(crate) fn power(list: &mut List<'_>) {
    list.add(POWER, id::POWER_MANAGEMENT, 3, 0);
    list.define(POWER_CONTROL, 1 << 3, 0b11, 0);
}

/// Adds MSI with 64-bit addresses and mask bits.
fn msi(list: &mut List<'_>, config: Option<MsiConfig>) {
    let Some(MsiConfig { vectors_log2 }) = config else { return };
    let control = 1 << 8 | 1 << 7 | u16::from(vectors_log2) << 1;
    list.add(MSI, id::MSI, control, 0x0071_0000);
    let vectors = (1u64 << (1u32 << vectors_log2)) - 1;
    list.define(MSI + 4, 0, 0xffff_fffc, 0);
    list.define(MSI + 8, 0, u32::MAX, 0);
    list.define(MSI + 12, 0, 0xffff, 0);
    list.define(MSI + 16, 0, vectors as u32, 0);
    list.define(MSI + 20, 0, 0, 0);
}

fn express_endpoint(list: &mut List<'_>, port: PortType, config: &FunctionConfig, link: Option<Link>) {
    let flr = config.function_level_reset != FunctionLevelReset::Absent;
    express(list, Capabilities::new().with_port(port), DeviceCapabilities::new().with_flr(flr), link);
}

/// Adds the part of the PCI Express capability that all ports and endpoints share.
pub(crate) fn express(list: &mut List<'_>, control: Capabilities, device: DeviceCapabilities, link: Option<Link>) {
    list.add(EXPRESS, id::EXPRESS, control.with_version(2).into_bits(), 0);
    list.define(EXPRESS + 4, device.with_role_based_errors(true).into_bits(), 0, 0);
    list.define(DEVICE_CONTROL, DEVICE_CONTROL_DEFAULT, 0x7fff, 0x000f_0000);
    if let Some(Link { generation, lanes }) = link {
        // Ports report whether their link is up; a device at its end need not.
        let reports = control.port() == PortType::RootPort || control.port() == PortType::SwitchDownstream;
        let rate = u32::from(lanes) << 4 | u32::from(generation);
        list.define(EXPRESS + 0x0c, u32::from(reports) << 20 | rate, 0, 0);
        list.define(LINK_STATUS, rate << 16, 0x0fdb, 0);
        // Supported speeds: all up to this one. Target speed: the same.
        list.define(EXPRESS + 0x2c, (1u32 << generation.min(6)).wrapping_sub(1) << 1, 0, 0);
        list.define(EXPRESS + 0x30, generation.into(), 0xffff, 0);
    }
    if control.port() == PortType::RootPort {
        // Root control: which errors and events are reported.
        list.define(EXPRESS + 0x1c, 0, 0x1f, 0);
    }
    list.define(EXPRESS + 0x24, 0, 0, 0);
    list.define(DEVICE_CONTROL_2, 0, 0xf, 0);
}

/// Adds ARI and SR-IOV.
fn sriov(space: &mut Space, config: &SriovConfig) {
    ari(space, SRIOV);
    let SriovConfig { total, first_offset, stride, device, bars: virtual_bars, msix: _ } = config;
    space.define(SRIOV, 1 << 16 | 0x0010, 0);
    // VF enable, VF memory space enable, ARI capable hierarchy.
    space.define(SRIOV_CONTROL, 0, 0b1_1001);
    space.define(SRIOV + 0x0c, pair(*total, *total), 0);
    space.define(SRIOV_COUNT, 0, 0xffff);
    space.define(SRIOV + 0x14, pair(*first_offset, *stride), 0);
    space.define(SRIOV + 0x18, pair(0, *device), 0);
    space.define(SRIOV + 0x1c, PAGE_SIZES, 0);
    space.define(SRIOV_PAGE_SIZE, 1, PAGE_SIZES);
    bars(space, SRIOV_BAR0, virtual_bars);
    page_virtual_bars(space, virtual_bars, 4096);
}

/// Makes virtual functions' BARs begin at whole pages: one smaller than a page sizes as a page (PCIe 9.3.3.14).
pub(crate) fn page_virtual_bars(space: &mut Space, bars: &[Option<BarConfig>; BARS], page_bytes: u64) {
    for (register, bar) in (SRIOV_BAR0..).step_by(4).zip(bars) {
        let Some(bar) = bar else { continue };
        let mask = !(bar.bytes.max(page_bytes).wrapping_sub(1));
        space.make_writable(register, mask as u32 & !0xf);
    }
}

/// Pages of 4, 8, 64 and 256 KiB, 1 and 4 MiB: those a physical function must support (PCIe 9.3.3.12).
pub(crate) const PAGE_SIZES: u32 = 0x553;

/// Adds alternative routing-id interpretation: this is the only function of its list.
fn ari(space: &mut Space, next: u16) {
    space.define(ARI, u32::from(next) << 20 | 1 << 16 | 0x000e, 0);
    space.define(ARI + 4, 0, 0);
}

fn pair(low: u16, high: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}
