//! A node of a tree: entries in the order of their keys.

/// Entries of a node, a power of two because searches go by halves. Tests use few, so that small trees are high.
pub(crate) const ENTRIES: usize = if cfg!(test) { 4 } else { 256 };
/// The fewest entries of a node below the root.
pub(crate) const MIN: usize = ENTRIES / 2;

const _: () = assert!(ENTRIES.is_power_of_two() && ENTRIES >= 4);

/// Up to [`ENTRIES`] keys and their links. Behind the last key all are `u64::MAX`, so that a search needs no length.
#[derive(Debug)]
pub(crate) struct Node {
    keys: [u64; ENTRIES],
    links: [u16; ENTRIES],
    len: u16,
}

#[expect(clippy::indexing_slicing, reason = "positions come from a search in this node; beyond it is a broken tree")]
impl Node {
    pub(crate) fn new() -> Self {
        Self { keys: [u64::MAX; ENTRIES], links: [0; ENTRIES], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The position of the greatest key at most `key`, or 0 when all are greater. `key` is not `u64::MAX`.
    ///
    /// It takes the same steps for every node, with no branch to mispredict.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> usize {
        let (mut at, mut half) = (0_usize, ENTRIES / 2);
        while half > 0 {
            let upper = at.wrapping_add(half);
            if self.keys[upper] <= key {
                at = upper;
            }
            half /= 2;
        }
        at
    }

    /// The number of keys less than `key`.
    pub(crate) fn rank(&self, key: u64) -> usize {
        self.keys.partition_point(|one| *one < key)
    }

    /// The key there, if there is one.
    pub(crate) fn key(&self, at: usize) -> Option<u64> {
        self.keys.get(at).copied().filter(|key| *key != u64::MAX)
    }

    /// The first key of a node that is not empty.
    pub(crate) fn least(&self) -> u64 {
        self.keys[0]
    }

    #[inline]
    pub(crate) fn link(&self, at: usize) -> u16 {
        self.links[at]
    }

    pub(crate) fn set_key(&mut self, at: usize, key: u64) {
        self.keys[at] = key;
    }

    /// Inserts before the entry that is at `at`, in a node that is not full.
    pub(crate) fn insert(&mut self, at: usize, key: u64, link: u16) {
        let len = self.len();
        self.keys[at..=len].rotate_right(1);
        self.links[at..=len].rotate_right(1);
        (self.keys[at], self.links[at]) = (key, link);
        self.len = self.len.wrapping_add(1);
    }

    /// Inserts behind all entries, in a node that is not full.
    pub(crate) fn push(&mut self, key: u64, link: u16) {
        self.insert(self.len(), key, link);
    }

    /// Takes the entry at `at` out.
    pub(crate) fn remove(&mut self, at: usize) -> (u64, u16) {
        let len = self.len();
        let entry = (self.keys[at], self.links[at]);
        self.keys[at..len].rotate_left(1);
        self.links[at..len].rotate_left(1);
        self.keys[len.wrapping_sub(1)] = u64::MAX;
        self.len = self.len.wrapping_sub(1);
        entry
    }

    /// Moves the upper half of a full node into `right`, which is empty.
    pub(crate) fn split(&mut self, right: &mut Self) {
        right.keys[..ENTRIES - MIN].copy_from_slice(&self.keys[MIN..]);
        right.links[..ENTRIES - MIN].copy_from_slice(&self.links[MIN..]);
        right.len = self.len.wrapping_sub(MIN as u16);
        self.truncate(MIN);
    }

    /// Takes all of `right`, its neighbour; both fit into one.
    pub(crate) fn append(&mut self, right: &Self) {
        let (from, to) = (self.len(), self.len().wrapping_add(right.len()));
        self.keys[from..to].copy_from_slice(&right.keys[..right.len()]);
        self.links[from..to].copy_from_slice(&right.links[..right.len()]);
        self.len = self.len.wrapping_add(right.len);
    }

    /// Moves entries between it and `right`, its neighbour, until neither is less than half full.
    pub(crate) fn even_out(&mut self, right: &mut Self) {
        while self.len() < MIN {
            let (key, link) = right.remove(0);
            self.push(key, link);
        }
        while right.len() < MIN {
            let (key, link) = self.remove(self.len().wrapping_sub(1));
            right.insert(0, key, link);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    /// While a node is free, its first link leads to the next free one.
    pub(crate) fn next_free(&self) -> u16 {
        self.links[0]
    }

    pub(crate) fn set_free(&mut self, next: u16) {
        self.links[0] = next;
    }

    fn truncate(&mut self, len: usize) {
        self.keys[len..].fill(u64::MAX);
        self.len = u16::try_from(len).unwrap_or(0);
    }
}
