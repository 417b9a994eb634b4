//! Types for the contents of configuration space and interrupt messages, as the PCI standards define them.
//!
//! Sources, by the short names used here: *PCI* is the PCI Local Bus Specification 3.0, *Bridge* the PCI-to-PCI Bridge
//! Architecture Specification 1.2, *PCIe* the PCI Express Base Specification 4.0, *SDM* Intel's Software Developer's
//! Manual, volume 3.
//!
//! Neighbours: the PCI server reads configuration space through virtio-drivers' bus types, which also walk buses, move
//! BARs and name commands. This crate adds refusal of impossible BARs and capability lists, header types with their
//! multifunction bit, bridges, slots, MSI and MSI-X, INTx swizzling, requester ids, and extended capabilities. The tests'
//! PCI model answers with the same types. Left out: access to configuration space, and the assignment of functions to drivers.
//!
//! The crate does not allocate, and no value of a function makes it panic.

#![no_std]
#![forbid(unsafe_code)]
#![warn(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

#[cfg(test)]
extern crate std;

mod bdf;

pub mod bar;
pub mod bridge;
pub mod capability;
pub mod express;
pub mod extended;
pub mod header;
pub mod intx;
pub mod msi;
pub mod msix;
pub mod power;
pub mod slot;
pub mod sriov;

#[cfg(test)]
mod recorded;

pub use bar::{Bar, BarError, BarKind, RawBar};
pub use bdf::{Bdf, ParseBdfError};
pub use bridge::{BridgeKind, requester_id};
pub use capability::{Capability, CapabilityError};
pub use header::{ClassCode, HeaderType};
pub use intx::Pin;
