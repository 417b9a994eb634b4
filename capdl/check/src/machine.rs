//! The machines that systems are built for, one of QEMU's for each architecture: addresses and interrupts that are known before
//! any discovery.

use capdl_spec::{Arch, ObjectKind};
use pci_api::IntxRouting;
use std::ops::Range;

/// Queue pairs of a virtual function, and its interrupt vectors: one for the admin queue and one for I/O.
pub const FUNCTION_QUEUES: u16 = 2;

/// Physical number of the slot above controller number `index` of the root bus.
#[must_use]
pub const fn slot_number(index: usize) -> u16 {
    2 * index as u16 + 1
}

/// Buses of configuration space that are mapped on either machine, 1 MiB each.
pub const BUSES: u16 = 16;

/// A machine as its systems know it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Where configuration space lies.
    pub ecam: u64,
    /// The PCI memory window.
    pub pci_window: Range<u64>,
    /// Where the pins of the root bus end.
    pub intx_pins: IntxRouting,
    /// The serial port.
    pub serial: ObjectKind,
    /// Kernel interrupts of the PCI server: the first, and how many.
    pub irqs: (u8, u8),
    /// The SMMU, where user level drives it: its two pages of 64 KiB, and the page that functions write their interrupts to.
    pub smmu: Option<Smmu>,
    /// Whether the PCI tree is unconfigured at boot, as the hardware's reset left it.
    pub is_without_firmware: bool,
}

/// An SMMU, and the parts of its machine that its server needs.
#[derive(Clone, Debug)]
pub struct Smmu {
    /// The SMMU's first register.
    pub registers: u64,
    /// The page that functions write their interrupts to.
    pub messages: u64,
}

/// The translator of devices' addresses.
#[derive(Clone, Copy, Debug)]
pub enum Iommu {
    /// Nobody.
    None,
    /// The kernel.
    Kernels,
    /// A component, with this SMMU.
    Servers(&'static Smmu),
}

/// The translator of a machine that has an IOMMU or not, by `has`.
pub const fn iommu(machine: &'static Machine, has: bool) -> Iommu {
    match &machine.smmu {
        _ if !has => Iommu::None,
        None => Iommu::Kernels,
        Some(smmu) => Iommu::Servers(smmu),
    }
}

impl Smmu {
    /// Small pages of registers.
    pub const REGISTER_PAGES: u64 = 32;
}

/// QEMU's q35 with SeaBIOS.
const Q35: Machine = Machine {
    ecam: 0xB000_0000,
    pci_window: 0xC000_0000..0xFEC0_0000,
    intx_pins: IntxRouting::Q35,
    // COM1.
    serial: ObjectKind::IoPorts { first: 0x3f8, last: 0x3ff },
    // The first 8 are the root task's.
    irqs: (8, 100),
    // The kernel drives the IOMMU.
    smmu: None,
    is_without_firmware: false,
};

/// QEMU's virt with `highmem=off`.
const VIRT: Machine = Machine {
    ecam: 0x3F00_0000,
    pci_window: 0x1000_0000..0x3EFF_0000,
    intx_pins: IntxRouting::Virt,
    serial: ObjectKind::SmallDeviceFrame { paddr: 0x0900_0000 },
    // Of the GICv2m's, 80 to 143, those behind the four that QEMU gives the SMMU as well.
    irqs: (110, 34),
    smmu: Some(Smmu { registers: 0x0905_0000, messages: 0x0802_0000 }),
    is_without_firmware: true,
};

/// The machine of an architecture.
pub const fn of(arch: Arch) -> &'static Machine {
    match arch {
        Arch::X86_64 => &Q35,
        Arch::Aarch64 => &VIRT,
    }
}

/// NVM Express: mass storage, non-volatile memory, NVMe.
pub const NVME_CLASS_CODE: [u8; 3] = [1, 8, 2];
/// QEMU's edu device: unclassified, no VGA.
pub const EDU_CLASS_CODE: [u8; 3] = [0, 0xff, 0];

impl Machine {
    /// The PCI window as device untypeds: the largest aligned powers of two, ascending.
    pub fn pci_windows(&self) -> Vec<(u64, u8)> {
        let mut windows = Vec::new();
        let mut next = self.pci_window.start;
        while next < self.pci_window.end {
            let bits = next.trailing_zeros().min((self.pci_window.end - next).ilog2());
            windows.push((next, bits as u8));
            next += 1 << bits;
        }
        windows
    }
}
