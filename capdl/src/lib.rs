//! A whole system as data: scenario, model, checks, capDL text, graph, binary specification.
//!
//! A [`Scenario`] (TOML) names controllers, tenants and their work. [`build`](build()) makes a [`System`] from it and from
//! the components' programs: every kernel object, capability and mapping. A system gives the image that the root task boots
//! ([`System::image`]), the system in the capDL language ([`System::cdl`]) and a picture ([`System::svg`]).
//! [`check::authority`] proves over the objects alone that no authority leaks; a system that fails it is not built.
//!
//! Neighbours: `capdl-check` has the checker, `capdl-spec` the binary form, `root-task` boots it, `xtask` runs scenarios and
//! reads what they [`expect`](scenario::Expect). Not here: QEMU's command line, and anything that runs on seL4.

#![forbid(unsafe_code)]

pub mod build;
pub mod cdl;
pub mod check;
mod error;
pub mod graph;
mod model;
pub mod programs;
pub mod scenario;
mod system;

use capdl_check::{layout, machine, priority};

pub use build::build;
pub use capdl_spec::Arch;
pub use error::BuildError;
pub use programs::Programs;
pub use scenario::{KernelKind, Scenario, ScenarioError, ThreadOrder};
pub use system::System;
