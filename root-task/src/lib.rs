//! Boot: builds every object of the specification, starts the components, supervises them.
//!
//! The steps: [`boot()`] reads the [specification](capdl_spec) behind the program, makes its objects from the machine's
//! untypeds ([`Allocator`]), fills and maps the frames, installs the capabilities, configures the threads and lets them run,
//! highest priority first. It returns the [`Supervisor`], which waits in one place: for faults, for the timer's ticks, for
//! drivers' alarms, and for servers' signals that a dead driver's device is silenced or that a dead client's session is torn
//! down. A component that faults is ended and reported. It is restarted as often as the specification allows (`restarts`), in
//! its own objects. The supervisor answers no calls.
//!
//! Afterwards the root task holds the first capability to every object of the specification, by which it restarts components
//! and revokes. It also keeps the kernel's capabilities that it did not need, device untypeds among them. It gives two kinds
//! away, because the kernel derives no second capability from them: the right to make IRQHandlers, and IO page tables that
//! are not installed.
//!
//! Neighbours: `capdl` writes the specification, `platform` is the seam, below it seL4, or a model in tests. Left out: the
//! components' purposes, and any check of the specification beyond the needs of the build; `capdl` proves that no authority
//! leaks.

#![no_std]
#![forbid(unsafe_code)]
#![warn(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

extern crate alloc;

mod allocator;
mod boot;
mod build;
mod cspace;
mod error;
mod frames;
pub mod generic_timer;
pub mod hpet;
#[cfg(feature = "fault-injection")]
mod injection;
mod liveness;
#[cfg(feature = "fault-injection")]
mod moments;
mod objects;
mod panic_serial;
mod reinstantiation;
mod restarts;
mod state;
mod supervisor;
mod sweep;
mod telemetry;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "the tests' own numbers")]
mod testing;
mod thread;
mod threads;
pub mod timer;
mod timer_setup;
mod vspace;

pub use allocator::{Allocator, Demand};
pub use boot::{BootInfo, Fault, Services, UntypedInfo};
pub use build::boot;
pub use error::BuildError;
pub use panic_serial::panic_frame;
pub use supervisor::Supervisor;
