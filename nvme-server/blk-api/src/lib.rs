//! The NVMe server's interface to its clients: the session's ring pair, requests and their outcome, open and close.
//!
//! Neighbours: `nvme-server` serves it, `blk-clients/client` uses it, `capdl` writes the configuration. Nothing in here
//! trusts the other side: [`ring`] keeps private indices, [`request`] turns an [`request::Entry`] (an allegation) into
//! a [`request::Request`] (checked). [`operation`] has what depends on a request's operation.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

pub mod administration;
pub mod client_heap;
pub mod config;
pub mod extent;
pub mod names;
pub mod operation;
pub mod orders;
pub mod policy;
pub mod queue_sharing;
pub mod request;
pub mod ring;
pub mod session;
mod status;
pub mod telemetry;
pub mod trace;

pub use status::Status;
