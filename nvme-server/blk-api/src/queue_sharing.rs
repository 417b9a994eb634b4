//! The hardware queue pairs of a session's commands (SEEDS V9): queue pairs of its own, or shared ones.
//!
//! Queue pairs are numbered from 0 over all of a controller: first the shared ones, then each session's own in the order of
//! the sessions. The scheduling policy chooses the session that has its turn, whatever the queue pairs.

use core::ops::Range;
use serde::{Deserialize, Serialize};

/// How sessions share queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum QueueSharing {
    /// Queue pairs of its own for each session, with the number and depth of its configuration.
    #[default]
    Dedicated,
    /// All queue pairs for all sessions, in turn.
    Shared {
        /// Number of queue pairs.
        queue_pairs: u16,
        /// Commands each of them may hold.
        depth: u16,
    },
    /// A queue pair for the sessions of each core.
    PerCore {
        /// Cores.
        cores: u16,
        /// Commands each queue pair may hold.
        depth: u16,
    },
    /// A pool of queue pairs for the sessions of each core, in turn.
    PoolPerCore {
        /// Cores.
        cores: u16,
        /// Queue pairs of one.
        queue_pairs: u16,
        /// Commands each of them may hold.
        depth: u16,
    },
}

impl QueueSharing {
    /// Queue pairs that sessions share, and the commands each of them may hold; `None` where each session has its own.
    #[must_use]
    pub const fn common(self) -> Option<(u16, u16)> {
        match self {
            Self::Dedicated => None,
            Self::Shared { queue_pairs, depth } => Some((queue_pairs, depth)),
            Self::PerCore { cores, depth } => Some((cores, depth)),
            Self::PoolPerCore { cores, queue_pairs, depth } => Some((cores.saturating_mul(queue_pairs), depth)),
        }
    }

    /// The shared queue pairs of a session whose client submits on `core`, which wraps around beyond the last. None where
    /// each session has its own.
    #[must_use]
    pub fn of_core(self, core: u16) -> Range<u16> {
        let pools = |cores: u16, each: u16| {
            let first = core.checked_rem(cores).unwrap_or(0).saturating_mul(each);
            first..first.saturating_add(each)
        };
        match self {
            Self::Dedicated => 0..0,
            Self::Shared { queue_pairs, .. } => 0..queue_pairs,
            Self::PerCore { cores, .. } => pools(cores, 1),
            Self::PoolPerCore { cores, queue_pairs, .. } => pools(cores, queue_pairs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_has_its_queue_pairs_and_there_are_no_others() {
        let shared = QueueSharing::Shared { queue_pairs: 2, depth: 8 };
        assert_eq!((shared.of_core(0), shared.of_core(5), shared.common()), (0..2, 0..2, Some((2, 8))));
        let each = QueueSharing::PerCore { cores: 4, depth: 16 };
        assert_eq!((each.of_core(0), each.of_core(5), each.common()), (0..1, 1..2, Some((4, 16))));
        let pool = QueueSharing::PoolPerCore { cores: 4, queue_pairs: 2, depth: 32 };
        assert_eq!((pool.of_core(3), pool.of_core(5), pool.common()), (6..8, 2..4, Some((8, 32))));
        assert_eq!((QueueSharing::Dedicated.of_core(1), QueueSharing::Dedicated.common()), (0..0, None));
    }

    #[test]
    fn no_cores_are_no_panic() {
        assert_eq!(QueueSharing::PerCore { cores: 0, depth: 1 }.of_core(3), 0..1);
    }
}
