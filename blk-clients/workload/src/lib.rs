//! Clients' environments: the part that all clients have ([`Client`]), and the configurations of the project's programs.
//!
//! A program's configuration is a type of its own, which it reads from JSON by [`Client::config`]. Those of the project's
//! programs stand here because the system's model reads them too, from the scenario. It refuses a configuration that
//! contradicts its tenant.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod attacks;
pub mod names;

use alloc::string::String;
use alloc::vec::Vec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A client's description of itself, which the system's model puts into its environment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Client {
    /// The tenant it acts for.
    pub tenant: String,
    /// The tenant's class.
    pub class: String,
    /// Queue pairs its session is granted.
    pub queue_pairs: u16,
    /// Entries of its session's rings, a power of two.
    pub ring_entries: u32,
    /// Bytes of its window.
    pub window_bytes: u64,
    /// Start of its first extent on the namespace, in blocks: for reports that the build machine compares.
    pub first_block: u64,
    /// The client polls for completions and yields, instead of sleeping.
    pub polls: bool,
    /// The client keeps its requests while its controller is gone, and repeats them when that is back.
    pub waits: bool,
    /// The kinds of its requests that it traces, if it drives a function itself: a bit for each (`blk_api::trace::Kinds`).
    pub traced: u8,
    /// The moment at which it opens its session, by its number (`report::milestones`).
    pub opens: Option<u16>,
    /// The moment that its load or its attacks wait for.
    pub begins: Option<u16>,
    /// The moment at which its load ends.
    pub ends: Option<u16>,
    /// The configuration of its program, in JSON: see [`Client::config`].
    pub config: String,
}

impl Client {
    /// Parses the configuration of its program: `[tenant.program.config]` of the scenario.
    ///
    /// # Errors
    /// The reason why it is not a `C`.
    pub fn config<C: DeserializeOwned>(&self) -> Result<C, serde_json::Error> {
        serde_json::from_str(&self.config)
    }
}

/// Encodes `config` as [`Client::config`] reads it.
#[must_use]
pub fn encode<C: Serialize>(config: &C) -> String {
    // Cannot fail: a String grows, and configurations have no maps whose keys are not strings.
    serde_json::to_string(config).unwrap_or_default()
}

/// Bytes of the heap that [`Bench`] and [`Digest`] have for each of the `depth` requests in flight: its task and its part of the window.
pub const HEAP_A_REQUEST: usize = 1024;

/// A load, in the terms of fio.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Bench {
    /// Order of the blocks.
    pub pattern: Pattern,
    /// Bytes of a request: a multiple of the namespace's block size.
    pub block_bytes: u32,
    /// Percentage of reads, 0 to 100.
    pub read_percent: u8,
    /// Requests in flight, 1 or more.
    pub depth: u16,
    /// Requests to do; 0 when the time ends the run.
    pub operations: u64,
    /// Milliseconds to run; 0 when the count ends the run.
    pub milliseconds: u64,
    /// Whether to verify every byte: blocks are written before they are read, each with a checksum bound to its LBA and
    /// generation.
    pub verify: bool,
    /// Seed of the random order.
    pub seed: u64,
    /// Bytes by which every window range is moved off its natural alignment: a multiple of 4.
    pub misalign_bytes: u32,
    /// Window ranges a request is spread over, 1 to 5.
    pub segments: u8,
    /// Largest request when sizes vary: each request takes a random multiple of `block_bytes` up to this; 0 keeps them
    /// equal.
    pub max_block_bytes: u32,
    /// An unreadable block, in the session's own numbering. Reads that touch it must fail with a media error, at least once.
    /// Writes and all other requests must be done.
    pub bad_block: Option<u64>,
    /// Whether the tenant's rights to some blocks are taken while it runs, and whether they come back.
    pub forbidden: Forbidden,
    /// Flush after this many writes, 0 for never.
    pub flush_every: u64,
    /// Retries of a request that the controller failed. The client's library retries lost requests by itself.
    pub retries: u8,
    /// After the load: write zeroes and discard over the first requests' blocks and check that they read as zeroes.
    pub zeroes: bool,
    /// After the load: verify the first requests' blocks, if the controller has Verify, and compare them with what they have and with
    /// other data.
    pub compares: bool,
    /// Minimum sleep after the start, in milliseconds, so that other tenants go first. It ends with a tick.
    pub delay_milliseconds: u64,
    /// The most of the time, in percent, in which it has requests in flight: it sleeps from tick to tick in between. On a slow
    /// machine it makes fewer requests, and leaves others as much of the processor. 0 for no limit.
    pub busy_percent: u8,
    /// Pause of each request in flight from its end to the next one, in microseconds. It is shorter than a tick, so the
    /// thread does not sleep: threads of a lower priority do not run in it.
    pub think_microseconds: u64,
    /// Interval of its progress reports in milliseconds, for the run's timeline; 0 for none.
    pub progress_milliseconds: u64,
    /// How the completions of its reads and writes are awaited.
    pub completion: Completion,
    /// Instruction-count markers around the run, with this benchmark name; empty for none.
    pub measure: String,
}

