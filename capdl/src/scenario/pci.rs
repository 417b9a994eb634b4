//! PCI as scenarios name it: the configuration of the tree, the PCI server and the IOMMU server.

use super::Restart;
use super::controller::Attach;
use serde::Deserialize;

/// Bus numbers below the root bus that configuration space has room for.
pub(super) const BUSES_BELOW_ROOT: usize = crate::machine::BUSES as usize - 1;

/// The PCI tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct Pci {
    /// Whether the PCI server numbers the buses and places all registers, as on a machine without firmware. The simulator then
    /// has no firmware, and QEMU's is overruled. If `false`, the PCI server keeps firmware's placement, unless a controller has
    /// virtual functions ([`Scenario::assigns_addresses`](super::Scenario::assigns_addresses)).
    pub assign: bool,
}

/// The PCI server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct PciServer {
    /// How often it and its drivers are started again after a fault.
    pub restart: Restart,
}

/// The component that drives the SMMU, where the kernel drives none.
pub const IOMMU_SERVER: &str = "iommu-server";

/// The IOMMU server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct IommuServer {
    /// How often it, the PCI server and its drivers are started again after a fault.
    pub restart: Restart,
}

impl Attach {
    /// Buses below the root bus on the way to the controller, including the controller's own.
    pub(super) const fn buses(self) -> usize {
        match self {
            Self::Root => 0,
            Self::RootPort | Self::Bridge => 1,
            Self::Switch => 3,
        }
    }
}
