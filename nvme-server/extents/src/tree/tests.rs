//! Laws of every tree, and of the free nodes.

use super::*;
use std::vec::Vec;

/// The entries of a tree in the order of their keys, and the number of its nodes. Checks its laws: it is as deep everywhere
/// and half full below the root, keys ascend, and a key above is exactly the least key below it.
pub(crate) fn entries(nodes: &Nodes, tree: &Tree) -> (Vec<(u64, u16)>, usize) {
    if tree.link == NOTHING {
        assert_eq!((tree.key, tree.height), (u64::MAX, 0));
        return (Vec::new(), 0);
    }
    let (mut level, mut count) = (Vec::from([(tree.key, tree.link)]), 0);
    for depth in 0..tree.height {
        let mut below = Vec::new();
        for (key, link) in level {
            let node = nodes.node(link);
            assert_eq!(node.least(), key, "keys above are exact");
            assert!(node.len() >= if depth == 0 { 2 } else { MIN }, "{} entries at depth {depth}", node.len());
            assert!((node.len()..ENTRIES).all(|at| node.key(at).is_none()), "nothing behind the last key");
            below.extend((0..node.len()).map(|at| (node.key(at).unwrap(), node.link(at))));
            count += 1;
        }
        level = below;
    }
    assert!(level.is_sorted_by(|one, next| one.0 < next.0), "{level:?}");
    (level, count)
}

/// The number of free nodes, and of all.
pub(crate) fn free(nodes: &Nodes) -> (usize, usize) {
    let (mut free, mut next) = (0, nodes.free);
    while next != NOTHING {
        next = nodes.node(next).next_free();
        free += 1;
        assert!(free <= nodes.nodes.len(), "free nodes go in a circle");
    }
    (free, nodes.nodes.len())
}

fn tree_of(keys: impl IntoIterator<Item = u64>) -> (Nodes, Tree) {
    let (mut nodes, mut tree) = (Nodes::new(most_nodes(1000, 1)), Tree::EMPTY);
    for key in keys {
        nodes.insert(&mut tree, key, u16::try_from(key).unwrap());
    }
    (nodes, tree)
}

#[test]
fn one_record_is_a_tree_without_nodes() {
    let (mut nodes, mut tree) = tree_of([7]);
    assert_eq!(entries(&nodes, &tree), (Vec::from([(7, 7)]), 0));
    assert_eq!(nodes.at_or_before(&tree, 6), None);
    assert_eq!(nodes.at_or_before(&tree, 9), Some(7));
    assert_eq!(nodes.after(&tree, 6), Some(7));
    assert_eq!(nodes.after(&tree, 7), None);
    nodes.remove(&mut tree, 7);
    assert_eq!(entries(&nodes, &tree), (Vec::new(), 0));
}

#[test]
fn an_empty_tree_leads_nowhere() {
    let (nodes, tree) = tree_of([]);
    for key in [0, 1, u64::MAX - 1, u64::MAX] {
        assert_eq!(nodes.at_or_before(&tree, key), None);
        assert_eq!(nodes.after(&tree, key), None);
    }
}

#[test]
fn what_is_inserted_in_any_order_is_found_and_goes_in_any_order() {
    // Steps that have no factor in common with 1000 visit every number once.
    for (step, back) in [(1, 1), (1, 999), (999, 1), (389, 7), (7, 611)] {
        let (mut nodes, mut tree) = tree_of((0..1000).map(|turn| turn * step % 1000));
        assert!(tree.height >= 5, "high enough to try every level: {}", tree.height);
        for (gone, key) in (0..1000).map(|turn| turn * back % 1000).enumerate() {
            assert_eq!(nodes.at_or_before(&tree, key), u16::try_from(key).ok());
            nodes.remove(&mut tree, key);
            let (left, used) = entries(&nodes, &tree);
            let (free, all) = free(&nodes);
            assert_eq!((left.len(), used + free), (999 - gone, all));
            let before = left.iter().rev().find(|(one, _)| *one < key).map(|(_, link)| *link);
            let after = left.iter().find(|(one, _)| *one > key).map(|(one, _)| *one);
            assert_eq!((nodes.at_or_before(&tree, key), nodes.after(&tree, key)), (before, after));
        }
    }
}

#[test]
fn a_cleared_tree_gives_all_its_nodes_back() {
    let (mut nodes, mut tree) = tree_of(0..1000);
    nodes.clear(&mut tree);
    assert_eq!(entries(&nodes, &tree), (Vec::new(), 0));
    let (free, all) = free(&nodes);
    assert_eq!(free, all);
}

#[test]
fn trees_that_are_as_empty_as_they_may_be_have_nodes_enough() {
    // Two records each: a root for each session. Then all records in one tree, thinned until nodes are half full.
    let mut nodes = Nodes::new(most_nodes(100, 50));
    let mut trees = [Tree::EMPTY; 50];
    for tree in &mut trees {
        (0..2).for_each(|key| nodes.insert(tree, key, 0));
    }
    trees.iter_mut().for_each(|tree| nodes.clear(tree));
    let mut tree = Tree::EMPTY;
    (0..100).for_each(|key| nodes.insert(&mut tree, key, 0));
    let (_, used) = entries(&nodes, &tree);
    assert!(used <= most_nodes(100, 1), "{used} nodes for one tree");
}
