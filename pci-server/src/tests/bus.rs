//! Functions as the tests see them: configuration space with its writable bits.

use pci_spec::Bdf;
use std::vec::Vec;

pub(super) const COMMAND_MEMORY: u32 = 1 << 1;
pub(super) const COMMAND_MASTER: u32 = 1 << 2;
const COMMAND_WRITABLE: u32 = 0x0507;
const STATUS_LIST: u32 = 1 << 20;
const STATUS_INTERRUPT: u32 = 1 << 19;
const MSIX_AT: u8 = 0x40;
/// Offset of the MSI capability.
pub(super) const MSI_AT: u8 = 0x60;
const EXPRESS_AT: u8 = 0x80;

/// Effect of a write to configuration space whose order matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    BusMaster(bool),
    Memory(bool),
    Msix(bool),
    /// The function was reset.
    Reset,
    /// The function's virtual functions were enabled or disabled.
    VirtualFunctions(bool),
    /// A BAR was written while the function decoded memory.
    MovedWhileDecoding,
}

/// A function: dwords of configuration space, and their writable bits.
#[derive(Clone, Debug)]
pub(super) struct Device {
    space: [u32; 64],
    writable: [u32; 64],
}

pub(super) fn at(bus: u8, device: u8, function: u8) -> Bdf {
    Bdf::new(bus, device, function).unwrap()
}

impl Device {
    /// A function of these dwords with these writable bits.
    pub(super) const fn new(space: [u32; 64], writable: [u32; 64]) -> Self {
        Self { space, writable }
    }

    /// An endpoint with this class that firmware left running as bus master.
    pub(super) fn endpoint(class: u32) -> Self {
        let mut device = Self::new([0; 64], [0; 64]);
        device.set(0x00, 0x0010_1b36);
        device.set(0x04, COMMAND_MEMORY | COMMAND_MASTER);
        device.set(0x08, class << 8);
        device.writable[1] = COMMAND_WRITABLE;
        device
    }

    /// An NVMe controller with a 64-bit BAR of 16 KiB, MSI-X table at 2000h, PBA at 3000h, and pin A.
    pub(super) fn nvme(address: u64) -> Self {
        Self::endpoint(0x01_08_02).bar64(0, address, 0x4000).msix(4, 0x2000, 0x3000).pin(1)
    }

    /// A root port with these buses and the memory window from `base` to `last`.
    pub(super) fn root_port(buses: [u8; 3], base: u32, last: u32) -> Self {
        Self::bridge(buses, base, last).express(4)
    }

    /// A conventional bridge.
    pub(super) fn bridge(buses: [u8; 3], base: u32, last: u32) -> Self {
        let mut device = Self::endpoint(0x06_04_00);
        let [primary, secondary, subordinate] = buses;
        device.set(0x0c, 1 << 16);
        device.set(0x18, u32::from_le_bytes([primary, secondary, subordinate, 0]));
        device.writable[6] = u32::MAX;
        device.set(0x20, (base >> 16 & 0xfff0) | last & 0xfff0_0000);
        device.set(0x24, 0x0000_fff0);
        device
    }

    pub(super) fn multifunction(mut self) -> Self {
        self.space[3] |= 1 << 23;
        self
    }

    pub(super) fn bar64(mut self, index: u8, address: u64, bytes: u64) -> Self {
        let dword = usize::from(index) + 4;
        let mask = !(bytes - 1);
        self.space[dword] = address as u32 | 0b100;
        self.space[dword + 1] = (address >> 32) as u32;
        self.writable[dword] = mask as u32;
        self.writable[dword + 1] = (mask >> 32) as u32;
        self
    }

    pub(super) fn bar32(mut self, index: u8, address: u32, bytes: u32) -> Self {
        let dword = usize::from(index) + 4;
        self.space[dword] = address;
        self.writable[dword] = !(bytes - 1);
        self
    }

    pub(super) fn io_bar(mut self, index: u8, port: u32, bytes: u32) -> Self {
        self = self.bar32(index, port, bytes);
        self.space[usize::from(index) + 4] |= 1;
        self
    }