impl Default for Bench {
    fn default() -> Self {
        Self {
            pattern: Pattern::Random,
            block_bytes: 4096,
            read_percent: 70,
            depth: 8,
            operations: 1000,
            milliseconds: 0,
            verify: true,
            seed: 1,
            misalign_bytes: 0,
            segments: 1,
            max_block_bytes: 0,
            bad_block: None,
            forbidden: Forbidden::Never,
            flush_every: 0,
            retries: 0,
            zeroes: false,
            compares: false,
            delay_milliseconds: 0,
            busy_percent: 0,
            think_microseconds: 0,
            progress_milliseconds: 100,
            completion: Completion::Session,
            measure: String::new(),
        }
    }
}

/// How the completions of a load's requests are awaited (`blk_client::Completion`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "LoadCompletion"))]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// As those of all requests of the session without a choice: as the tenant's `completion` says.
    #[default]
    Session,
    /// Asleep, until a signal or an interrupt.
    Interrupt,
    /// By polling.
    Polled,
    /// Asleep for as long as a request is expected to take, and by polling then.
    SleepThenPoll,
    /// As seems best for each request.
    Automatic,
}

/// Whether requests of a load are forbidden because its rights are taken while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Forbidden {
    /// A forbidden request is an error.
    Never,
    /// Some are, and no later one on the same blocks is done.
    ForGood,
    /// Some are, and later ones on the same blocks are done.
    ForAWhile,
    /// Some may be, and later ones on the same blocks may be done. That replaces `never` where an operator has the act `rights`.
    Possibly,
}

/// Order of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Uniformly random.
    Random,
    /// Sequential, starting over at the end.
    Sequential,
}

/// A range to digest, relative to the session's first block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Digest {
    /// First byte: a multiple of the block size.
    pub first_byte: u64,
    /// Bytes; 0 for all bytes of the session.
    pub bytes: u64,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Requests in flight.
    pub depth: u16,
}

impl Default for Digest {
    fn default() -> Self {
        Self { first_byte: 0, bytes: 0, block_bytes: 65536, depth: 4 }
    }
}

/// Exchange of signals between two tenants, each the other's peer; no session is opened.
///
/// An operation is a round trip: both signal once and both wait once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Signal {
    /// Round trips, the same for both.
    pub operations: u64,
    /// Whether this client signals first and measures; the other one answers.
    pub leads: bool,
    /// The leader's instruction-count markers around the run have this benchmark name.
    pub measure: String,
}

impl Signal {
    /// The badge bit with which a peer's signals arrive; a server's have another.
    pub const BADGE_BIT: u64 = 2;
}

impl Default for Signal {
    fn default() -> Self {
        Self { operations: 1000, leads: false, measure: String::new() }
    }
}

/// Targets of the attacker.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Hostile {
    /// The first of the namespace's blocks that belong to another tenant.
    pub foreign_first_block: u64,
    /// The number of these blocks.
    pub foreign_blocks: u64,
    /// The attack that ends the attacker: none, or one that makes it fault or its session be closed.
    pub last: LastAttack,
    /// Number of rounds over all attacks.
    pub rounds: u32,
    /// Whether an attacker with a function detaches neighbours' namespaces. QEMU's controller does that for any function.
    pub detaches: bool,
}

/// End of an attacker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LastAttack {
    /// The attacker closes its session.
    #[default]
    Close,
    /// The attacker publishes a tail beyond the ring; the server closes its session for it.
    TailBeyondRing,
    /// The attacker moves its tail backwards; the server closes its session for it.
    TailBackwards,
    /// The attacker claims to have read completions that never existed; the server closes its session for it.
    HeadBeyondRing,
    /// The attacker reads memory that is not mapped, a fault that ends it.
    UnmappedRead,
    /// The attacker writes the completion ring, which it holds read-only.
    ReadOnlyWrite,
    /// The attacker writes registers in its arena that are not its own function's. Of a tenant with a function alone.
    ForeignRegisters,
    /// The attacker floods its function until that is revoked, and goes on using it. Of a tenant with a function alone, and its
    /// only attack.
    KeepFunction,
    /// The client calls the PCI server and the IOMMU server without end, by permitted calls. For a tenant with a function alone, and its only attack.
    FloodServers,
    /// The client overwrites and deletes every capability of its CNode, and reads unmapped memory. For a tenant with a function alone,
    /// and its only attack.
    ClearCspace,
    /// The program executes every instruction that user level must not execute, one in each incarnation: each is a fault. It counts them on
    /// its first block.
    ForbiddenInstructions,
    /// The attacker panics.
    Panic,
    /// The attacker stops answering with requests in flight.
    Silence,
    /// The attacker submits without end.
    Flood,
}

