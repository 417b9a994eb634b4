//! The client's side of a session: open it, read, write, flush, discard, write zeroes, close it.
//!
//! Two layers. [`Session`] is the bare data plane: entries in, completions out, one publication a batch, no state of
//! requests; instruction counts use it. It has two paths to the controller: the NVMe server's rings, or a virtual function
//! that the client drives itself. [`Device`] is built on it: requests are futures, many in flight. Each owns its part of the
//! window until its completion came, dropped or not. Requests that the server or the controller lost are resubmitted,
//! and changes of the same blocks keep their order.
//!
//! A program begins with [`Program::start`].
//!
//! File systems of the ecosystem run on a session by two types on top of that: [`CopyingDevice`] implements
//! `block_device_driver::BlockDevice`, and [`ByteStream`] the traits of `embedded-io-async`.
//!
//! Neighbours: `blk-api` is the contract with the server, `nvme-driver` drives the function, `platform` gives access to
//! kernel and memory. Left out: retries
//! of requests that the device failed (the caller decides), caching (except the one block of a [`ByteStream`]), and checks
//! that the server makes anyway.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

mod changes;
mod completion;
mod control;
mod copying;
mod device;
mod error;
mod policy;
mod program;
mod reporter;
mod request;
mod rings;
mod server;
mod session;
mod slots;
mod stream;
mod virtual_function;
mod window;

pub use blk_api::Status;
pub use blk_api::request::{Entry, MAX_SEGMENTS, Opcode, Segment};
pub use blk_api::ring::{Completed, RingError};
pub use blk_api::session::{Geometry, Refusal, Statistics};
pub use completion::Completion;
pub use control::Control;
pub use copying::{CopyingDevice, IoError};
pub use device::Device;
pub use error::{Error, FunctionFault, OpenError};
pub use nvme_driver::{DeviceFault, PciError};
pub use program::Program;
pub use reporter::Reporter;
pub use request::Request;
pub use session::{Options, Session};
pub use stream::ByteStream;
pub use window::{Part, Window, WindowRange};
