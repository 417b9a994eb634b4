//! The PCI server: owns configuration space, the memory windows of PCI and the interrupts, and hands out functions
//! as capabilities.
//!
//! Neighbours: drivers (`pci_api` has their requests), the kernel (`platform`), the standards' types (`pci_spec`), and
//! virtio-drivers, whose bus types access configuration space. The way of a claim: `server` takes the request and checks
//! the driver's right, `claim` gives and takes back, `pages` does so page by page, `interrupts` by mode. `resources` holds
//! the resources, and `bars` and `msix` decide which pages can be given. The server can die and be restarted: at its start
//! `predecessor` restores BARs that were being sized and disables virtual functions, `enumerate` silences the functions that
//! its previous incarnation left running, and `server` notifies the supervisor.
//!
//! Where no firmware has, `assign` numbers buses and places BARs. `virtual_functions` describes virtual functions, `enable`
//! enables them, and `provision` does so at a driver's request. `reset` resets a physical function before, and a virtual one
//! that is given back. `slot` describes hot-plug slots, and `server` handles arrivals and removals. Left out: resetting other
//! devices (their drivers do).

#![no_std]
// Not `forbid`: one trait of virtio-drivers declares a method unsafe, see `config_space`.
#![deny(unsafe_code)]
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

pub mod addresses;
pub mod assign;
pub mod bars;
mod bound;
pub mod claim;
pub mod config_space;
pub mod enable;
pub mod enumerate;
pub mod function;
pub mod interrupts;
pub mod intx;
pub mod msi;
pub mod msix;
mod pages;
mod power;
mod predecessor;
pub mod provision;
pub mod reset;
pub mod resources;
mod server;
pub mod shared_line;
pub mod sizing;
pub mod slot;
pub mod vector;
pub mod virtual_functions;

pub use server::{Server, run};

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "tests compute with numbers of their own")]
mod tests;
