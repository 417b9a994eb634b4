//! A model of the PCI Express tree: root complex, ports, bridges, endpoints, and everything about them that software
//! sees and that belongs to no single device.
//!
//! A [`Tree`] is built from ports and [`Endpoint`]s, and then driven by the processor's accesses: to configuration
//! space by ECAM offset and to memory by physical address. It owns configuration space (types 0 and 1, BARs,
//! capabilities), MSI-X tables and pending bits, virtual functions, resets and slots. It routes accesses down through
//! bridges' windows, and pins up to the interrupt controller as on q35 or virt. Forbidden actions of a driver, firmware
//! or a device are recorded ([`Tree::violations`]) and otherwise done as hardware would.
//!
//! Neighbours: a device model is a [`Device`] and sees the tree as [`Upstream`]; the machine above is a [`Machine`],
//! which has memory, the IOMMU and the interrupt controllers. `pci_spec` has the standards' types. Sources, by the
//! short names used here, are the same as there: *PCI* 3.0, *Bridge* 1.2, *PCIe* 4.0, *SDM*.
//!
//! Left out: I/O ports (their BARs can be sized and moved, nothing is decoded), expansion ROMs, error reporting, links
//! that train or lose packets, DMA from one function to another. Everything is synchronous; times are nanoseconds of
//! virtual time and come from outside. No action of software or of a device makes the model panic.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod arena;
mod build;
mod config;
mod effects;
mod emulator;
mod firmware;
mod function;
mod host;
mod hot_plug;
mod ids;
mod inspect;
mod intx;
mod layout;
mod machine;
mod msix;
mod port;
mod power;
mod record;
mod reset;
mod routing;
mod space;
mod tree;
mod upstream;
mod view;

pub use access::BadAccess;
pub use build::{AttachError, Endpoint};
pub use config::{
    BARS, BarConfig, BusType, ConfigError, EDU_BAR_BYTES, FunctionConfig, FunctionLevelReset, Link, MsiConfig,
    MsixConfig, SriovConfig,
};
pub use firmware::{Firmware, FirmwareError};
pub use function::OnWaking;
pub use host::HostBridge;
pub use hot_plug::SlotState;
pub use ids::{BusId, FunctionId};
pub use inspect::Region;
pub use machine::{Blocked, Device, Interrupts, Level, Machine, Reset, Upstream, VirtualFunction};
pub use port::{DeviceNumbers, PortConfig, PortKind, SlotConfig};
pub use record::{Direction, DmaFault, KEPT, Record, Violation};
pub use tree::{Tree, TreeConfig};
