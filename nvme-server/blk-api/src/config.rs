//! The NVMe server's configuration: its controller's interrupts and queues, its sessions, and how commands are scheduled.
//!
//! The system's model (`capdl`) writes it, and the server reads it when it starts. The policy component may change a value
//! "to begin with" later ([`crate::policy`]), within the bounds beside it. This module also has the badges on the server's
//! notification. Left out: a session's blocks on the namespace, which the policy component's configuration has.

use crate::administration::Administration;
use crate::queue_sharing::QueueSharing;
use crate::trace::Kinds;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use platform::Badge;
use serde::{Deserialize, Serialize};

/// Configuration of an NVMe server.
///
/// Its environment names what belongs to it: capabilities `pci` (endpoint), `event` (its notification, unbadged, to
/// badge for interrupts), `dma` (frames of its own pool, also the region `dma`), `io-table` (IO page tables); for
/// session i the frames `window-i`, the notification `client-i`, the regions `ring-client-i` (read-only),
/// `ring-server-i` and `liveness-i`, its client's liveness page; for function i `liveness-function-i`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerConfig {
    /// The controller's interrupt mode to begin with.
    pub interrupts: Interrupts,
    /// The server's scheduling policy, which chooses the next command for the controller.
    pub policy: SchedulingPolicy,
    /// Relative weights of the classes below urgent, where the scheduling policy goes by weight.
    pub class_weights: ClassWeights,
    /// How sessions share queue pairs.
    pub queue_sharing: QueueSharing,
    /// The sessions; the badge of session i on the server's endpoint is i + 1.
    pub sessions: Vec<SessionConfig>,
    /// The virtual functions that clients drive themselves, by their numbers.
    pub functions: Vec<FunctionConfig>,
    /// Records of extents that it keeps for all sessions together.
    pub records: u32,
    /// Whether records that touch and give the same rights become one.
    pub merging: bool,
    /// What the controller does otherwise than the standard has it.
    pub quirks: Vec<Quirk>,
    /// The administration of the controller by another component.
    pub administration: Option<Administration>,
}

/// Something that a controller does otherwise than the standard has it, and that its server allows for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Quirk {
    /// The controller's namespaces have another NGUID after each reset, so that they are known by everything else.
    NguidChangesAtReset,
}

impl ServerConfig {
    /// Sessions that a server can have.
    pub const MOST_SESSIONS: usize = 128;
    /// Bytes of the server's heap for what sessions and queue pairs keep for requests: the sum of [`ServerConfig::session_heap`] and
    /// [`ServerConfig::queue_pair_heap`].
    pub const REQUESTS_HEAP: usize = 1 << 20;
    /// Commands of a session that wait for a retry, beyond which no entry is taken from its ring.
    pub const WAITING_RETRIES: usize = 32;
    /// Bytes of the heap for each entry of a ring: a place for its request, and the place's number.
    pub const HEAP_A_REQUEST: usize = 16 + 2;
    /// Bytes of the heap for each command in flight.
    pub const HEAP_A_COMMAND: usize = 56;
    /// Bytes of the heap for each command that waits for a retry.
    pub const HEAP_A_RETRY: usize = 32;

    /// Bytes of the heap for a session with so many ring entries.
    #[must_use]
    pub const fn session_heap(ring_entries: u32) -> usize {
        // A vector that grows holds up to twice its elements.
        let retries = Self::WAITING_RETRIES.saturating_mul(Self::HEAP_A_RETRY).saturating_mul(2);
        (ring_entries as usize).saturating_mul(Self::HEAP_A_REQUEST).saturating_add(retries)
    }

    /// Bytes of the heap for so many queue pairs, each with `depth` commands in flight, which may all have to wait for a retry.
    #[must_use]
    pub const fn queue_pair_heap(queue_pairs: u16, depth: u16) -> usize {
        let a_command = Self::HEAP_A_COMMAND.saturating_add(Self::HEAP_A_RETRY.saturating_mul(2));
        (queue_pairs as usize).saturating_mul(depth as usize).saturating_mul(a_command)
    }

    /// The queue pairs that session `index` may have, counted from 0 over all of the controller. It has the first of them, as
    /// many as its share gives.
    #[must_use]
    pub fn queue_pairs_of(&self, index: usize) -> Range<u16> {
        let Some(session) = self.sessions.get(index) else { return 0..0 };
        if self.queue_sharing != QueueSharing::Dedicated {
            return self.queue_sharing.of_core(session.core);
        }
        let before = self.sessions.iter().take(index);
        let first = before.fold(0u16, |sum, session| sum.saturating_add(session.most_queue_pairs));
        first..first.saturating_add(session.most_queue_pairs)
    }

    /// The word of function `number` among the teardown acknowledgements: they come after those of sessions.
    #[must_use]
    pub fn function_word(&self, number: u32) -> u32 {
        u32::try_from(self.sessions.len()).unwrap_or(u32::MAX).saturating_add(number)
    }

    /// All queue pairs that sessions may have.
    #[must_use]
    pub fn queue_pairs(&self) -> u16 {
        let own = self.sessions.iter().fold(0u16, |sum, session| sum.saturating_add(session.most_queue_pairs));
        self.queue_sharing.common().map_or(own, |(queue_pairs, _)| queue_pairs)
    }
}

