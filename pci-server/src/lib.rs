//! The PCI server: owns configuration space, the memory windows of PCI and the interrupts, and hands out functions
//! as capabilities.
//!
//! Neighbours: drivers (`pci_api` is what they may ask), the kernel (`platform`), what the standards say (`pci_spec`),
//! and virtio-drivers, whose bus types do configuration space. The way of a claim: `server` takes the request and
//! decides who may, `claim` gives and takes back, `pages` page by page, `interrupts` way by way, `resources` holds what is
//! given, `bars` and `msix` say which pages can be. It can die and be started again: at its start `enumerate` silences what the one before
//! left running, `sizing` fixes what that was in the middle of, and `server` notifies the supervisor.
//!
//! Where no firmware has, `assign` numbers buses and places BARs. Left out: resetting devices (their drivers do),
//! hot-plug, handing out virtual functions.

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

pub mod assign;
pub mod bars;
pub mod claim;
pub mod config_space;
pub mod enumerate;
pub mod function;
pub mod interrupts;
pub mod intx;
pub mod msi;
pub mod msix;
mod pages;
pub mod resources;
mod server;
pub mod shared_line;
pub mod sizing;
pub mod vector;

pub use server::{Server, run};

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "tests compute with numbers of their own")]
mod tests;
