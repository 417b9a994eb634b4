//! The NVMe server: owns a controller's queues and serves sessions, each on hardware queue pairs of its own or on shared
//! ones, as the configuration has it.
//!
//! Neighbours: the PCI server gives it the controller (`pci`), clients reach it by their session's ring and endpoint
//! (`blk-api`), the supervisor ticks it. It holds no configuration space, no MSI-X table and no VSpace capability: it maps
//! the frames of clients' windows in the IOSpace, but cannot map them for itself.
//!
//! By folder: `data_path` serves open sessions and has the path of a read; `sessions` has their phases and the calls of
//! clients and the policy component; `control_path` does slow work at the controller; `recovery` handles a controller that
//! fails. `shared` is the state of all of them, and `server` starts it. The crate `nvme-driver` knows the device and no
//! session.
//!
//! Left out: the policies that decide between sessions (`scheduler`, called by `data_path::schedule`); and management of
//! namespaces.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

#[cfg(test)]
extern crate std;

mod control_path;
mod data_path;
mod recovery;
mod server;
mod sessions;
mod shared;

pub use server::run;
