//! The IOMMU server: drives an SMMUv3 at user level, for AArch64, where the kernel has no IOSpace.
//!
//! An [`Smmu`] gives each stream (a PCI function's requester id) an address space of its own, maps pages into it and unmaps
//! them. A stream without an address space reaches nothing. An operation that unmaps memory returns after the SMMU has
//! confirmed the invalidation. Only then may a frame be revoked or reused, because the kernel does not tie these mappings
//! to capabilities.
//!
//! Neighbours: `smmu_spec` has the standard's types, [`platform`] is the seam to registers and memory, `sim-smmu` is a model
//! of the device. The path of an operation: `smmu` decides the order, `stream_table` and `address_space` change tables in
//! pages of the `pool`, `command_queue` invalidates, `event_queue` reports faults, `start` brings the device up. `domains`
//! has the drivers' rights, and `server` is the component, which answers in the protocol of `iommu_api`.
//!
//! Left out: stage 2, substreams, ATS, PRI, large pages.

#![no_std]
#![forbid(unsafe_code)]
#![warn(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod address_space;
mod budgets;
mod command_queue;
mod domains;
mod error;
mod event_queue;
mod pool;
mod registers;
mod server;
mod smmu;
mod start;
mod stream_table;

pub use address_space::Rights;
pub use domains::Domains;
pub use error::Error;
pub use event_queue::{Direction, Drained, Fault, FaultKind};
pub use pool::Pool;
pub use server::run;
pub use smmu::{MAX_STREAMS, Smmu};
pub use smmu_spec::{EventKind, StreamId};
pub use start::{Config, Devices};
