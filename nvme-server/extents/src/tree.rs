//! The trees: a B+tree for each session, from the session's block numbers to records, all in one array of nodes.
//!
//! An entry is a key and a link. A link leads to a record's place at the bottom and to a node above; the key is the
//! least number below it, exactly. A tree is itself such an entry, and its height: one record is a tree of height 0,
//! without any node. Nodes below the root are at least half full, so that lookups end after few of them.
//!
//! Neighbours: [`crate::table`] decides which entries are inserted and removed; `node` is one node. Left out: the records
//! to which links at the bottom lead.

mod node;
#[cfg(test)]
pub(crate) mod tests;

use alloc::boxed::Box;
use node::{ENTRIES, MIN, Node};

/// No node, no place.
pub(crate) const NOTHING: u16 = u16::MAX;

/// A session's tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    /// The least number in it; greater than all numbers when it is empty.
    key: u64,
    link: u16,
    /// Nodes on the way to every record.
    height: u16,
}

impl Tree {
    /// The tree without records. `u64::MAX` is no record's first number, as a record has at least one block.
    pub(crate) const EMPTY: Self = Self { key: u64::MAX, link: NOTHING, height: 0 };
}

/// The nodes of all trees.
#[derive(Debug)]
pub(crate) struct Nodes {
    nodes: Box<[Node]>,
    /// The first free one; the others are linked behind it.
    free: u16,
}

/// The most nodes that trees of `records` records together need, with at most `sessions` trees.
///
/// A tree of n records has nodes when n is 2 or more. At the bottom it has one, or n / MIN, as each has at least MIN entries
/// unless it is the root. Each level above has one node, or as many as the one below divided by MIN. All these levels
/// together have one for MIN - 1 at the bottom, and the root. A tree with a root above the bottom has at least 2 MIN records.
pub(crate) fn most_nodes(records: usize, sessions: usize) -> usize {
    let bottom = (records / MIN).saturating_add(sessions.min(records / 2));
    let roots = sessions.min(records / ENTRIES);
    bottom.saturating_add(bottom / (MIN - 1)).saturating_add(roots)
}

impl Nodes {
    /// `count` free nodes, fewer than [`NOTHING`].
    pub(crate) fn new(count: usize) -> Self {
        let mut nodes = Self { nodes: (0..count).map(|_| Node::new()).collect(), free: NOTHING };
        (0..NOTHING).take(count).rev().for_each(|node| nodes.release(node));
        nodes
    }

    /// The link with the greatest key that is at most `key`.
    #[inline]
    pub(crate) fn at_or_before(&self, tree: &Tree, key: u64) -> Option<u16> {
        if key < tree.key || key == u64::MAX {
            return None;
        }
        let mut link = tree.link;
        for _ in 0..tree.height {
            let node = self.node(link);
            link = node.link(node.find(key));
        }
        Some(link)
    }

    /// The least key greater than `key`.
    pub(crate) fn after(&self, tree: &Tree, key: u64) -> Option<u64> {
        if key < tree.key {
            return Some(tree.key).filter(|key| *key != u64::MAX);
        }
        let (mut link, mut next) = (tree.link, None);
        for _ in 0..tree.height {
            let node = self.node(link);
            let at = node.find(key);
            // Keys are exact, so the neighbour's key is that of its first record.
            next = node.key(at.wrapping_add(1)).or(next);
            link = node.link(at);
        }
        next
    }

    /// Inserts an entry whose key the tree does not have.
    pub(crate) fn insert(&mut self, tree: &mut Tree, key: u64, link: u16) {
        if tree.link == NOTHING {
            *tree = Tree { key, link, height: 0 };
            return;
        }
        if tree.height == 0 {
            self.grow(tree);
        }
        let beside = self.insert_below(tree.link, tree.height, key, link);
        tree.key = tree.key.min(key);
        if let Some((right_key, right)) = beside {
            self.grow(tree);
            self.node_mut(tree.link).push(right_key, right);
        }
    }

    /// Removes the entry of `key`, which the tree has.
    pub(crate) fn remove(&mut self, tree: &mut Tree, key: u64) {
        if tree.height == 0 {
            *tree = Tree::EMPTY;
            return;
        }
        self.remove_below(tree.link, tree.height, key);
        let root = self.node(tree.link);
        tree.key = root.least();
        if root.len() == 1 {
            let only = root.link(0);
            self.release(tree.link);
            *tree = Tree { key: tree.key, link: only, height: tree.height.wrapping_sub(1) };
        }
    }

