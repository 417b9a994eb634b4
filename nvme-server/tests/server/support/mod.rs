//! A world for the server in memory: a kernel that keeps the accounting it needs, a PCI server that grants, a controller
//! that is strict and can be configured to lie, clients with their rings.
//!
//! A double for these tests and not a simulator: it has no threads, no time but that which a test lets pass, and one order.

mod bus;
mod busy;
mod controller;
mod kernel;
mod memory;
mod shape;
mod system;
mod world;

pub(crate) use bus::{Act, Wires};
pub(crate) use busy::{assert_ended, busy};
pub(crate) use controller::{Managed, RAB};
pub(crate) use memory::Bytes;
pub(crate) use system::{Setup, System, Tenant, WINDOW, advance_incarnation, entry, frames_of, open, reads, session};
pub(crate) use world::{ADMINISTRATOR, ARENA, Object, State, TICKS_PER_SECOND};
