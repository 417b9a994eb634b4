//! Events that wake a component.

use crate::Message;
use serde::{Deserialize, Serialize};

/// The badge of the capability that was used, which identifies the sender or caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Badge(pub u64);

impl Badge {
    /// Set in every badge of a notification capability and in no endpoint's (those have 28 bits): distinguishes a signal
    /// that arrived through the bound notification from a message.
    pub const SIGNAL: u64 = 1 << 63;

    /// The supervisor's periodic tick, for timeouts: see `docs/decisions`.
    pub const TICK: u64 = 1 << 62;

    /// The supervisor's answer to [`Badge::alarm`]: a moment has passed.
    pub const ALARM: u64 = 1 << 61;

    /// The request to the supervisor to be woken by [`Badge::ALARM`] after a moment ([`alarm`](crate::alarm)), long before the
    /// next tick. A component has a number for each length that it may ask for. Those whose numbers differ by 28 share a bit:
    /// one is then woken for the other.
    #[must_use]
    pub const fn alarm(number: u8) -> u64 {
        // 32 to 59.
        Self::SIGNAL | 1u64.wrapping_shl((number as u32 % 28).wrapping_add(32))
    }

    /// The PCI server's signal to the supervisor that nothing of driver number `driver` (below 32) is in flight any more: the
    /// dead driver's claim is taken back.
    #[must_use]
    pub const fn silenced(driver: u8) -> u64 {
        Self::SIGNAL | 1 << (driver & 31)
    }

    /// An NVMe server's signal to the supervisor that nothing is left of the session of a client that died. Its page of teardown
    /// acknowledgements shows which one ([`Incarnation::acknowledge_teardown`](crate::Incarnation::acknowledge_teardown)).
    pub const TORN_DOWN: u64 = 1 << 60;

    /// Whether any of the bits in `mask` is set.
    #[must_use]
    pub const fn has(self, mask: u64) -> bool {
        self.0 & mask != 0
    }
}

/// An event that a component waits for.
#[derive(Clone, Debug)]
pub enum Event {
    /// Signals of notification capabilities, at least one: their badges, ORed, with [`Badge::SIGNAL`] set.
    Signal(Badge),
    /// A message arrived at the component's endpoint, from the holder of the capability with this badge.
    Message(Badge, Message),
}
