//! A model of an SMMUv3, as QEMU's machine `virt` has one: stage 1, VMSAv8-64 tables with the 4 KiB granule, two-level
//! stream tables, wired interrupts.
//!
//! An [`Smmu`] is a state machine without threads and clocks: it receives register accesses and transactions, and reads
//! tables and queues through [`PhysicalMemory`]. The same configuration, seed and calls give the same answers. It is
//! stricter than any real SMMU: it caches for ever everything that it may cache, and forgets only at the SYNC after the
//! command that invalidates. A driver that omits an invalidation is caught by the first transaction that still gets
//! through. Misuse is recorded as a [`Violation`].
//!
//! - `registers` answers accesses, `commands` consumes the command queue, `events` fills the event queue;
//! - `configuration` finds a stream's tables, `translate` walks them, `cache` holds both;
//! - `inspect` is for checkers.
//!
//! Neighbours: `smmu_spec` has the types, the simulator puts the model between devices and memory. Left out: stage 2,
//! substreams, ATS, PRI, message signalled interrupts, the upper address range, tables that do not begin at level 1, large
//! pages. It knows nothing of the driver.

#![forbid(unsafe_code)]

mod cache;
mod commands;
mod configuration;
mod events;
mod faults;
mod generator;
mod inspect;
mod registers;
mod smmu;
mod translate;
mod violation;

pub use faults::{Config, Faults, Forget, Profile};
pub use inspect::Reached;
pub use smmu::{Abort, Direction, Interrupts, PhysicalMemory, Refusal, Smmu};
pub use violation::Violation;
