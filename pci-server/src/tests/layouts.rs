//! Layouts of trees: the places of all ranges, and the functions that are left out.

use crate::assign::layout::{Layout, MemoryType, Need, Node, Part, Placed, Prefetchable, lay_out};
use core::ops::Range;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn own(bar: u8, memory_type: MemoryType, bytes: u64) -> Need {
    Need { part: Part::Own, bar, memory_type, align: bytes, bytes }
}

fn endpoint(parent: Option<usize>, needs: &[Need]) -> Node {
    Node { parent, bridge: None, needs: needs.to_vec() }
}

fn bridge(parent: Option<usize>, prefetchable: Prefetchable) -> Node {
    Node { parent, bridge: Some(prefetchable), needs: Vec::new() }
}

/// The addresses of each function's ranges.
fn addresses(layout: &Layout) -> Vec<Vec<u64>> {
    layout.places.iter().map(|place| place.ranges.iter().map(|placed| placed.address).collect()).collect()
}

fn in_one(nodes: &[Node], window: Range<u64>) -> Layout {
    all_in(nodes, core::slice::from_ref(&window))
}

fn all_in(nodes: &[Node], windows: &[Range<u64>]) -> Layout {
    lay_out(nodes, windows, BTreeSet::new())
}

#[test]
fn the_largest_comes_first_so_that_nothing_is_lost() {
    let sizes = [PAGE, 4 * MIB, PAGE, MIB];
    let nodes = sizes.map(|bytes| endpoint(None, &[own(0, MemoryType::Low, bytes)]));
    let layout = in_one(&nodes, 4 * MIB..9 * MIB + 2 * PAGE);
    assert!(layout.left_out.is_empty());
    let ends = [9 * MIB, 4 * MIB, 9 * MIB + PAGE, 8 * MIB];
    assert_eq!(addresses(&layout), ends.map(|address| vec![address]));
}

#[test]
fn bridge_has_a_window_only_for_what_is_behind_it() {
    let nodes = [
        bridge(None, Prefetchable::Any),
        endpoint(Some(0), &[own(0, MemoryType::Low, PAGE), own(2, MemoryType::AnyPrefetchable, 2 * MIB)]),
        bridge(None, Prefetchable::Any),
    ];
    let layout = all_in(&nodes, &[16 * MIB..64 * MIB, 8 * GIB..9 * GIB]);
    let [first, _, empty] = layout.places.as_slice() else { panic!() };
    assert_eq!(first.windows, [Some(16 * MIB..17 * MIB), Some(8 * GIB..8 * GIB + 2 * MIB)]);
    assert_eq!(empty.windows, [None, None]);
    assert_eq!(addresses(&layout)[1], [16 * MIB, 8 * GIB]);
}

#[test]
fn prefetchable_bars_go_where_all_bridges_forward() {
    let needs = [own(0, MemoryType::AnyPrefetchable, MIB), own(2, MemoryType::LowPrefetchable, MIB)];
    let windows = [16 * MIB..64 * MIB, 8 * GIB..9 * GIB];
    let windows_of = |outer, inner| {
        let nodes = [bridge(None, outer), bridge(Some(0), inner), endpoint(Some(1), &needs)];
        let layout = all_in(&nodes, &windows);
        assert!(layout.left_out.is_empty());
        let bytes = |window: &Option<Range<u64>>| window.as_ref().map_or(0, |window| (window.end - window.start) / MIB);
        [0, 1].map(|node| layout.places[node].windows.each_ref().map(bytes))
    };
    assert_eq!(windows_of(Prefetchable::Any, Prefetchable::Any), [[1, 1], [1, 1]]);
    assert_eq!(windows_of(Prefetchable::Low, Prefetchable::Any), [[1, 1], [1, 1]]);
    assert_eq!(windows_of(Prefetchable::Any, Prefetchable::Low), [[2, 0], [0, 2]]);
    assert_eq!(windows_of(Prefetchable::Absent, Prefetchable::Any), [[2, 0], [1, 1]]);
}

#[test]
fn ranges_that_may_lie_anywhere_leave_the_room_below_to_others() {
    let nodes = [endpoint(None, &[own(0, MemoryType::Any, MIB)]), endpoint(None, &[own(0, MemoryType::Low, MIB)])];
    let layout = all_in(&nodes, &[16 * MIB..17 * MIB, 4 * GIB..5 * GIB]);
    assert_eq!(addresses(&layout), [[4 * GIB], [16 * MIB]]);
    let layout = in_one(&nodes, 16 * MIB..18 * MIB);
    assert_eq!(addresses(&layout), [[16 * MIB], [17 * MIB]]);
}

