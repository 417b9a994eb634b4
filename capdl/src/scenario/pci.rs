//! PCI as scenarios name it: who configures the tree, and the PCI server.

use super::Restart;
use super::controller::Attach;
use serde::Deserialize;

/// Bus numbers below the root bus that configuration space has room for.
pub(super) const BUSES_BELOW_ROOT: usize = crate::machine::BUSES as usize - 1;

/// The PCI tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pci {
    /// Whether the PCI server numbers the buses and places all registers, as on a machine without firmware. Otherwise it
    /// takes them where firmware placed them. The simulator then has no firmware; QEMU's is overruled.
    pub assign: bool,
}

/// The PCI server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PciServer {
    /// How often it is started again after a fault, and its drivers with it.
    pub restart: Restart,
}

/// The component that drives the SMMU, where the kernel drives none.
pub const IOMMU_SERVER: &str = "iommu-server";

/// The IOMMU server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IommuServer {
    /// How often it is started again after a fault, and with it the PCI server and its drivers.
    pub restart: Restart,
}

impl Attach {
    /// Buses between the root bus and the controller, that it is on among them.
    pub(super) const fn buses(self) -> usize {
        match self {
            Self::Root => 0,
            Self::RootPort | Self::Bridge => 1,
            Self::Switch => 3,
        }
    }
}
