//! The registers, tables, commands and events of an Arm SMMUv3, as types and nothing else.
//!
//! Source: *Arm System Memory Management Unit Architecture Specification, SMMUv3* (IHI 0070, issue D); section numbers in
//! this crate are that document's, and field names are its abbreviations. Translation tables follow the *Arm Architecture
//! Reference Manual* (DDI 0487), chapter D5, VMSAv8-64, with the 4 KiB granule.
//!
//! Neighbours: the IOMMU server drives an SMMU with these types, `sim-smmu` answers with them. Left out: register access,
//! queues, memory and any decision; stage 2, substreams, ATS, PRI, the Secure programming interface and message signalled
//! interrupts, none of which the server uses.
//!
//! Every structure is an array of 64-bit little-endian words in the standard and a `repr(C)` structure of words here, which
//! is right on little-endian machines only; the crate asserts that.

#![no_std]
#![forbid(unsafe_code)]
#![warn(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

const _: () = assert!(cfg!(target_endian = "little"), "tables are built from machine words: little endian only");

#[cfg(test)]
extern crate std;

pub mod command;
pub mod context;
pub mod event;
pub mod registers;
pub mod stream;
pub mod translation;

pub use command::Command;
pub use context::ContextDescriptor;
pub use event::{EventKind, EventRecord};
pub use stream::{L1StreamDescriptor, StreamId, StreamTableEntry};
