//! The extents that sessions may touch: one table of records for all sessions of an NVMe server.
//!
//! It is asked on every command: [`ExtentTable::locate`] says where a session's block lies on the namespace, or that
//! the session may not do that, or that no record says (SEEDS M2, M3). The policy side, which knows all extents,
//! installs and removes records. The table is a cache of what the policy side knows: it holds as many records as it
//! was made for, and forgets what was not used for longest. Whoever misses asks the policy side and tries again
//! (SEEDS M4).
//!
//! Neighbours: the NVMe server owns it, and calls it for its sessions and for the policy component. It depends on
//! nothing.
//!
//! # Structure
//!
//! Each session has a B+tree of its own (`tree`), by the session's own block numbers, with up to 256 entries a node:
//! two nodes lead to a record among 16,384, and none where a session has one. Records stand in places of 32 bytes, half
//! a cache line (`places`), linked in the order of their last use. Nodes and places are taken from two arrays, made
//! with the table and never again. How many nodes the trees can need at most follows from the records
//! (`tree::most_nodes`), so that running out of them cannot happen.
//!
//! A sorted array looks up as fast and moves half of all records on an install; a binary tree has a cache line a
//! comparison, fourteen for 16,384 records. Smaller nodes were measured: with 64 entries a lookup among 16,384 records
//! takes as long and 158 instructions instead of 142, with 16 entries 161. The figures are in `docs/benchmarks.md`.
//!
//! # Left out
//!
//! - Whether extents of two sessions overlap on the namespace, and whether they lie inside it: the policy side judges
//!   that, which knows all extents. Here only those are known that are installed at the moment, so a check against them
//!   would catch some and promise all.
//! - Counting. Everything that can be counted is in what the calls answer: misses of both kinds, and who lost which
//!   record.

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
