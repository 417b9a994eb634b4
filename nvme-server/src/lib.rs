//! The NVMe server: owns a controller's queues and serves sessions, each on hardware queue pairs of its own, or on some that
//! the configuration has it share.
//!
//! Neighbours: the PCI server gives it the controller (`pci`), clients reach it by their session's ring and endpoint
//! (`blk-api`), the supervisor ticks it. It holds no configuration space, no MSI-X table and no VSpace capability: the
//! frames of clients' windows pass through its hands into the IOSpace, but it cannot map them for itself.
//!
//! The way of a read, a file a step: `session` takes the entry from the ring (checked by `blk_api::request`), `split`
//! cuts it into commands where `extents` finds records that allow them, `in_flight` reserves identifier and slot, `prp`
//! writes the page list, `io_queue` makes the command of that, `queue` submits and rings, and later completes; `session`
//! replies. `data_plane` is the loop around that.
//!
//! Beside it, `calls` receives what clients ask for by calling, and `policy` what the policy component does;
//! `control_plane` closes sessions and brings the controller up, and up again after a reset, and `opening` opens
//! sessions; `shares` changes what they are entitled to, and `requeue` their queue pairs for that. `rescue` is for queue pairs
//! that do not answer. `arbitration` is what the controller is told of the sessions' classes. What bounds others' bad
//! conduct is `budget` for clients, `interrupts` and `patience` for the controller.
//!
//! The parts that know a controller and not a session are public in [`driver`], for another driver component.
//!
//! Left out: what decides between sessions, which is `scheduler`, asked by `schedule`; and namespaces' management.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

#[cfg(test)]
extern crate std;

mod acknowledgements;
mod admin;
mod arbitration;
mod bring_up;
mod budget;
mod calls;
mod changes;
mod control;
mod control_plane;
mod controller;
mod controller_recovery;
mod data_plane;
mod device;
mod dma;
pub mod driver;
mod extents;
mod fault;
mod in_flight;
mod interrupts;
mod interrupts_change;
mod io_queue;
mod on_wake;
mod opening;
mod pci;
mod phase;
mod policy;
mod provision;
mod prp;
mod queue;
mod queue_pair_recovery;
mod queues;
mod ready;
mod reconcile;
mod reconfiguration;
mod schedule;
mod seat;
mod server;
mod session;
mod shared;
mod shares;
mod split;
mod teardown;
mod timeouts;
mod windows;

pub use server::run;