    /// Empties the tree and frees its nodes. The caller frees the places to which its links led.
    pub(crate) fn clear(&mut self, tree: &mut Tree) {
        if tree.height > 0 {
            self.clear_below(tree.link, tree.height);
        }
        *tree = Tree::EMPTY;
    }

    /// A new root above the tree, with the old one as its only entry.
    fn grow(&mut self, tree: &mut Tree) {
        let root = self.take();
        self.node_mut(root).push(tree.key, tree.link);
        *tree = Tree { key: tree.key, link: root, height: tree.height.wrapping_add(1) };
    }

    /// Inserts below the node `at_node`, which has `height` levels with its own. If it had to be split, returns the entry to
    /// insert beside it. The recursion is as deep as the tree is high. That is three levels for all the records that a link of
    /// 16 bits can distinguish, with at least 128 entries a node.
    fn insert_below(&mut self, at_node: u16, height: u16, key: u64, link: u16) -> Option<(u64, u16)> {
        if height == 1 {
            let at = self.node(at_node).rank(key);
            return self.add(at_node, at, key, link);
        }
        let at = self.node(at_node).find(key);
        let child = self.node(at_node).link(at);
        let beside = self.insert_below(child, height.wrapping_sub(1), key, link);
        let least = self.node(child).least();
        self.node_mut(at_node).set_key(at, least);
        let (right_key, right) = beside?;
        self.add(at_node, at.wrapping_add(1), right_key, right)
    }

    /// Adds an entry to one node, which is split if it is full.
    fn add(&mut self, to: u16, at: usize, key: u64, link: u16) -> Option<(u64, u16)> {
        if self.node(to).len() < ENTRIES {
            self.node_mut(to).insert(at, key, link);
            return None;
        }
        let beside = self.take();
        let (left, right) = self.pair(to, beside);
        left.split(right);
        match at.checked_sub(left.len()) {
            Some(in_right) if in_right > 0 => right.insert(in_right, key, link),
            _ => left.insert(at, key, link),
        }
        Some((right.least(), beside))
    }

    /// Removes below the node `at_node`, which may be less than half full afterwards, but not empty.
    fn remove_below(&mut self, at_node: u16, height: u16, key: u64) {
        let at = self.node(at_node).find(key);
        if height == 1 {
            self.node_mut(at_node).remove(at);
            return;
        }
        let child = self.node(at_node).link(at);
        self.remove_below(child, height.wrapping_sub(1), key);
        let child = self.node(child);
        let (least, len) = (child.least(), child.len());
        self.node_mut(at_node).set_key(at, least);
        if len < MIN {
            self.refill(at_node, at);
        }
    }

    /// Joins the child at `at`, which lacks one entry, with a neighbour, or takes one of the neighbour's.
    fn refill(&mut self, parent: u16, at: usize) {
        let right_at = at.max(1);
        let node = self.node(parent);
        let (left, right) = (node.link(right_at.wrapping_sub(1)), node.link(right_at));
        let (left_node, right_node) = self.pair(left, right);
        if left_node.len().saturating_add(right_node.len()) <= ENTRIES {
            left_node.append(right_node);
            self.node_mut(parent).remove(right_at);
            self.release(right);
        } else {
            left_node.even_out(right_node);
            let least = right_node.least();
            self.node_mut(parent).set_key(right_at, least);
        }
    }

    fn clear_below(&mut self, at_node: u16, height: u16) {
        if height > 1 {
            for at in 0..self.node(at_node).len() {
                self.clear_below(self.node(at_node).link(at), height.wrapping_sub(1));
            }
        }
        self.release(at_node);
    }

    /// Takes a free node. There is always one: see [`most_nodes`].
    fn take(&mut self) -> u16 {
        let node = self.free;
        self.free = self.node(node).next_free();
        self.node_mut(node).clear();
        node
    }

    fn release(&mut self, node: u16) {
        let next = self.free;
        self.node_mut(node).set_free(next);
        self.free = node;
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "links are the trees' own, and a broken tree must not grant anything")]
    fn node(&self, node: u16) -> &Node {
        &self.nodes[usize::from(node)]
    }

    #[expect(clippy::indexing_slicing, reason = "links are the trees' own, and a broken tree must not grant anything")]
    fn node_mut(&mut self, node: u16) -> &mut Node {
        &mut self.nodes[usize::from(node)]
    }

    #[expect(clippy::expect_used, reason = "links are the trees' own, and a broken tree must not grant anything")]
    fn pair(&mut self, left: u16, right: u16) -> (&mut Node, &mut Node) {
        let [left, right] =
            self.nodes.get_disjoint_mut([left, right].map(usize::from)).expect("siblings are two nodes");
        (left, right)
    }
}
