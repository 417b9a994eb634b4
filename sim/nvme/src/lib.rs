//! A model of an NVMe controller, in the three groups of SEEDS O1: queue dispatch, data transfer, completion.
//!
//! A [`Controller`] is a state machine without threads and clocks: it receives register accesses and the time, moves
//! data through its [`Host`], and returns the time of its next event. The same configuration, seed and calls give the
//! same answers. It is strict: forbidden actions of a driver are refused and recorded as a [`Violation`].
//!
//! - queue dispatch: doorbells (`doorbell`), arbitration (`arbitration`), fetching (`dispatch`);
//! - data transfer: PRPs (`prp`), DMA (`data_transfer`), link and channels (`timing`), commands (`io`), contents (`store`,
//!   `write_log`);
//! - completion: pairing and posting (`completion`), interrupts (`interrupt`).
//!
//! `controller` puts the parts together, and `clock` lets time pass. A test of a driver can itself determine the controller's
//! next step (`guide`). At an enabling the controller may become another one (`later`, `enabling`). A primary controller and its
//! secondary ones are one subsystem (`subsystem`, `resources`, `attachment`, `lockdown`, `firmware`,
//! `sanitization`), whose state they take in turn (`sharing`).
//!
//! Neighbours: `sim-pci` puts it into a function, `sim-fault` defines its faults, `sim-check` reads its records. Left
//! out: PCI configuration space and the MSI-X table, metadata and protection information, SGLs, fused commands,
//! controller memory buffers. It knows nothing of the driver.

#![forbid(unsafe_code)]

mod admin;
mod arbitration;
mod attachment;
mod clock;
mod command;
mod completion;
mod contents;
mod controller;
mod counters;
mod data;
mod data_transfer;
mod dispatch;
mod doorbell;
mod enabling;
mod fault;
mod firmware;
mod generator;
mod guide;
mod interrupt;
mod io;
mod later;
mod lockdown;
mod power;
mod prp;
mod queue;
mod register_access;
mod registers;
mod resources;
mod sanitization;
mod settings;
mod sharing;
mod subsystem;
mod timing;
mod write_log;

pub mod config;
pub mod host;
pub mod namespace;
pub mod profile;
pub mod record;
pub mod store;
pub mod violation;

pub use admin::{
    AdminConfig, Health, Media as MediaHealth, Operation, OptionalCommands, PowerLevel, SecondaryCommands,
};
pub use config::{Config, Virtualization};
pub use controller::Controller;
pub use counters::Counters;
pub use fault::FaultHit;
pub use firmware::firmware_image;
pub use host::{AccessSize, Blocked, Host, Level};
pub use later::Later;
pub use namespace::NamespaceConfig;
pub use profile::Profile;
pub use record::{Direction, Event, Record, Transfer};
pub use store::{Base, Zeroes};
pub use timing::{MediaAccess, Timing};
pub use violation::{Violation, ViolationKind};
pub use write_log::NOTED_BYTES;
