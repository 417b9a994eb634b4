//! The NVMe server's configuration: who may do what, written by the system's model.

use crate::extent::Extent;
use alloc::string::String;
use alloc::vec::Vec;
use platform::Badge;
use serde::{Deserialize, Serialize};

/// One NVMe server.
///
/// Its environment names what belongs to it: capabilities `pci` (endpoint), `event` (its notification, unbadged, to
/// badge for interrupts), `dma` (frames of its own pool, also the region `dma`), `io-table` (IO page tables); for
/// session i the frames `window-i`, the notification `client-i`, the regions `ring-client-i` (read-only) and
/// `ring-server-i`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerConfig {
    /// Interrupts by INTx even where MSI-X is there.
    pub intx: bool,
    /// The sessions; the badge of session i on the server's endpoint is i + 1.
    pub sessions: Vec<SessionConfig>,
}

/// One session: what its client may ask for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionConfig {
    /// The tenant.
    pub tenant: String,
    /// Its class.
    pub class: Class,
    /// Hardware queue pairs it gets.
    pub queue_pairs: u16,
    /// Commands each of them may hold at once.
    pub depth: u16,
    /// The namespace.
    pub nsid: u32,
    /// Its blocks, in the order of its own numbering.
    pub extents: Vec<Extent>,
    /// Whether it may write.
    pub writable: bool,
    /// How the server learns of completions on its queue pairs.
    pub completion: Completion,
    /// Entries of its rings, a power of two.
    pub ring_entries: u32,
    /// Bytes of its window.
    pub window_bytes: u64,
}

/// Priority classes, most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Before everybody.
    Urgent,
    /// High weight.
    High,
    /// Middle weight.
    Medium,
    /// What is left.
    Low,
}

impl Class {
    /// Its name.
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

/// How completions are noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// The queue pair raises its vector.
    Interrupt,
    /// The server looks, letting threads of its priority run in between; the queue pair raises nothing.
    Polled,
    /// The server looks a bounded number of times after a submission and then relies on the vector.
    Hybrid,
}

/// Badges on the server's notification. Sources share bits when there are more than bits: a set bit means "look",
/// never "one".
pub mod badge {
    use super::Badge;

    const CLIENT_BITS: u32 = 30;
    /// Bits for interrupt vectors: vector i has bit i modulo this.
    pub const VECTOR_BITS: u32 = 30;

    /// The badge with which the client of session `index` rings.
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
