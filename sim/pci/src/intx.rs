//! Interrupt pins: the way up through bridges, the chipset's routing, and lines that several functions share.
//!
//! A bridge wires pin *p* of device *d* below it to its own pin *(p + d) mod 4* (Bridge 9.1, table 9-1). On q35 the
//! root bus ends at the I/O APIC's pins 16 to 23: A to D are the first four and E to H the last. Devices 0 to 24 take
//! turns on E to H. The others have A to D by their pin, but device 30, which has E to H. On virt all devices take
//! turns on the GIC's interrupts 35 to 38.

use crate::host::HostBridge;
use crate::machine::{Level, Machine};
use pci_spec::Pin;
use std::collections::BTreeMap;

const A: u8 = 16;
const E: u8 = 20;
const VIRT: u8 = 35;

/// Returns the pin above a bridge for pin 0..=3 of a device below it.
pub(crate) const fn above(pin: u8, device: u8) -> u8 {
    pin.wrapping_add(device) % 4
}

/// Returns the line of a device's pin on the root bus.
pub(crate) const fn interrupt_line(host: HostBridge, pin: u8, device: u8) -> u8 {
    match (host, device) {
        (HostBridge::Q35, 0..=24) => E + above(pin, device),
        (HostBridge::Q35, 30) => E + pin % 4,
        (HostBridge::Q35, _) => A + pin % 4,
        (HostBridge::Virt, _) => VIRT + above(pin, device),
    }
}

/// Returns the line at which a function's pin ends. `devices` are the device numbers of the function and of the bridges
/// above it, in this order, each on its own bus.
pub(crate) fn route(host: HostBridge, pin: Pin, devices: impl IntoIterator<Item = u8>) -> Option<u8> {
    let mut pin = pin.index();
    let mut devices = devices.into_iter();
    let mut device = devices.next()?;
    for bridge in devices {
        pin = above(pin, device);
        device = bridge;
    }
    Some(interrupt_line(host, pin, device))
}

/// Number of functions that assert each line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    asserted: BTreeMap<u8, u32>,
}

impl Lines {
    /// Counts one function more, or one less, that asserts `line`. The machine is notified of the first and of the
    /// last.
    pub(crate) fn change(&mut self, line: u8, level: Level, machine: &mut dyn Machine) {
        let count = self.asserted.entry(line).or_default();
        let before = *count;
        *count = match level {
            Level::Asserted => before.saturating_add(1),
            Level::Deasserted => before.saturating_sub(1),
        };
        if (before == 0) != (*count == 0) {
            machine.pin(line, level);
        }
    }
}

#[cfg(test)]
#[path = "intx_tests.rs"]
mod tests;
