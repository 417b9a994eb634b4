//! Keeps the least of up to 128 keys in a winner tree: at most seven comparisons an update however many sessions take part, and
//! none while one takes part alone.

use crate::share::MAX_SESSIONS;

/// A key, ordered by `rank` and among equals by arrival, so that no place in a table ever decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    /// The first criterion.
    pub rank: u64,
    /// The order of arrival.
    pub arrival: u64,
}

impl Key {
    /// The key of a player that does not take part.
    const ABSENT: Self = Self { rank: u64::MAX, arrival: u64::MAX };
}

/// Rounds from a leaf to the root.
const ROUNDS: u32 = MAX_SESSIONS.ilog2();
/// Masks that keep every index within its table, where the compiler can see it.
const NODES: usize = 2 * MAX_SESSIONS - 1;
const PLAYERS: usize = MAX_SESSIONS - 1;

/// The winner tree. Leaf `i` is node `MAX_SESSIONS + i`, node 1 is the root, and each node holds its winner.
#[derive(Clone, Debug)]
pub(crate) struct WinnerTree {
    keys: [Key; MAX_SESSIONS],
    winners: [u8; 2 * MAX_SESSIONS],
    arrivals: u64,
    /// The only player that takes part, if there is one alone. Its key is in no node then.
    bypass: Option<(u8, Key)>,
    /// The number of players whose keys are in the tree.
    players: u16,
}

impl WinnerTree {
    /// An empty tree.
    pub(crate) fn new() -> Self {
        let mut winners = [0; 2 * MAX_SESSIONS];
        let mut node = winners.len();
        while node > 1 {
            node = node.wrapping_sub(1);
            // Among equals the left one; a leaf is its own.
            let left = winners.get(node.wrapping_mul(2)).copied();
            let leaf = u8::try_from(node.wrapping_sub(MAX_SESSIONS)).unwrap_or(0);
            if let Some(winner) = winners.get_mut(node) {
                *winner = left.unwrap_or(leaf);
            }
        }
        Self { keys: [Key::ABSENT; MAX_SESSIONS], winners, arrivals: 0, bypass: None, players: 0 }
    }

    /// The player with the least key, and its rank.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u8, u64)> {
        if let Some((player, key)) = self.bypass {
            return Some((player, key.rank));
        }
        let [_, winner, ..] = self.winners;
        let key = self.key(winner);
        (key != Key::ABSENT).then_some((winner, key.rank))
    }

    /// Adds or moves `player`, behind all that have this rank already.
    #[inline]
    pub(crate) fn put(&mut self, player: u8, rank: u64) {
        self.arrivals = self.arrivals.wrapping_add(1);
        // The greatest rank stands for absence.
        let key = Key { rank: rank.min(u64::MAX - 1), arrival: self.arrivals };
        match self.bypass {
            Some((other, _)) if other == player => self.bypass = Some((player, key)),
            Some((other, others)) => {
                self.bypass = None;
                self.play(other, others);
                self.play(player, key);
            }
            None if self.players == 0 && usize::from(player) < MAX_SESSIONS => self.bypass = Some((player, key)),
            None => self.play(player, key),
        }
    }

    /// Takes `player` out.
    #[inline]
    pub(crate) fn remove(&mut self, player: u8) {
        match self.bypass {
            Some((bypass, _)) if bypass == player => self.bypass = None,
            Some(_) => {}
            None => self.play(player, Key::ABSENT),
        }
    }

    fn play(&mut self, player: u8, key: Key) {
        let Some(place) = self.keys.get_mut(usize::from(player)) else { return };
        match (*place == Key::ABSENT, key == Key::ABSENT) {
            (true, false) => self.players = self.players.wrapping_add(1),
            (false, true) => self.players = self.players.wrapping_sub(1),
            _ => {}
        }
        *place = key;
        let (mut winner, mut best) = (player, key);
        let mut node = MAX_SESSIONS.wrapping_add(usize::from(player));
        for _ in 0..ROUNDS {
            let rival = self.winners.get((node ^ 1) & NODES).copied().unwrap_or(winner);
            let rivals = self.key(rival);
            if rivals < best {
                (winner, best) = (rival, rivals);
            }
            node >>= 1;
            let Some(place) = self.winners.get_mut(node & NODES) else { return };
            // The winner is as before, and its key, too: nothing above changes.
            if *place == winner && winner != player {
                return;
            }
            *place = winner;
        }
    }

    #[inline(always)]
    fn key(&self, player: u8) -> Key {
        self.keys.get(usize::from(player) & PLAYERS).copied().unwrap_or(Key::ABSENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn equals_take_turns_in_the_order_in_which_they_came() {
        let mut winner_tree = WinnerTree::new();
        [9, 63, 0, 30].iter().for_each(|&player| winner_tree.put(player, 5));
        let mut seen = Vec::new();
        for _ in 0..8 {
            let (player, rank) = winner_tree.first().unwrap();
            seen.push(player);
            winner_tree.put(player, rank);
        }
        assert_eq!(seen, [9, 63, 0, 30, 9, 63, 0, 30]);
    }

    proptest! {
        #[test]
        fn the_first_is_the_least(
            moves in proptest::collection::vec((0u8..64, proptest::option::of(0u64..20)), 1..300),
        ) {
            let mut winner_tree = WinnerTree::new();
            let mut model: Vec<(u64, usize, u8)> = Vec::new();
            for (turn, (player, rank)) in moves.into_iter().enumerate() {
                model.retain(|(_, _, other)| *other != player);
                match rank {
                    Some(rank) => {
                        winner_tree.put(player, rank);
                        model.push((rank, turn, player));
                    }
                    None => winner_tree.remove(player),
                }
                let least = model.iter().min().map(|&(rank, _, player)| (player, rank));
                prop_assert_eq!(winner_tree.first(), least);
            }
        }
    }
}
