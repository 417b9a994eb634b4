//! What another driver of an NVMe controller is made of: the parts of this server that know nothing of sessions.
//!
//! A driver claims a controller ([`PciClient`]), resets it ([`disable`]), gives the function's address space its page
//! tables and pool ([`IoSpaceMap`], [`DmaPool`]), tells the controller its admin queues ([`Controller::enable`]) and
//! gives commands ([`QueuePair`]), whose data it names by PRPs ([`PrpLists`]). `nvme-probe`, which tests on the running
//! system that the IOMMU and revocation hold, is such a driver.
//!
//! Left out: how a driver waits for a completion (the server's planes, the probe's polling), and everything about
//! clients.

pub use crate::bring_up::{disable, wait_ready};
pub use crate::controller::Controller;
pub use crate::dma::{DmaPool, IoSpaceMap};
pub use crate::fault::DeviceFault;
pub use crate::pci::{Device, Interrupts, Line, PciClient, PciError, Vector};
pub use crate::prp::{PrpLists, list_pages};
pub use crate::queue::{QueuePair, Ring};
