//! Records of the clients.

use crate::{Name, Text};
use serde::{Deserialize, Serialize};

/// A session that was not opened, reported by the client that asked for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refused {
    /// The client's tenant.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub tenant: Name,
    /// The label of the server's answer: a refusal of `blk-api`.
    pub label: u32,
    /// Meaning of the label.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub reason: Text,
}

/// A client that has its session again, after its server was restarted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reconnected {
    /// The client's tenant.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub tenant: Name,
    /// Nanoseconds of machine time when the session was open again.
    pub at_ns: u64,
    /// Unanswered requests that were resubmitted.
    pub reissued: u32,
}

/// A load generator's measurements, times in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// The load's tenant.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub tenant: Name,
    /// The tenant's class.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub class: Name,
    /// The tenant's hardware queue pairs.
    pub queue_pairs: u16,
    /// Requests it kept in flight.
    pub depth: u16,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
    /// Bytes compared and found correct.
    pub verified_bytes: u64,
    /// Bytes compared and found wrong.
    pub wrong_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that were forbidden, of a load whose rights are taken.
    pub forbidden: u64,
    /// Nanoseconds of machine time when the measured requests began: those of the preparation came before.
    pub began_ns: u64,
    /// From the first measured request to the last completion.
    pub elapsed_ns: u64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A load generator's work from one time to another.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Progress {
    /// The client's tenant.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub tenant: Name,
    /// Nanoseconds of machine time when the interval began: the last one's end, or the load's begin.
    pub since_ns: u64,
    /// Nanoseconds of machine time when it ended. The record may have been made later, after others ran.
    pub until_ns: u64,
    /// Requests done in it.
    pub operations: u64,
    /// Bytes they carried.
    pub bytes: u64,
    /// The longest latency among them, nanoseconds.
    pub max_ns: u64,
}

/// A digest of a range.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Digest {
    /// The tenant that read.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub tenant: Name,
    /// First byte of the range on the namespace.
    pub first_byte: u64,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 of them.
    pub sha256: [u8; 32],
}

/// An attack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attack {
    /// The attacker.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub tenant: Name,
    /// The kind of attack (`workload::attacks`).
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub kind: Name,
    /// The attempt.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub attack: Text,
    /// Whether the attack was stopped.
    pub refused: bool,
    /// The obstacle that stopped it, in the attacker's words.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub stopped_by: Text,
}

/// A measured part of a benchmark.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// The benchmark's name, as in the JSON output.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub name: Name,
    /// Operations between the markers.
    pub operations: u64,
    /// Doorbell writes between the markers.
    pub doorbells: u64,
}

/// A number that a client program found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Value {
    /// The client's tenant.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub tenant: Name,
    /// Name of the quantity.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub name: Name,
    /// The number.
    pub number: f64,
    /// The value's unit; empty for none.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub unit: Name,
}
