//! The extents that sessions may touch: one table of records for all sessions of an NVMe server.
//!
//! The server looks every command up. [`ExtentTable::locate`] returns where a session's block lies on the namespace, or an
//! error: the session lacks the right, or no record holds the block (SEEDS M2, M3). The policy component, which knows all
//! extents, installs and removes records. The table is a cache: it holds as many records as it was made for, and evicts
//! records that were not used for longest. A client that misses asks the policy component and tries again (SEEDS M4).
//!
//! Neighbours: the NVMe server owns it, and calls it for its sessions and for the policy component. It depends on
//! nothing.
//!
//! # Structure
//!
//! Each session has a B+tree of its own (`tree`), by the session's own block numbers, with up to 256 entries a node. Two
//! nodes lead to a record among 16,384, and none where a session has one. Records stand in places of 32 bytes, half a
//! cache line (`places`), linked in the order of their last use. Nodes and places are taken from two arrays, which are
//! allocated once, with the table. The number of records bounds the number of nodes (`tree::most_nodes`), so nodes cannot
//! run out.
//!
//! Alternatives: a sorted array looks up as fast but moves half of all records on an install; a binary tree has a cache line
//! a comparison, fourteen for 16,384 records. Smaller nodes were measured: with 64 entries a lookup among 16,384 records
//! takes as long and 158 instructions instead of 142, with 16 entries 161. The figures are in `docs/benchmarks.md`.
//!
//! # Left out
//!
//! - Whether extents of two sessions overlap on the namespace, and whether they lie inside it. The policy component checks
//!   that, because it knows all extents. The table knows only those installed at the moment, so a check against them would
//!   be incomplete.
//! - Counters. The results of the calls have all that can be counted: misses of both kinds, and the sessions that lost
//!   records.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

#[cfg(test)]
extern crate self as extent_table;
#[cfg(test)]
extern crate std;

mod places;
mod record;
mod table;
mod tree;

#[cfg(test)]
#[path = "../tests/model/mod.rs"]
mod model;

pub use record::{Located, Record, RecordError, Right, Rights};
pub use table::{Evicted, ExtentTable, InstallError, Merging, Miss, Removed, SizeError};
