//! Configuration space: ECAM as the bus of virtio-drivers' PCI types.
//!
//! [`Ecam`] implements the accesses of [`PciRoot`] by checked register accesses; [`ConfigSpace`] adds the few accesses that
//! its users here need beyond those. Neighbours: `pci_spec` gives offsets their meaning. Left out: walks across bridges
//! (`enumerate`, `assign`). The library's own walk knows neither bridges nor the multifunction bit, and its walk along
//! capabilities has no bound (`pci_spec::capability` has one).

use alloc::vec::Vec;
use core::ops::Range;
use pci_spec::capability::{self, id};
use pci_spec::express::{self, ARI_FORWARDING, DEVICE_CONTROL_2, PortType};
use pci_spec::header::{DEVICES, FUNCTIONS, NO_VENDOR, Status, offset};
use pci_spec::{Bdf, HeaderType};
use platform::Mmio;

use virtio_drivers::transport::pci::bus::{Command, ConfigurationAccess, DeviceFunction, PciRoot};

/// The value read where nothing answers.
const NOTHING: u32 = u32::MAX;

/// Memory-mapped configuration space of the first buses, 1 MiB each (PCIe 7.2.2).
#[derive(Clone, Debug)]
pub struct Ecam<M> {
    registers: M,
    buses: u16,
}

impl<M: Mmio> Ecam<M> {
    fn offset(&self, function: DeviceFunction, register: u16) -> Option<usize> {
        if u16::from(function.bus) >= self.buses {
            return None;
        }
        let bdf = Bdf::new(function.bus, function.device, function.function)?;
        bdf.ecam_offset(0)?.checked_add(usize::from(register))
    }

    /// Reads all ones outside the existing buses, as on a bus where no function answers.
    fn read(&self, function: DeviceFunction, register: u16) -> u32 {
        self.offset(function, register).and_then(|offset| self.registers.read32(offset).ok()).unwrap_or(NOTHING)
    }

    /// Drops writes outside the existing buses, as on a bus where no function answers.
    fn write(&self, function: DeviceFunction, register: u16, value: u32) {
        if let Some(offset) = self.offset(function, register) {
            // The offset was checked; a region shorter than its buses acts like a bus without functions.
            let _ = self.registers.write32(offset, value);
        }
    }
}

impl<M: Mmio> ConfigurationAccess for Ecam<M> {
    fn read_word(&self, device_function: DeviceFunction, register_offset: u8) -> u32 {
        self.read(device_function, register_offset.into())
    }

    fn write_word(&mut self, device_function: DeviceFunction, register_offset: u8, data: u32) {
        self.write(device_function, register_offset.into(), data);
    }

    #[expect(
        unsafe_code,
        reason = "the library declares it so; two handles are two ways to the same checked registers"
    )]
    unsafe fn unsafe_clone(&self) -> Self {
        self.clone()
    }
}

/// All of configuration space, for one owner.
#[derive(Debug)]
pub struct ConfigSpace<M: Mmio> {
    ecam: Ecam<M>,
    root: PciRoot<Ecam<M>>,
}

impl<M: Mmio> ConfigSpace<M> {
    /// The configuration space of buses `0..buses` in `registers`.
    #[must_use]
    pub fn new(registers: M, buses: u16) -> Self {
        let ecam = Ecam { registers, buses };
        Self { root: PciRoot::new(ecam.clone()), ecam }
    }

    /// Buses that can be reached, from 0 on.
    #[must_use]
    pub fn buses(&self) -> u16 {
        self.ecam.buses
    }

    /// Whether a function answers at `bdf`.
    #[must_use]
    pub fn answers(&self, bdf: Bdf) -> bool {
        let [low, high, ..] = self.read(bdf, offset::ID).to_le_bytes();
        u16::from_le_bytes([low, high]) != NO_VENDOR
    }

    /// The dword at a byte offset that is a multiple of 4.
    #[must_use]
    pub fn read(&self, bdf: Bdf, register: u8) -> u32 {
        self.ecam.read_word(device_function(bdf), register)
    }

    /// Writes the dword at a byte offset that is a multiple of 4.
    pub fn write(&mut self, bdf: Bdf, register: u8, value: u32) {
        self.ecam.write_word(device_function(bdf), register, value);
    }