    /// MSI-X with table and PBA in BAR 0, first in the list of capabilities.
    pub(super) fn msix(mut self, entries: u32, table: u32, pending: u32) -> Self {
        self.set(MSIX_AT, (entries - 1) << 16 | 0x11);
        self.set(MSIX_AT + 4, table);
        self.set(MSIX_AT + 8, pending);
        self.writable[usize::from(MSIX_AT / 4)] = 0xc000_0000;
        self.list(MSIX_AT)
    }

    /// MSI with this message control, before MSI-X in the list of capabilities, if that is there.
    pub(super) fn msi(mut self, control: u16) -> Self {
        let next = if self.space[1] & STATUS_LIST == 0 { 0 } else { self.read(0x34) };
        self.set(MSI_AT, u32::from(control) << 16 | next << 8 | 5);
        let first = usize::from(MSI_AT / 4);
        // Message control: Enable and Multiple Message Enable. Behind it all that the capability has.
        self.writable[first] = 0x0071_0000;
        self.writable[first + 1..first + 5].fill(u32::MAX);
        self.list(MSI_AT)
    }

    fn express(mut self, port: u32) -> Self {
        self.set(EXPRESS_AT, (port << 4 | 2) << 16 | 0x10);
        self.list(EXPRESS_AT)
    }

    fn list(mut self, first: u8) -> Self {
        self.space[1] |= STATUS_LIST;
        self.set(0x34, u32::from(first));
        self
    }

    pub(super) fn pin(mut self, register: u32) -> Self {
        self.set(0x3c, register << 8 | 11);
        self
    }

    /// Read-only bits, set to anything.
    pub(super) fn with(mut self, register: u8, value: u32) -> Self {
        self.set(register, value);
        self
    }

    /// Every bit of `register` reads one, whatever is written.
    pub(super) fn stuck(mut self, register: u8) -> Self {
        self.set(register, u32::MAX);
        self.writable[usize::from(register / 4)] = 0;
        self
    }

    fn set(&mut self, register: u8, value: u32) {
        self.space[usize::from(register / 4)] = value;
    }

    pub(super) fn read(&self, register: u8) -> u32 {
        self.space[usize::from(register / 4)]
    }

    /// Sets whether its interrupt pin is to be asserted.
    pub(super) fn want_interrupt(&mut self, wanted: bool) {
        self.space[1] = self.space[1] & !STATUS_INTERRUPT | if wanted { STATUS_INTERRUPT } else { 0 };
    }

    pub(super) fn is_master(&self) -> bool {
        self.read(0x04) & COMMAND_MASTER != 0
    }

    pub(super) fn interrupts_by_messages(&self) -> bool {
        self.read(MSIX_AT) & 0xff == 0x11 && self.read(MSIX_AT) & 1 << 31 != 0
    }

    pub(super) fn interrupts_by_msi(&self) -> bool {
        self.read(MSI_AT) & 0xff == 5 && self.read(MSI_AT) & 1 << 16 != 0
    }

    pub(super) fn interrupts_by_pin(&self) -> bool {
        self.read(0x04) & 1 << 10 == 0
    }

    pub(super) fn write(&mut self, register: u8, value: u32) -> Vec<Effect> {
        let dword = usize::from(register / 4);
        let before = self.space[dword];
        self.space[dword] = before & !self.writable[dword] | value & self.writable[dword];
        let changed = before ^ self.space[dword];
        let mut effects = Vec::new();
        match register {
            0x04 => {
                if changed & COMMAND_MASTER != 0 {
                    effects.push(Effect::BusMaster(value & COMMAND_MASTER != 0));
                }
                if changed & COMMAND_MEMORY != 0 {
                    effects.push(Effect::Memory(value & COMMAND_MEMORY != 0));
                }
            }
            0x10..=0x24 if self.read(0x0c) >> 16 & 1 == 0 && changed != 0 && self.read(0x04) & COMMAND_MEMORY != 0 => {
                effects.push(Effect::MovedWhileDecoding);
            }
            MSIX_AT if changed & 1 << 31 != 0 => effects.push(Effect::Msix(value & 1 << 31 != 0)),
            _ => {}
        }
        effects
    }
}
