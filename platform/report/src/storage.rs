//! Records of the NVMe servers and of the policy components beside them.

use crate::{Name, Text};
use serde::{Deserialize, Serialize};

/// A controller and its properties.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Controller {
    /// The server that owns it.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub server: Name,
    /// The controller's address on the bus.
    pub bdf: u16,
    /// PCI vendor id from its identity.
    pub vendor: u16,
    /// Model number.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub model: heapless::String<40>,
    /// Serial number.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub serial: heapless::String<20>,
    /// Firmware revision.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub firmware: heapless::String<8>,
    /// Version: major, minor, tertiary.
    pub version: [u8; 3],
    /// I/O queue pairs it granted.
    pub queue_pairs: u16,
    /// Entries a queue can have.
    pub max_queue_entries: u32,
    /// Largest transfer of one command, bytes.
    pub max_transfer_bytes: u64,
    /// Interrupt mode of completions.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub interrupts: Name,
}

/// A namespace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Namespace {
    /// The server that serves it.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub server: Name,
    /// The namespace's id.
    pub nsid: u32,
    /// Blocks.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// A server's work for a session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// The session's tenant.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub tenant: Name,
    /// Reason of its end: empty for an orderly close.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub ended_by: Text,
    /// Requests taken from its ring.
    pub requests: u64,
    /// Requests refused by a check.
    pub refused: u64,
    /// Commands submitted to the controller.
    pub commands: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Commands the controller failed.
    pub errors: u64,
    /// Doorbell writes.
    pub doorbells: u64,
    /// Interrupts handled.
    pub interrupts: Interrupts,
    /// Notifications sent to the client.
    pub notifications: u64,
    /// Requests for which a record of an extent was not installed.
    pub not_installed: u64,
    /// Requests to which a record did not give the right.
    pub forbidden: u64,
    /// Hardware queue pairs it had in the end.
    pub queue_pairs: u16,
    /// Commands each of them could hold then.
    pub depth: u16,
}

/// Interrupts by mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupts {
    /// By messages of the table.
    pub msix: u64,
    /// By messages of the capability.
    pub msi: u64,
    /// By the pin.
    pub intx: u64,
}

impl Interrupts {
    /// All interrupts, whatever their mode.
    #[must_use]
    pub const fn total(&self) -> u64 {
        let Self { msix, msi, intx } = *self;
        msix.saturating_add(msi).saturating_add(intx)
    }
}

/// Part of a controller that is given up and recreated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ResetScope {
    /// A command was aborted.
    Command,
    /// A queue pair was recreated.
    QueuePair,
    /// The controller was reset.
    Controller,
}

/// A change while the system runs. A policy component that was restarted carries out all due changes again, and reports them
/// again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The policy component.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub policy: Name,
    /// The tenant that it affects.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub tenant: Name,
    /// Kind of the change.
    pub what: Changed,
    /// Nanoseconds of machine time when it was decided.
    pub at_ns: u64,
    /// Nanoseconds from then until it was in force and no command submitted before was in flight.
    pub took_ns: u64,
}

/// Kind of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Changed {
    /// Rights were taken.
    Revoked {
        /// Number of the blocks.
        blocks: u64,
    },
    /// Rights were given.
    Granted {
        /// Number of the blocks.
        blocks: u64,
    },
    /// A share was changed.
    Entitled,
}

/// A change of a controller's interrupt mode while the system runs. A policy component that was restarted has the last one
/// carried out again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptsChange {
    /// The policy component beside the controller's server.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub policy: Name,
    /// The change's place among those of the controller, from 1.
    pub number: u16,
    /// The mode it has now.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub to: Name,
    /// Nanoseconds of machine time when it was decided.
    pub at_ns: u64,
    /// Nanoseconds from then until commands were submitted again.
    pub took_ns: u64,
}
