//! Fuzz targets: laws that hold for any input from a peer, a device or a file.
//!
//! Each target is a module with a law, stated in its header: a function that takes any bytes and panics when the law does
//! not hold. The engine, libFuzzer, searches for such bytes; `cargo xtask fuzz` builds and runs it. The unit tests here need no
//! engine: they replay every kept input (`kept/TARGET/`) and show that each law notices a planted defect.
//!
//! Left out: the search itself, its time limits and its findings (`lab/src/commands/fuzz.rs`).

#![forbid(unsafe_code)]

extern crate alloc;

pub mod door;
#[cfg(feature = "engine")]
pub mod engine;
pub mod frames;
pub mod image;
pub mod nvme;
pub mod pci;
pub mod policy_calls;
pub mod scenario;
mod target;

pub use target::{Subject, Target};

/// Every target.
pub const TARGETS: &[Target] = &[
    door::TARGET,
    nvme::administration::TARGET,
    nvme::completions::TARGET,
    nvme::identify::TARGET,
    pci::calls::TARGET,
    pci::config_space::TARGET,
    policy_calls::TARGET,
    image::TARGET,
    scenario::TARGET,
    frames::TARGET,
];

#[cfg(test)]
mod tests;
