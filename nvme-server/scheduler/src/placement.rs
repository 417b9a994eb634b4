//! Which queue pair a command goes to (SEEDS.md V9): who shares queue pairs with whom, as numbers.
//!
//! The server asks once for a session, when it opens it, and then for each command. Queue pairs are counted from 0 over
//! all of a controller; the identifiers are the server's.

/// Who shares queue pairs with whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// All queue pairs for everybody, in turn: what needs a lock where there are several cores.
    Shared {
        /// Queue pairs.
        queue_pairs: u16,
    },
    /// One queue pair for each core.
    PerCore {
        /// Cores.
        cores: u16,
    },
    /// A pool of queue pairs for each core, in turn.
    PoolPerCore {
        /// Cores.
        cores: u16,
        /// Queue pairs of one.
        queue_pairs: u16,
    },
    /// Queue pairs of its own for each session.
    Dedicated,
}

/// What a session's place depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// The core on which its client submits; a number in its configuration. Beyond the last it wraps around.
    pub core: u16,
    /// Queue pairs of its own, where it has some.
    pub queue_pairs: u16,
    /// The number of the first of these.
    pub first_own: u16,
}

/// A run of queue pairs that a session's commands go to in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// The first.
    pub first: u16,
    /// How many; at least 1.
    pub count: u16,
}

impl Placement {
    /// The queue pairs of a session.
    #[must_use]
    pub fn group(self, seat: Seat) -> Group {
        let on = |cores: u16| seat.core.checked_rem(cores).unwrap_or(0);
        match self {
            Self::Shared { queue_pairs } => Group { first: 0, count: queue_pairs.max(1) },
            Self::PerCore { cores } => Group { first: on(cores), count: 1 },
            Self::PoolPerCore { cores, queue_pairs } => {
                Group { first: on(cores).saturating_mul(queue_pairs), count: queue_pairs.max(1) }
            }
            Self::Dedicated => Group { first: seat.first_own, count: seat.queue_pairs.max(1) },
        }
    }

    /// Queue pairs that exist before any session does; sessions with their own come on top.
    #[must_use]
    pub fn common(self) -> u16 {
        match self {
            Self::Shared { queue_pairs } => queue_pairs,
            Self::PerCore { cores } => cores,
            Self::PoolPerCore { cores, queue_pairs } => cores.saturating_mul(queue_pairs),
            Self::Dedicated => 0,
        }
    }
}

/// Whose turn it is in a group; one for everybody who shares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Turn(u16);

impl Turn {
    /// The queue pair for the next command.
    pub fn take(&mut self, group: Group) -> u16 {
        let Self(turn) = *self;
        let turn = if turn >= group.count { 0 } else { turn };
        self.0 = turn.wrapping_add(1);
        group.first.saturating_add(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const SEAT: Seat = Seat { core: 5, queue_pairs: 3, first_own: 40 };

    fn queues(placement: Placement, commands: usize) -> Vec<u16> {
        let (group, mut turn) = (placement.group(SEAT), Turn::default());
        (0..commands).map(|_| turn.take(group)).collect()
    }

    #[test]
    fn each_placement_has_its_queue_pairs() {
        assert_eq!(queues(Placement::Shared { queue_pairs: 2 }, 5), [0, 1, 0, 1, 0]);
        assert_eq!(queues(Placement::PerCore { cores: 4 }, 3), [1, 1, 1]);
        assert_eq!(queues(Placement::PoolPerCore { cores: 4, queue_pairs: 2 }, 3), [2, 3, 2]);
        assert_eq!(queues(Placement::Dedicated, 4), [40, 41, 42, 40]);
    }

    #[test]
    fn nothing_configured_is_one_queue_pair_and_no_panic() {
        for placement in [
            Placement::Shared { queue_pairs: 0 },
            Placement::PerCore { cores: 0 },
            Placement::PoolPerCore { cores: 0, queue_pairs: 0 },
        ] {
            assert_eq!(queues(placement, 2), [0, 0]);
            assert_eq!(placement.common(), 0);
        }
    }
}