#[test]
fn a_function_that_asks_for_too_much_is_left_out_alone() {
    let hog = [512, 256, 128, 64].map(|mebibytes| own(0, MemoryType::Low, mebibytes * MIB));
    let nodes = [
        endpoint(None, &[own(0, MemoryType::Low, PAGE)]),
        endpoint(None, &hog),
        bridge(None, Prefetchable::Absent),
        endpoint(Some(2), &[own(0, MemoryType::Low, 1 << 40)]),
        endpoint(Some(2), &[own(0, MemoryType::Low, 32 * MIB), own(1, MemoryType::Low, PAGE)]),
    ];
    let layout = in_one(&nodes, 1024 * MIB..1984 * MIB);
    assert_eq!(layout.left_out, BTreeSet::from([(1, Part::Own), (3, Part::Own)]));
    assert_eq!(addresses(&layout).iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 0, 0, 2]);
}

#[test]
fn a_range_above_4_gib_is_no_reason_for_want_of_room_below() {
    let nodes = [endpoint(None, &[own(0, MemoryType::Any, GIB)]), endpoint(None, &[own(0, MemoryType::Low, 2 * MIB)])];
    let layout = all_in(&nodes, &[16 * MIB..17 * MIB, 4 * GIB..6 * GIB]);
    assert_eq!(layout.left_out, BTreeSet::from([(1, Part::Own)]));
}

#[test]
fn virtual_functions_are_left_out_before_their_physical_one() {
    let virtual_part = Need { part: Part::Virtual, bar: 0, memory_type: MemoryType::Any, align: MIB, bytes: 100 * MIB };
    let nodes = [endpoint(None, &[own(0, MemoryType::Any, MIB), virtual_part])];
    let layout = in_one(&nodes, 16 * MIB..32 * MIB);
    assert_eq!(layout.left_out, BTreeSet::from([(0, Part::Virtual)]));
    assert_eq!(addresses(&layout), [[16 * MIB]]);
}

#[test]
fn sizes_beyond_all_numbers_are_left_out() {
    let endless = Need { part: Part::Own, bar: 0, memory_type: MemoryType::Any, align: 1 << 63, bytes: u64::MAX };
    let nodes = [
        bridge(None, Prefetchable::Any),
        endpoint(Some(0), &[endless, endless]),
        endpoint(None, &[endless]),
        endpoint(None, &[own(0, MemoryType::Any, PAGE)]),
    ];
    let layout = in_one(&nodes, 0..u64::MAX);
    assert_eq!(layout.left_out, BTreeSet::from([(1, Part::Own), (2, Part::Own)]));
    assert_ne!(addresses(&layout)[3], [0]);
}

fn memory_type() -> impl Strategy<Value = MemoryType> {
    prop::sample::select(vec![
        MemoryType::Low,
        MemoryType::LowPrefetchable,
        MemoryType::Any,
        MemoryType::AnyPrefetchable,
    ])
}

fn need() -> impl Strategy<Value = Need> {
    let log2 = prop_oneof![10 => 12u32..24, 3 => 24u32..32, 1 => 32u32..64];
    let count = prop_oneof![3 => Just(None), 1 => (1u64..300).prop_map(Some)];
    (0u8..6, memory_type(), log2, count).prop_map(|(bar, memory_type, log2, count)| {
        let align = 1u64 << log2;
        let part = if count.is_some() { Part::Virtual } else { Part::Own };
        Need { part, bar, memory_type, align, bytes: align.saturating_mul(count.unwrap_or(1)) }
    })
}

/// Trees of up to 40 functions, however nested.
fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let prefetchable = prop::sample::select(vec![Prefetchable::Absent, Prefetchable::Low, Prefetchable::Any]);
    let node = (any::<prop::sample::Index>(), prop::option::of(prefetchable), prop::collection::vec(need(), 0..4));
    prop::collection::vec(node, 0..40).prop_map(|drawn| {
        let mut nodes: Vec<Node> = Vec::new();
        for (place, bridge, needs) in drawn {
            let bridges = nodes.iter().enumerate().filter(|(_, node)| node.bridge.is_some());
            let mut parents: Vec<Option<usize>> = bridges.map(|(number, _)| Some(number)).collect();
            parents.push(None);
            nodes.push(Node { parent: *place.get(&parents), bridge, needs });
        }
        nodes
    })
}

