//! The roles of components.

use serde::{Deserialize, Serialize};

/// A component's role. The root task builds all of them alike; the authority checker, and everything that displays a system,
/// distinguish them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Holds the serial port.
    Console,
    /// Hands out devices.
    PciServer,
    /// Keeps the address spaces of PCI functions, on machines whose kernel does not.
    IommuServer,
    /// Drives a controller for clients.
    NvmeServer,
    /// Decides which blocks the sessions of an NVMe server may touch.
    Policy,
    /// Tests what the IOMMU and revocation stop, in an NVMe server's place.
    Probe,
    /// Tests a device's interrupts.
    EduDriver,
    /// Carries out the acts of an operator.
    Control,
    /// Acts for a tenant.
    Client,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 9] = [
        Self::Console,
        Self::PciServer,
        Self::IommuServer,
        Self::NvmeServer,
        Self::Policy,
        Self::Probe,
        Self::EduDriver,
        Self::Control,
        Self::Client,
    ];

    /// Whether the PCI server gives it a function.
    #[must_use]
    pub const fn is_driver(self) -> bool {
        matches!(self, Self::NvmeServer | Self::Probe | Self::EduDriver)
    }

    /// Whether a system has one such component at most.
    #[must_use]
    pub const fn is_single(self) -> bool {
        matches!(
            self,
            Self::Console | Self::PciServer | Self::IommuServer | Self::Probe | Self::EduDriver | Self::Control
        )
    }
}
