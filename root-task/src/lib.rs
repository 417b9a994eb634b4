//! Boot: builds every object of the specification, starts the components, supervises them.
//!
//! The way: [`boot()`] reads the [specification](capdl_spec) behind the program, makes its objects from the machine's
//! untypeds ([`Allocator`]), fills and maps the frames, installs the capabilities, gives the threads what they start
//! with and lets them run, highest priority first. What comes back is the [`Supervisor`]. It waits in one place: for faults, for
//! the timer's ticks and drivers' alarms, and for the words of servers that a dead driver is silenced and that nothing of a dead
//! client's session is left. A component that faults ends there; it is reported, and started again as often as the
//! specification says (`restarts`), in its own objects. It answers no calls.
//!
//! Afterwards the root task holds, apart from what the kernel gave it and it did not need (device untypeds among it),
//! the first capability to every object of the specification: it restarts components and revokes with those. Two kinds
//! it gives away, because the kernel derives no second capability from them: the right to make IRQHandlers, and IO page
//! tables that are not installed.
//!
//! Neighbours: `capdl` writes the specification, `platform` is the seam, below it seL4, or a model in tests. Left out:
//! what components are for, and any check of the specification beyond what building needs; `capdl` proves that no authority
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
pub mod generic_timer;
pub mod hpet;
#[cfg(feature = "fault-injection")]
mod injection;
mod liveness;
mod objects;
mod panic_serial;
mod reinstantiation;
mod restarts;
mod supervisor;
mod sweep;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "the tests' own numbers")]
mod testing;
mod threads;
pub mod timer;
mod vspace;

pub use allocator::{Allocator, Demand};
pub use boot::{BootInfo, Services, UntypedInfo};
pub use build::boot;
pub use error::BuildError;
pub use panic_serial::panic_frame;
pub use supervisor::{Fault, Supervisor};
