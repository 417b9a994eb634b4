//! The deterministic simulator: the components of a system, unchanged, over models of the kernel, the PCI tree and the
//! controllers, with checkers beside them.
//!
//! A [`Simulation`] is one machine, of either architecture, with one scenario's system. [`Simulation::run_until`] lets virtual time
//! pass. The output of its serial line has a real machine's format, and the same reader reads it. All randomness comes from
//! the seed: the same scenario with the same seed is the same run, to the last byte and event
//! ([`Simulation::trace_hash`]).
//!
//! | file | contents |
//! |---|---|
//! | `world.rs` | virtual time, the one processor, the choice of the thread that runs |
//! | `coroutine.rs` | a component's own stack, suspended where the kernel would take the processor |
//! | `component.rs`, `invocations.rs`, `memory.rs`, `inbox.rs` | the seam: `platform`'s traits on the models |
//! | `programs.rs`, `components.rs`, `root.rs`, `timer.rs` | the components' libraries, loaded and started by the root task |
//! | `machine.rs`, `topology.rs`, `iommu.rs` | the PCI tree, and the parts between it and the kernel; defects of them |
//! | `inside.rs`, `edu.rs` | the device models of PCI functions |
//! | `exported.rs` | one controller in its function, for a virtual machine that is not simulated |
//! | `board.rs`, `hpet.rs`, `generic_timer.rs`, `serial.rs`, `pl011.rs` | the other devices of q35 and of virt |
//! | `observer.rs` and below | observation of a run, and reports to the checkers (`sim-check`) |
//! | `trace.rs`, `log.rs`, `panics.rs` | the records of a run |
//! | `soak.rs` and below | scenarios drawn from a seed |
//! | `costs.rs` | costs in virtual time |
//!
//! Neighbours: `sim-kernel`, `sim-pci`, `sim-nvme` and `sim-smmu` are the models, `sim-fault` describes faults, `capdl` has the
//! system's specification. Left out: the judgement of a run against its scenario, and its output for people (`xtask`). Every
//! known difference from a real machine is in `sim/FIDELITY.md`.

// One place in `coroutine.rs` is allowed to, and gives the reason.
#![deny(unsafe_code)]

mod board;
mod component;
mod components;
mod coroutine;
mod costs;
mod disk;
mod edu;
mod exported;
mod generic_timer;
mod hpet;
mod inbox;
mod inside;
mod invocations;
mod iommu;
mod log;
mod machine;
mod memory;
mod observer;
mod operator;
mod panics;
mod pl011;
mod plug;
mod programs;
mod root;
mod serial;
mod simulation;
pub mod soak;
mod timer;
mod topology;
mod trace;
mod translations;
mod world;

pub use component::SimPlatform;
pub use components::Panic;
pub use costs::Costs;
pub use disk::Disk;
pub use exported::Exported;
pub use log::LogLine;
pub use machine::Defect;
pub use operator::Mailbox;
pub use platform::marker;
pub use plug::SlotEvent;
pub use programs::{Incarnation, Run, is_linked, link, programs};
pub use sim_check::Checker;
pub use sim_nvme::FaultHit;
pub use simulation::{Account, Simulation, missing_corrections};
pub use trace::{Entry, Kind, Name};
pub use world::{Mark, Progress};
