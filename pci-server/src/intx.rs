//! Routes interrupt pins from the root bus to a line of the interrupt controller.
//!
//! The standard defines the route from a function up to the root bus (`pci_spec::intx`); the chipset defines the rest. The
//! Interrupt Line register does not help, because firmware writes the old interrupt controller's number there.

use pci_api::IntxRouting;
use pci_spec::intx::RootPin;

/// The first I/O APIC pin that the chipset's wires A to D reach on q35 (wires E to H follow).
const Q35_WIRE_A: u8 = 16;
/// The first that its wires E to H reach.
const Q35_WIRE_E: u8 = 20;
/// The INTID of the first of virt's four lines: SPI 3 (QEMU's `hw/arm/virt.c`, `VIRT_PCIE`).
const VIRT_FIRST: u8 = 35;

/// The interrupt line of a pin on the root bus. It is level triggered.
#[must_use]
pub const fn interrupt_line(routing: IntxRouting, root: RootPin) -> u8 {
    let pin = root.pin.index();
    match (routing, root.device) {
        (IntxRouting::Q35, 0..=24) => Q35_WIRE_E | (root.device.wrapping_add(pin) & 3),
        // The bridge to conventional PCI is wired apart from its neighbours on the chipset.
        (IntxRouting::Q35, 30) => Q35_WIRE_E | pin,
        (IntxRouting::Q35, _) => Q35_WIRE_A | pin,
        (IntxRouting::Virt, _) => VIRT_FIRST.wrapping_add(root.device.wrapping_add(pin) & 3),
    }
}