impl LastAttack {
    /// Whether only a tenant with rings can make it.
    #[must_use]
    pub const fn needs_rings(self) -> bool {
        match self {
            Self::TailBeyondRing
            | Self::TailBackwards
            | Self::HeadBeyondRing
            | Self::ReadOnlyWrite
            | Self::ForbiddenInstructions => true,
            Self::Close
            | Self::UnmappedRead
            | Self::ForeignRegisters
            | Self::KeepFunction
            | Self::FloodServers
            | Self::ClearCspace
            | Self::Panic
            | Self::Silence
            | Self::Flood => false,
        }
    }

    /// Whether no round of other attacks comes before it.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        match self {
            // The revocation would come in the middle of a round.
            Self::KeepFunction => true,
            // The flood begins at once, with a full budget.
            Self::FloodServers => true,
            // It needs nothing of them.
            Self::ClearCspace => true,
            // Each incarnation would repeat all of them.
            Self::ForbiddenInstructions => true,
            _ => false,
        }
    }

    /// Whether only a tenant with a function can make it.
    #[must_use]
    pub const fn needs_function(self) -> bool {
        matches!(self, Self::ForeignRegisters | Self::KeepFunction | Self::FloodServers | Self::ClearCspace)
    }
}

/// Misbehaviour without end: permitted calls, signals and requests, and refused ones, as many as possible.
///
/// No forbidden action of it can succeed; its neighbours' results show its cost to them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Flood {
    /// Kinds of misbehaviour, each for one turn, starting over after the last.
    pub kinds: Vec<FloodKind>,
    /// Milliseconds to run; 0 for a flood without end, which reports the end of its work at its start.
    pub milliseconds: u64,
    /// Milliseconds of one turn.
    pub turn_milliseconds: u64,
    /// Whether the client sleeps between requests: it publishes as many as may be in flight at once and waits for answers.
    /// Otherwise it publishes each request by itself, polls and never sleeps. Signals are then sent in a burst at each tick, and
    /// calls of the policy component wait for the tick when they are refused as too many.
    pub waits: bool,
    /// Maximum number of requests in flight; 0 for as many as the ring holds.
    pub depth: u16,
    /// Number of its first blocks that valid requests name, one after the other; 0 for all of them.
    pub blocks: u64,
    /// Percentage of reads among valid requests; the others are writes.
    pub read_percent: u8,
    /// The block with which it begins, and the first variant of invalid entries.
    pub seed: u64,
}

impl Default for Flood {
    fn default() -> Self {
        Self {
            kinds: Vec::new(),
            milliseconds: 1000,
            turn_milliseconds: 10,
            waits: false,
            depth: 0,
            blocks: 0,
            read_percent: 100,
            seed: 0,
        }
    }
}

/// A kind of misbehaviour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FloodKind {
    /// Valid requests of one block. One whose record is missing is made again after a call of the policy component.
    Requests,
    /// Write Zeroes and Discard by turns, each of as many blocks as one request may name.
    Zeroes,
    /// Entries with words that the server refuses: an unknown operation, ranges that do not fit.
    Invalid,
    /// Requests for blocks outside of its extents.
    Forbidden,
    /// Valid requests whose records are missing, for which it never asks the policy component.
    NotInstalled,
    /// Requests of more blocks than one may have. They need extents that are longer than that; otherwise the blocks are
    /// outside of them.
    TooLarge,
    /// Calls for the record of its first block, at the policy component.
    PolicyCalls,
    /// Calls for the records of all its blocks in turn, at the policy component. With extents of one block each, these are as
    /// many records as it may have, and they displace those of others.
    Evictions,
    /// Closes its session and opens it again.
    OpenClose,
    /// Signals the server's notification, with nothing on the ring.
    Signals,
    /// Calls the server, with known and unknown calls, and sends to it without waiting for an answer.
    Calls,
}

impl FloodKind {
    /// All kinds of floods.
    pub const ALL: [Self; 11] = [
        Self::Requests,
        Self::Zeroes,
        Self::Invalid,
        Self::Forbidden,
        Self::NotInstalled,
        Self::TooLarge,
        Self::PolicyCalls,
        Self::Evictions,
        Self::OpenClose,
        Self::Signals,
        Self::Calls,
    ];
}

/// The configuration of the probe, the test component that has an NVMe server's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// Last access, which must be a fault.
    pub last: LastProbe,
}

/// The probe's last access, to something that is not its own any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LastProbe {
    /// A register of the controller it gave back.
    Registers,
    /// A page of memory that it revoked.
    RevokedPage,
}
