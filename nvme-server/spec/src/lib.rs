//! Types of the NVM Express standard's entries, data structures and registers, and nothing else.
//!
//! Source: *NVM Express Base Specification*, revision 1.4, whose chapter 6 is the NVM command set. Section numbers in this
//! crate are that document's; field names are its abbreviations. Fields that hold one less than their meaning have the
//! suffix `_z` (the standard's "0's based").
//!
//! Neighbours: the NVMe server drives a controller with these types; the tests' controller model answers with them.
//! Left out: queues, register access, memory, time, and any decision. A type here defines the meaning of a value, not the
//! reaction to it. Nothing allocates, and no value of a device or a driver makes anything here panic.
//!
//! [`Sqe`] and [`Cqe`] are built from machine words, because they are made and read for every operation. That is correct
//! on little-endian machines only, which the crate asserts. Structures that are read rarely use byte-order types.

#![no_std]
#![forbid(unsafe_code)]
#![warn(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

const _: () = assert!(cfg!(target_endian = "little"), "SQEs and CQEs are built from machine words: little endian only");

#[cfg(test)]
extern crate std;

#[cfg(test)]
mod expected;
mod ids;

pub mod admin;
pub mod cqe;
pub mod event;
pub mod feature;
pub mod identify;
pub mod log;
pub mod nvm;
pub mod registers;
pub mod sqe;
pub mod status;

pub use cqe::Cqe;
pub use ids::{Cid, Lba, Nsid, QueueId};
pub use sqe::{DataPointer, Sqe};
pub use status::{Status, StatusCode};
