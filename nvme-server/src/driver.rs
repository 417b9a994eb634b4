//! Parts of this server for another driver of an NVMe controller: those without sessions.
//!
//! A driver claims a controller ([`PciClient`]), resets it ([`disable`]), gives the function's address space its page
//! tables and pool ([`IoSpaceMap`], [`DmaPool`]), configures the controller's admin queues ([`Controller::enable`]) and
//! submits commands ([`QueuePair`]), whose data it names by PRPs ([`PrpLists`]). `nvme-probe` is such a driver: it tests on
//! the running system that the IOMMU and revocation hold.
//!
//! Left out: the wait for a completion (the server's planes, the probe's polling), and everything about clients.

pub use crate::controller::dma::{DmaPool, IoSpaceMap};
pub use crate::controller::fault::DeviceFault;
pub use crate::controller::pci::{Device, Interrupts, Line, PciClient, PciError, Vector};
pub use crate::controller::prp::{PrpLists, list_pages};
pub use crate::controller::queue_pair::{QueuePair, Ring};
pub use crate::controller::registers::Controller;
pub use crate::controller::reset::{disable, wait_ready};
