//! The NVMe server: owns a controller's queues and serves sessions, each on hardware queue pairs of its own or on link
//! ones, as the configuration has it.
//!
//! Neighbours: the PCI server gives it the controller (`pci`), clients reach it by their session's ring and endpoint
//! (`blk-api`), the supervisor ticks it. It holds no configuration space, no MSI-X table and no VSpace capability: it maps
//! the frames of clients' windows in the IOSpace, but cannot map them for itself.
//!
//! Two planes are futures of one task. `data_plane` serves open sessions and has the path of a read; `control_plane` does slow
//! work at the controller: sessions that open and close, changes, recovery. Messages come in by the `doors`; `link` connects all
//! of them, and `server` starts them. The crate `nvme-driver` knows the device and no session.
//!
//! Left out: the policies that decide between sessions (`scheduler`, called by `data_plane::schedule`); and management of
//! namespaces.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

#[cfg(test)]
extern crate std;

mod acknowledgements;
mod control_plane;
mod data_plane;
mod doors;
mod jobs;
mod link;
mod on_wake;
mod server;
mod watched;

pub use server::run;
