//! Where interrupt pins end: from the root bus to the I/O APIC.
//!
//! The way from a function up to the root bus is the standard's and lies in `pci_spec::intx`; what comes after it is
//! the chipset's. The Interrupt Line register is no help: firmware writes the old interrupt controller's number there.

use pci_api::IntxRouting;
use pci_spec::intx::RootPin;

/// The first I/O APIC pin that the chipset's lines A to D reach on q35 (lines E to H follow).
const Q35_LINE_A: u8 = 16;
/// The first that its lines E to H reach.
const Q35_LINE_E: u8 = 20;

/// The I/O APIC pin of a pin on the root bus: level triggered, active low.
#[must_use]
pub const fn ioapic_pin(routing: IntxRouting, root: RootPin) -> u8 {
    let pin = root.pin.index();
    match (routing, root.device) {
        (IntxRouting::Q35, 0..=24) => Q35_LINE_E | (root.device.wrapping_add(pin) & 3),
        // The bridge to conventional PCI is wired apart from its neighbours on the chipset.
        (IntxRouting::Q35, 30) => Q35_LINE_E | pin,
        (IntxRouting::Q35, _) => Q35_LINE_A | pin,
    }
}
