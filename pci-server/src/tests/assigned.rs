//! Addresses assigned over the modelled PCI tree: everything is reached, and found as after firmware.

use super::bus::at;
use super::trees::{Node, Tested, WINDOW, nodes};
use crate::assign::LeftOut;
use crate::function::{Function, Unusable};
use pci_spec::bar::Prefetch;
use pci_spec::{BarKind, Bdf};
use proptest::prelude::*;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

/// Identity, class code, and kind and size of each memory BAR of a function.
type Seen = (u16, Option<u16>, u16, u16, u32, Vec<(u8, BarKind, u64)>, Option<(u8, u8)>);

fn seen(functions: &[Function]) -> Vec<Seen> {
    let one = |function: &Function| {
        let bars = function.memory_bars().map(|bar| (bar.index(), bar.kind(), bar.size())).collect();
        let parent = function.parent().map(|parent| parent.to_raw());
        let buses = function.bridge.map(|bridge| (bridge.numbers.secondary(), bridge.numbers.subordinate()));
        (function.bdf.to_raw(), parent, function.vendor, function.device, function.class_code_bits(), bars, buses)
    };
    functions.iter().map(one).collect()
}

fn only(node: Node) -> Tested {
    Tested::new(&[node], vec![WINDOW])
}

#[test]
fn unconfigured_tree_works_like_one_with_firmware() {
    let nodes = [
        Node::Port(Some(Box::new(Node::nvme()))),
        Node::Port(None),
        Node::Bridge(vec![Node::nvme(), Node::Bridge(vec![Node::nvme()])]),
        Node::nvme(),
    ];
    let mut assigned = Tested::new(&nodes, vec![WINDOW]);
    let mut configured = Tested::new(&nodes, vec![WINDOW]);
    assert!(configured.run_firmware());
    let (functions, left_out) = assigned.assign();
    assert_eq!(left_out, []);
    assert_eq!(seen(&functions), seen(&configured.enumerate()));
    assert_eq!(functions.len(), 1 + 2 + 1 + 4 + 1);
    assigned.reach(&functions);
    assigned.reach_virtual_functions();
}

#[test]
fn unclaimed_functions_decode_nothing_but_bridges_do() {
    let mut tested = only(Node::Port(Some(Box::new(Node::nvme()))));
    let (functions, _) = tested.assign();
    let commands: Vec<u32> = functions.iter().map(|function| tested.bus.read(function.bdf, 4) & 0b111).collect();
    assert_eq!(commands, [0, 0b010, 0], "host bridge, port, controller");
}

#[test]
fn firmware_has_no_say_in_what_is_assigned() {
    let nodes = [Node::Bridge(vec![Node::nvme(), Node::nvme()]), Node::nvme()];
    let mut fresh = Tested::new(&nodes, vec![WINDOW]);
    let mut configured = Tested::new(&nodes, vec![WINDOW]);
    assert!(configured.run_firmware());
    let (functions, left_out) = configured.assign();
    assert_eq!((functions.clone(), left_out), fresh.assign());
    configured.reach(&functions);
}

#[test]
fn assigning_twice_comes_to_the_same() {
    let mut tested = only(Node::Bridge(vec![Node::nvme(), Node::nvme()]));
    let first = tested.assign();
    tested.reach(&first.0);
    assert_eq!(tested.assign(), first);
}

#[test]
fn what_finds_no_room_is_left_out_and_the_rest_works() {
    let hog = Node::endpoint(&[(BarKind::Memory64(Prefetch::NonPrefetchable), 31)]);
    let mut tested = Tested::new(&[hog, Node::Bridge(vec![Node::nvme(), Node::nvme()]), Node::nvme()], vec![WINDOW]);
    let (functions, left_out) = tested.assign();
    assert_eq!(left_out, [(functions[1].bdf, LeftOut::NoRoom)]);
    assert_eq!(functions[1].unusable, Some(Unusable::Unassigned));
    assert!(functions.iter().skip(3).all(|function| function.unusable.is_none()));
    tested.reach(&functions);
}

