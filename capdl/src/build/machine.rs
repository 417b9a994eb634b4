//! The machine a system is built for, QEMU's q35: what lies where in it, before anybody has looked.

use capdl_spec::ObjectKind;
use std::ops::Range;

/// Where q35's configuration space lies.
pub(crate) const ECAM_PADDR: u64 = 0xB000_0000;
/// Buses of it that are mapped, 1 MiB each.
pub(crate) const BUSES: u16 = 16;
/// The PCI memory window of q35.
pub(crate) const PCI_WINDOW: Range<u64> = 0xC000_0000..0xFEC0_0000;
/// COM1.
pub(crate) const SERIAL_PORTS: ObjectKind = ObjectKind::IoPorts { first: 0x3f8, last: 0x3ff };
/// Kernel interrupts of the PCI server: the first 8 are the root task's.
pub(super) const IRQS: (u8, u8) = (8, 100);
/// NVM Express: mass storage, non-volatile memory, NVMe.
pub(super) const NVME_CLASS: [u8; 3] = [1, 8, 2];

/// The PCI window as device untypeds: the largest aligned powers of two, ascending.
pub(super) fn pci_windows() -> Vec<(u64, u8)> {
    let mut windows = Vec::new();
    let mut next = PCI_WINDOW.start;
    while next < PCI_WINDOW.end {
        let bits = next.trailing_zeros().min((PCI_WINDOW.end - next).ilog2());
        windows.push((next, bits as u8));
        next += 1 << bits;
    }
    windows
}