/// A session and the limits of its client's requests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionConfig {
    /// The tenant.
    pub tenant: String,
    /// The session's class to begin with.
    pub class: Class,
    /// The most urgent class that it may ever have.
    pub highest: Class,
    /// The session's weight against the other sessions of its class; at least 1.
    pub weight: u16,
    /// Commands a second.
    pub iops_limit: Option<RateLimit>,
    /// Bytes a second.
    pub bandwidth_limit: Option<RateLimit>,
    /// Hardware queue pairs of its own to begin with; 0 where it shares some.
    pub queue_pairs: u16,
    /// Commands each of its queue pairs may hold at once, to begin with.
    pub depth: u16,
    /// The most queue pairs of its own that it may ever have.
    pub most_queue_pairs: u16,
    /// The most commands that each of them may ever hold; the server's pool has room for as many.
    pub most_depth: u16,
    /// The core on which its client submits; it selects the queue pairs where each core has some.
    pub core: u16,
    /// The namespace.
    pub nsid: u32,
    /// Blocks it numbers. The policy component knows their place on the namespace ([`crate::policy`]).
    pub blocks: u64,
    /// Whether the session may write.
    pub writable: bool,
    /// The server's way to notice completions on its queue pairs.
    pub completion: Completion,
    /// Entries of its rings, a power of two.
    pub ring_entries: u32,
    /// Bytes of its window.
    pub window_bytes: u64,
    /// The kinds of its requests that are traced to begin with.
    pub traced: Kinds,
}

/// A virtual function of the server's controller, and its client's due of the controller (NVMe base specification 1.4, section
/// 8.5). The client has the function itself from the PCI server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionConfig {
    /// The tenant.
    pub tenant: String,
    /// The function's namespace, which nobody else has.
    pub nsid: u32,
    /// I/O queue pairs, each with an interrupt. The admin queue pair has another.
    pub queue_pairs: u16,
}

/// Interrupt modes of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// By messages of a table, one for each vector.
    #[default]
    Msix,
    /// By messages with one address, one for each vector.
    Msi,
    /// By the pin: level triggered, one for all.
    Intx,
}

impl Interrupts {
    /// All interrupt modes.
    pub const ALL: [Self; 3] = [Self::Msix, Self::Msi, Self::Intx];

    /// The mode's number in messages.
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// The one with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }

    /// The mode's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Msix => "MSI-X",
            Self::Msi => "MSI",
            Self::Intx => "INTx",
        }
    }
}

/// Scheduling policies (`docs/guide/priority.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingPolicy {
    /// A single line for all sessions, command by command.
    RoundRobin,
    /// The most urgent class first, and nothing held back.
    Dedicated,
    /// Parts of the controller's time by weight.
    Weighted,
    /// Parts by weight, of the controller's own making: each session has a queue pair of each of three speeds.
    DeviceDirect,
    /// Latency of higher classes kept near their latency without other load.
    #[default]
    Paced,
}

impl SchedulingPolicy {
    /// All scheduling policies.
    pub const ALL: [Self; 5] = [Self::RoundRobin, Self::Dedicated, Self::Weighted, Self::DeviceDirect, Self::Paced];
}

/// Weights of the classes below urgent, each 1 to 256 ([`ClassWeights::MOST`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ClassWeights {
    /// Weight of high.
    pub high: u16,
    /// Weight of medium.
    pub medium: u16,
    /// Weight of low.
    pub low: u16,
}

impl ClassWeights {
    /// The most that a controller's arbitration has a number for (NVMe base specification 1.4, section 5.21.1.1:
    /// eight bits, and 0 means 1).
    pub const MOST: u16 = 256;
    /// All alike.
    pub const EQUAL: Self = Self { high: 1, medium: 1, low: 1 };
}

impl Default for ClassWeights {
    fn default() -> Self {
        Self { high: 6, medium: 3, low: 1 }
    }
}

/// A rate with a burst after a pause: in any time `t` at most `per_second * t + burst`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Commands, or bytes, a second.
    pub per_second: u64,
    /// Commands, or bytes, at once.
    pub burst: u64,
}

impl RateLimit {
    /// Bytes below which a limit of bandwidth lets no request pass.
    pub const LEAST_BYTES: u64 = 4096;

    /// Whether a request of `units` units passes, in a second and at once.
    #[must_use]
    pub const fn passes(self, units: u64) -> bool {
        self.per_second >= units && self.burst >= units
    }
}

/// Priority classes, most urgent first (SEEDS V15).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Before all other classes.
    Urgent,
    /// High weight.
    High,
    /// Middle weight.
    Medium,
    /// Low weight.
    Low,
}

impl Class {
    /// All classes, most urgent first.
    pub const ALL: [Self; 4] = [Self::Urgent, Self::High, Self::Medium, Self::Low];

    /// The class's number in messages.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The class's place in [`Class::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The class with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.number() == number)
    }

    /// The class's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// The server's way to notice completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// The queue pair raises its vector.
    Interrupt,
    /// The server polls, letting threads of its priority run in between; the queue pair raises nothing.
    Polled,
    /// The server polls a few times while that pays, and else relies on the vector.
    Hybrid,
}

/// Badges on the server's notification. Sources share bits when there are more than bits: a set bit means "poll",
/// never "one".
pub mod badge {
    use super::Badge;

    const CLIENT_BITS: u32 = 30;
    /// Bits for interrupt vectors: vector i has bit i modulo this.
    pub const VECTOR_BITS: u32 = 30;

    /// The badge with which the client of session `index` signals.
    #[must_use]
    pub const fn client(index: u32) -> u64 {
        Badge::SIGNAL | 1u64.rotate_left(index % CLIENT_BITS)
    }

    /// The badge of interrupt vector `vector`.
    #[must_use]
    pub const fn vector(vector: u32) -> u64 {
        Badge::SIGNAL | 1u64.rotate_left(CLIENT_BITS).rotate_left(vector % VECTOR_BITS)
    }

    /// The bits for vectors in `badge`, the first in bit 0.
    #[must_use]
    pub const fn raised(badge: u64) -> u32 {
        (badge >> CLIENT_BITS) as u32 & ((1 << VECTOR_BITS) - 1)
    }
}