#[test]
fn what_lies_on_a_bus_too_many_is_left_out_and_the_rest_works() {
    let chain = (0..4).fold(Node::nvme(), |below, _| Node::Bridge(vec![below]));
    let nodes: Vec<Node> = (0..5).map(|_| chain.clone()).collect();
    let mut tested = Tested::new(&nodes, vec![WINDOW]);
    let (functions, left_out) = tested.assign();
    // Buses 1 to 15: the fourth chain's last bridge and the fifth chain's first find none.
    assert_eq!(left_out.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [LeftOut::NoBus; 2]);
    assert_eq!(functions.iter().filter(|function| function.unusable.is_none()).count(), 3);
    tested.reach(&functions);
}

#[test]
fn what_lies_too_deep_is_left_out() {
    let chain = (0..10).fold(Node::nvme(), |below, _| Node::Bridge(vec![below]));
    let (functions, left_out) = only(chain).assign();
    assert_eq!(left_out.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [LeftOut::TooDeep]);
    assert_eq!(functions.len(), 1 + 9);
}

#[test]
fn bridge_that_keeps_no_bus_numbers_is_skipped() {
    let nodes = [Node::Bridge(vec![Node::nvme()]), Node::Bridge(vec![Node::nvme()]), Node::nvme()];
    let forgetful = at(0, 1, 0);
    // Its bus numbers: nothing behind it is found. Its window: the functions found behind it are left out, too.
    for (register, behind) in [(0x18, 0), (0x20, 1)] {
        let mut tested = Tested::new(&nodes, vec![WINDOW]);
        tested.bus.freeze(forgetful, register);
        let (functions, left_out) = tested.assign();
        let reasons: Vec<LeftOut> = left_out.iter().map(|(_, reason)| *reason).collect();
        assert_eq!(reasons, [&[LeftOut::Forgets][..], &[LeftOut::Behind][..behind]].concat());
        assert_eq!(left_out[0].0, forgetful);
        assert_eq!(tested.bus.read(forgetful, 4) & 0b111, 0, "it forwards nothing");
        assert_eq!(functions.iter().filter(|function| function.unusable.is_none()).count(), 2);
        tested.reach(&functions);
    }
}

#[test]
fn an_impossible_bar_leaves_its_function_out_and_the_rest_works() {
    // The upper half of a 64-bit BAR that keeps nothing makes no size.
    let nodes = [Node::nvme(), Node::nvme()];
    let mut tested = Tested::new(&nodes, vec![WINDOW]);
    tested.bus.freeze(at(0, 1, 0), 0x14);
    let (functions, left_out) = tested.assign();
    assert_eq!(left_out, [(at(0, 1, 0), LeftOut::Bar)]);
    assert_eq!(
        functions.iter().map(|f| f.unusable).collect::<Vec<_>>(),
        [Some(Unusable::NoEndpoint), Some(Unusable::Unassigned), None]
    );
    tested.reach(&functions);
}

#[test]
fn virtual_functions_have_their_parts_of_a_range_that_is_theirs() {
    let node = Node::nvme().with_virtual_functions(7, BarKind::Memory64(Prefetch::Prefetchable), 16);
    let mut tested = only(Node::Port(Some(Box::new(node))));
    let (functions, left_out) = tested.assign();
    assert_eq!(left_out, []);
    tested.reach(&functions);
    assert_eq!(tested.reach_virtual_functions(), 7);
}

#[test]
fn virtual_functions_without_room_leave_the_physical_one() {
    let node = Node::nvme().with_virtual_functions(7, BarKind::Memory64(Prefetch::NonPrefetchable), 29);
    let mut tested = only(node);
    let (functions, left_out) = tested.assign();
    assert_eq!(left_out, []);
    assert_eq!(functions[1].unusable, None);
    tested.reach(&functions);
}