/// PCI windows of a platform: disjoint, ascending, from 64 KiB on.
fn windows() -> impl Strategy<Value = Vec<Range<u64>>> {
    let low = (0u64..0x8_0000, 16u64..0x4_0000).prop_map(|(first, pages)| first * PAGE..(first + pages) * PAGE);
    let second = (0u64..0x1_0000, 1u64..0x3_0000).prop_map(|(first, pages)| {
        let start = 0xc000_0000 + first * PAGE;
        start..start + pages * PAGE
    });
    let high = (0u64..1 << 20, 1u64..1 << 30).prop_map(|(first, pages)| {
        let start = (4 << 30) + first * PAGE;
        start..start + pages * PAGE
    });
    (low, prop::option::of(second), prop::option::of(high))
        .prop_map(|(low, second, high)| [Some(low), second, high].into_iter().flatten().collect())
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

fn within(inner: &Range<u64>, outer: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// The bridges above a function, from the nearest up.
fn above(nodes: &[Node], node: usize) -> Vec<usize> {
    core::iter::successors(nodes[node].parent, |bridge| nodes[*bridge].parent).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Over random trees, sizes and windows: ranges are aligned, in the platform's windows and in those of all bridges above
    /// them, and do not overlap. Bridges' windows hold only ranges behind them; functions without a range are named; a second
    /// run has the same result.
    #[test]
    fn every_layout_is_one_that_works(nodes in nodes(), windows in windows()) {
        let layout = all_in(&nodes, &windows);
        prop_assert_eq!(&layout, &all_in(&nodes, &windows));
        let gone = |node: usize| {
            above(&nodes, node).into_iter().chain([node]).any(|one| layout.left_out.contains(&(one, Part::Own)))
        };
        // Every range that a function answers or forwards, with its owner.
        let mut ranges: Vec<(usize, Range<u64>)> = Vec::new();
        for (number, (node, place)) in nodes.iter().zip(&layout.places).enumerate() {
            let kept = |need: &&Need| !gone(number) && !layout.left_out.contains(&(number, need.part));
            prop_assert_eq!(place.ranges.len(), node.needs.iter().filter(kept).count());
            for Placed { need, address } in &place.ranges {
                let range = *address..address + need.bytes;
                prop_assert!(address % need.align == 0 && *address > 0);
                prop_assert!(windows.iter().any(|window| within(&range, window)));
                prop_assert!(matches!(need.memory_type, MemoryType::Any | MemoryType::AnyPrefetchable) || range.end <= 4 * GIB);
                for bridge in above(&nodes, number) {
                    let windows = layout.places[bridge].windows.iter().flatten();
                    prop_assert_eq!(windows.filter(|window| within(&range, window)).count(), 1);
                }
                ranges.push((number, range));
            }
            let [memory, prefetchable] = &place.windows;
            prop_assert!(memory.as_ref().is_none_or(|window| window.end <= 4 * GIB));
            let is_high = |window: &Range<u64>| window.end > 4 * GIB;
            prop_assert!(node.bridge == Some(Prefetchable::Any) || !prefetchable.as_ref().is_some_and(is_high));
            for window in place.windows.iter().flatten() {
                prop_assert!(window.start % MIB == 0 && window.end % MIB == 0 && window.start < window.end);
                prop_assert!(windows.iter().any(|outer| within(window, outer)));
            }
        }
        for (index, (_, range)) in ranges.iter().enumerate() {
            prop_assert!(ranges.iter().skip(index + 1).all(|(_, other)| !overlap(range, other)));
        }
        for (bridge, place) in layout.places.iter().enumerate() {
            for window in place.windows.iter().flatten() {
                let strangers = ranges.iter().filter(|(node, _)| !above(&nodes, *node).contains(&bridge));
                prop_assert!(strangers.into_iter().all(|(_, range)| !overlap(window, range)));
                let others = layout.places.iter().enumerate().filter(|(other, _)| {
                    *other != bridge
                        && !above(&nodes, *other).contains(&bridge)
                        && !above(&nodes, bridge).contains(other)
                });
                prop_assert!(others.flat_map(|(_, place)| place.windows.iter().flatten()).all(|other| !overlap(window, other)));
            }
            if let [Some(memory), Some(prefetchable)] = &place.windows {
                prop_assert!(!overlap(memory, prefetchable));
            }
        }
    }

    /// With room for everything four times over, nothing is left out.
    #[test]
    fn nothing_is_left_out_where_there_is_room(mut nodes in nodes()) {
        for need in nodes.iter_mut().flat_map(|node| &mut node.needs) {
            need.memory_type = MemoryType::AnyPrefetchable;
            (need.align, need.bytes) = (need.align.min(1 << 24), need.align.min(1 << 24));
        }
        for bridge in nodes.iter_mut().filter_map(|node| node.bridge.as_mut()) {
            *bridge = Prefetchable::Any;
        }
        let needed: u64 = nodes.iter().flat_map(|node| &node.needs).map(|need| need.bytes.max(MIB)).sum();
        let layout = in_one(&nodes, 4 * GIB..4 * GIB + 4 * needed + nodes.len() as u64 * 16 * MIB);
        prop_assert!(layout.left_out.is_empty());
    }
}
