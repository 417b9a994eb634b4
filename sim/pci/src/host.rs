//! The host bridge: its function on the root bus, and the addresses at which functions' writes are interrupts. The ends
//! of pins are in `intx`.

use crate::config::{BusType, FunctionConfig};
use core::ops::Range;
use pci_spec::ClassCode;

/// The machine that the root bus is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HostBridge {
    /// QEMU's q35. Writes to the interrupt range never reach the IOMMU.
    #[default]
    Q35,
    /// QEMU's virt with a GICv2m. A message is a write like any other, which the IOMMU translates.
    Virt,
}

impl HostBridge {
    /// Addresses at which writes are interrupts. On q35: all of the processor's range (Intel SDM volume 3, section
    /// 11.11.1). On virt: the page of the GICv2m, as long as software maps it to itself.
    pub(crate) const fn interrupt_range(self) -> Range<u64> {
        match self {
            Self::Q35 => 0xfee0_0000..0xfef0_0000,
            Self::Virt => 0x0802_0000..0x0802_1000,
        }
    }

    /// Returns the function 00:00.0: 8086:29c0 on q35, QEMU's own 1b36:0008 on virt.
    pub(crate) fn function(self) -> FunctionConfig {
        let (vendor, device) = match self {
            Self::Q35 => (0x8086, 0x29c0),
            Self::Virt => (0x1b36, 0x0008),
        };
        let class = ClassCode { base: 6, sub: 0, interface: 0 };
        FunctionConfig { bus_type: BusType::Conventional, ..FunctionConfig::new(vendor, device, class) }
    }
}
