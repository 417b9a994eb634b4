//! Slots into which controllers are put while the system runs.

pub mod state;
