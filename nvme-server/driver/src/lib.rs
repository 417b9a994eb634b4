//! Drives an NVMe controller: its registers, queue pairs, PRPs and interrupts, and the memory that it reaches. Nothing here
//! knows a session or a client.
//!
//! A driver claims a controller ([`PciClient`]), resets it ([`disable`]), gives the function's address space its page
//! tables and pool ([`IoSpaceMap`], [`DmaPool`]), configures the controller's admin queues ([`Registers::enable`]) and
//! submits commands ([`QueuePair`]), whose data it names by PRPs ([`PrpLists`]). Requests of `blk-api` become commands by
//! the [`engine`], and [`command_table`] has those in flight. The NVMe server is such a driver; so is
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

pub mod controller;
pub mod engine;
pub mod fault;
pub mod queues;

pub use controller::{
    admin, bring_up, dma, features, inquiry, interrupts, pci, polled, presence, registers, reset, retry,
};
pub use controller::{secondary, stuck};
pub use engine::{command, cursor, pending};
pub use queues::{command_table, plan, prp, queue, queue_pair, silence};

pub use controller::{Controller, Health};
pub use dma::{DmaPool, IoSpaceMap};
pub use engine::Engine;
pub use fault::DeviceFault;
pub use pci::{Device, Interrupts, Line, PciClient, PciError, Vector};
pub use polled::Polled;
pub use prp::{PrpLists, list_pages};
pub use queue_pair::{QueuePair, Ring};
pub use registers::Registers;
pub use reset::{disable, wait_enabled, wait_ready};
pub use retry::RetryDelays;
pub use stuck::Stuck;
