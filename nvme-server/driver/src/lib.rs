//! Drives an NVMe controller: its registers, queue pairs, PRPs and interrupts, and the memory that it reaches. Nothing here
//! knows a session or a client.
//!
//! A driver claims a controller ([`PciClient`]), resets it ([`disable`]), gives the function's address space its page
//! tables and pool ([`IoSpaceMap`], [`DmaPool`]), configures the controller's admin queues ([`Registers::enable`]) and
//! submits commands ([`QueuePair`]), whose data it names by PRPs ([`PrpLists`]). Requests of `blk-api` become commands by
//! [`split`] and [`command`], and [`command_table`] has those in flight. The NVMe server is such a driver; so is
//! `nvme-probe`, which tests on the running system that the IOMMU and revocation hold.
//!
//! Neighbours: `nvme-spec` has the wire types, `pci-api` the PCI server's requests, and `blk-api` the names in a driver's
//! environment. Left out: the wait for a completion, which each driver does in its own way; [`Polled`] is the simplest.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

#[cfg(test)]
extern crate std;

pub mod admin;
pub mod bring_up;
pub mod command;
pub mod command_table;
pub mod controller;
pub mod dma;
pub mod fault;
pub mod features;
pub mod inquiry;
pub mod interrupts;
pub mod pci;
pub mod plan;
pub mod polled;
pub mod presence;
pub mod prp;
pub mod queue_pair;
pub mod registers;
pub mod reset;
pub mod retry;
pub mod secondary;
pub mod silence;
pub mod split;
pub mod stuck;

pub use controller::{Controller, Health};
pub use dma::{DmaPool, IoSpaceMap};
pub use fault::DeviceFault;
pub use pci::{Device, Interrupts, Line, PciClient, PciError, Vector};
pub use polled::Polled;
pub use prp::{PrpLists, list_pages};
pub use queue_pair::{QueuePair, Ring};
pub use registers::Registers;
pub use reset::{disable, wait_enabled, wait_ready};
pub use retry::RetryDelays;
pub use stuck::Stuck;
