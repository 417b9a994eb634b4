//! Names of capabilities and regions in environments: of the PCI server and of its drivers. The system's model writes them.

use alloc::format;
use alloc::string::String;

/// A driver's call to the PCI server.
pub const PCI: &str = "pci";
/// The arena: a driver has the registers of its function in it, and the PCI server the tables of MSI-X.
pub const ARENA: &str = "arena";

/// The PCI server's right to make interrupt handlers.
pub const IRQ_CONTROL: &str = "irq-control";
/// The server's source of IOSpaces. Where a component keeps them, a run: the server's own call to that, and one for each driver.
pub const IO_SPACE_MASTER: &str = "io-space-master";
/// The server's run of device untypeds, in the order of [`ServerConfig::pci_windows`](crate::ServerConfig::pci_windows).
pub const PCI_WINDOW: &str = "pci-window";
/// The server's region of configuration space.
pub const ECAM: &str = "ecam";
/// The server's VSpace.
pub const OWN_VSPACE: &str = "own-vspace";
/// The run of its drivers' VSpaces.
pub const DRIVER_VSPACE: &str = "driver-vspace";
/// The server's run of signals to the supervisor, one for each driver, that nothing of the driver is in flight any more.
pub const SILENCED: &str = "silenced";
/// The server's page that outlives it: the note of the BAR that is being sized.
pub const SIZING: &str = "sizing";

/// The server's view of the liveness page of driver number `driver`, from 0.
#[must_use]
pub fn liveness(driver: u32) -> String {
    format!("liveness-{driver}")
}

/// The server's page of presence of driver number `driver`, from 0, where that is for a slot.
#[must_use]
pub fn presence(driver: u32) -> String {
    format!("presence-{driver}")
}

/// A driver's own view of its page of presence, where it is for a slot.
pub const PRESENCE: &str = "presence";