    /// Writes the upper half of the dword at such an offset, as capabilities have their control registers, and the lower half
    /// as it is. It has arrived when this returns.
    pub fn write_upper_half(&mut self, bdf: Bdf, register: u8, half: u16) {
        let lower = self.read(bdf, register) & 0xffff;
        self.write(bdf, register, lower | u32::from(half) << 16);
        let _ = self.read(bdf, register);
    }

    /// The dword at a byte offset in all 4 KiB that a PCI Express function has, a multiple of 4.
    #[must_use]
    pub fn read_extended(&self, bdf: Bdf, register: u16) -> u32 {
        self.ecam.read(device_function(bdf), register & 0xffc)
    }

    /// The lower half of the dword at such an offset.
    #[must_use]
    pub fn read_lower_half(&self, bdf: Bdf, register: u16) -> u16 {
        let [low, high, ..] = self.read_extended(bdf, register).to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    /// Writes the dword at such an offset.
    pub fn write_extended(&mut self, bdf: Bdf, register: u16, value: u32) {
        self.ecam.write(device_function(bdf), register & 0xffc, value);
    }

    /// The device numbers that can be on the bus below a bridge. The link below a root port or a switch's downstream port ends at one
    /// device, number 0 (PCIe 7.3.1): what answers at other numbers is the same device once more. Only a port that forwards by ARI
    /// has functions there.
    #[must_use]
    pub fn devices_below(&self, bridge: Bdf) -> Range<u8> {
        let read = |register: u8| self.read(bridge, register);
        let Ok(Some(found)) = capability::find(&read, id::EXPRESS) else { return 0..DEVICES };
        let capabilities = express::Capabilities::from_bits(found.control);
        if !matches!(capabilities.port(), PortType::RootPort | PortType::SwitchDownstream) {
            return 0..DEVICES;
        }
        // The first version has no such register.
        let control_2 = if capabilities.version() < 2 { None } else { found.read32(&read, DEVICE_CONTROL_2) };
        if control_2.is_some_and(|control| control & ARI_FORWARDING != 0) { 0..DEVICES } else { 0..1 }
    }

    /// The functions that answer on `bus` at these device numbers, in order: those above 0 only of devices with the multifunction
    /// bit.
    #[must_use]
    pub fn functions_on(&self, bus: u8, devices: Range<u8>) -> Vec<Bdf> {
        let mut found = Vec::new();
        for device in devices {
            let Some(first) = Bdf::new(bus, device, 0).filter(|bdf| self.answers(*bdf)) else {
                continue;
            };
            let header = HeaderType::from_dword(self.read(first, offset::HEADER_TYPE));
            let functions = if header.is_multifunction() { FUNCTIONS } else { 1 };
            found
                .extend((0..functions).filter_map(|number| Bdf::new(bus, device, number)).filter(|f| self.answers(*f)));
        }
        found
    }

    /// The function's command register.
    #[must_use]
    pub fn command(&self, bdf: Bdf) -> Command {
        self.root.get_status_command(device_function(bdf)).1
    }

    /// Sets the bits `on` and clears the bits `off` of the command register. Returns its value before.
    pub fn change_command(&mut self, bdf: Bdf, on: Command, off: Command) -> Command {
        let before = self.command(bdf);
        self.root.set_command(device_function(bdf), before.union(on).difference(off));
        // Reading back makes sure that a posted write has arrived when this returns.
        let _ = self.command(bdf);
        before
    }

    /// Whether the function wants an interrupt by its pin, enabled or not; false for one that does not answer.
    #[must_use]
    pub fn wants_interrupt(&self, bdf: Bdf) -> bool {
        let command_status = self.read(bdf, offset::COMMAND_STATUS);
        let [_, _, low, high] = command_status.to_le_bytes();
        command_status != NOTHING && Status::from_bits(u16::from_le_bytes([low, high])).interrupt()
    }
}

fn device_function(bdf: Bdf) -> DeviceFunction {
    DeviceFunction { bus: bdf.bus(), device: bdf.device(), function: bdf.function() }
}
