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

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The target's name: that of its module, of its program (`fuzz-NAME`) and of its folder of kept inputs.
    pub name: &'static str,
    /// Panics when this input violates the law.
    pub law: fn(&[u8], Subject),
    /// Sound inputs from which a search starts, beside the kept ones.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// The code that a law is checked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The code as it is.
    Real,
    /// The code with a defect that the target plants: a search has to find it.
    Planted,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    door::TARGET,
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
