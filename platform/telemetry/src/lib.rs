//! Statistics of components, in memory that the build machine reads.
//!
//! A component with telemetry has a region [`TELEMETRY`] of its own. The component writes [pages](page) there with plain stores, and
//! no other component maps them. The machine's memory is a file of the build machine, which reads the pages while the machine runs
//! (decision 46). Nothing is called, signalled or sent for that, so reading costs the system nothing.
//!
//! The contents of a page belong to the component's interface: `blk_api::telemetry` for an NVMe server. Here are the parts that all
//! have: how a page is written and read whole, [histograms](histogram), and [rings](ring) of events. Left out: names and rates, which the reader makes.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate alloc;

pub mod histogram;
pub mod page;
pub mod ring;

pub use histogram::Histogram;

/// A component's region of telemetry.
pub const TELEMETRY: &str = "telemetry";
