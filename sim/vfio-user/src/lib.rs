//! A server of the vfio-user protocol: it exports one PCI function to a virtual machine over a UNIX stream socket.
//!
//! A [`Server`] binds a socket and serves one client after the other, in one thread. The function is a [`Device`]; it
//! sees the client's machine as a [`Host`]. Time is real here: nanoseconds since the server was bound.
//!
//! - wire: formats (`message`), messages with file descriptors (`connection`), capabilities (`version`);
//! - the door: checked requests (`request`); past it nothing checks a client's values again;
//! - the client's machine: regions for DMA (`memory`), eventfds by vector (`interrupts`), DMA and the requests that
//!   arrive meanwhile (`host`, `snapshot`, `deferred`);
//! - one client from its first message to its last (`session`), and one after the other (`server`).
//!
//! The specification is `docs/interop/vfio-user.rst` of QEMU, cited by its section titles. The client in mind is QEMU's
//! device `vfio-user-pci`. Values that the specification takes from Linux are cited as *linux/vfio.h*.
//!
//! Neighbours: the owner of a function's model implements [`Device`] around it. This crate knows nothing of NVMe and of
//! the project's other models.
//!
//! Left out: regions that the client maps (MMAP), ioeventfds and ioregionfds, expansion ROMs, migration and dirty
//! pages, the twin socket, eventfds that mask or unmask a pin, error and request notifiers. A client that asks for one
//! of them gets an error reply, or finds it missing among the capabilities.
//!
//! Differences from the specification: the device is reset when its client leaves ("Client Disconnection" advises to
//! keep its state), so that the next client finds it as after power on. An unmap may cover many regions or none, as in
//! Linux.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod clock;
mod connection;
mod deferred;
mod device;
mod error;
mod host;
mod interrupts;
mod memory;
mod message;
mod request;
mod server;
mod session;
mod snapshot;
mod stop;
mod version;

pub use connection::Timeouts;
pub use device::{BARS, Blocked, ConfigSpace, Device, Host, Level, Shape};
pub use error::{BindError, ClientEnd, ClientError, VersionError};
pub use server::Server;
pub use snapshot::{Image, Snapshot};
pub use stop::Stop;

#[cfg(test)]
mod tests;