/// A server that dies while it assigns leaves a tree from which the next one gets the same result, whatever write was its
/// last.
#[test]
fn server_death_at_any_write_leaves_no_state_behind() {
    let nodes = [
        Node::Bridge(vec![Node::nvme().with_virtual_functions(3, BarKind::Memory64(Prefetch::NonPrefetchable), 14)]),
        Node::Port(Some(Box::new(Node::nvme()))),
    ];
    let whole = Tested::new(&nodes, vec![WINDOW]).assign();
    let mut stopped = 0;
    for writes in 0.. {
        let mut tested = Tested::new(&nodes, vec![WINDOW]);
        let done = tested.assign_until(writes);
        stopped += u32::from(!done);
        // The next one may die as early as that.
        tested.assign_until(writes / 2);
        assert_eq!(tested.assign(), whole, "after {writes} writes");
        tested.reach(&whole.0);
        if done {
            break;
        }
    }
    assert!(stopped > 100, "{stopped}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Over random trees with room for all: the same functions with the same registers are found as after firmware, and
    /// every page of every register is reached, virtual functions' too.
    #[test]
    fn all_of_a_random_tree_is_assigned_and_reached(nodes in nodes(22)) {
        let mut assigned = Tested::new(&nodes, vec![WINDOW]);
        let mut configured = Tested::new(&nodes, vec![WINDOW]);
        prop_assume!(configured.run_firmware());
        let (functions, left_out) = assigned.assign();
        prop_assert_eq!(left_out, []);
        prop_assert_eq!(seen(&functions), seen(&configured.enumerate()));
        prop_assert!(functions.iter().all(|f| f.unusable.is_none_or(|reason| reason == Unusable::NoEndpoint)));
        assigned.reach(&functions);
        assigned.reach_virtual_functions();
        prop_assert_eq!(assigned.bus.violations(), []);
        prop_assert_eq!(assigned.assign().0, functions);
    }

    /// Over random trees and small windows: usable functions are reached, others were left out, and no two functions answer at
    /// the same address.
    #[test]
    fn in_small_windows_what_is_not_left_out_works(
        nodes in nodes(34),
        pages in 1u64..0x4000,
        high in prop::option::of(1u64..0x10_0000),
    ) {
        let low = WINDOW.start..WINDOW.start + pages * 4096;
        let high = high.map(|pages| (8 << 30)..(8 << 30) + pages * 4096);
        let windows = [Some(low), high].into_iter().flatten().collect();
        let mut tested = Tested::new(&nodes, windows);
        let (functions, left_out) = tested.assign();
        for function in &functions {
            let is_left_out = left_out.iter().any(|(bdf, _)| *bdf == function.bdf);
            let refused = function.unusable.is_some_and(|reason| reason != Unusable::NoEndpoint);
            prop_assert_eq!(is_left_out && function.bridge.is_none(), refused, "{:?}", function);
        }
        tested.reach(&functions);
        tested.reach_virtual_functions();
        prop_assert_eq!(tested.bus.violations(), []);
        prop_assert_eq!(tested.assign(), (functions, left_out));
    }
}

#[test]
fn device_that_answers_at_all_numbers_below_a_port_is_one() {
    let nodes = [Node::Ghosts(Box::new(Node::nvme())), Node::Port(Some(Box::new(Node::nvme())))];
    let endpoints = |functions: &[Function]| {
        let below = functions.iter().filter(|function| function.bdf.bus() > 0);
        below.map(|function| function.bdf).collect::<Vec<_>>()
    };
    let one_each = [Bdf::new(1, 0, 0).unwrap(), Bdf::new(2, 0, 0).unwrap()];
    // Assigned by the server, and by firmware.
    let mut tested = Tested::new(&nodes, vec![WINDOW]);
    let (functions, left_out) = tested.assign();
    assert_eq!((endpoints(&functions), left_out.is_empty()), (one_each.to_vec(), true));
    tested.reach(&functions);
    let mut tested = Tested::new(&nodes, vec![WINDOW]);
    assert!(tested.run_firmware());
    assert_eq!(endpoints(&tested.enumerate()), one_each);
}
