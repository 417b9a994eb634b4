//! Virtual functions of the modelled PCI tree: recorded with places, or not used.

use super::bus::at;
use super::trees::{Node, Tested, WINDOW, nodes};
use crate::function::{Function, Unusable, VirtualFunctions};
use pci_spec::bar::Prefetch;
use pci_spec::sriov::{Routing, Sriov, offset};
use pci_spec::{BarKind, Bdf};
use proptest::prelude::*;
use sim_pci::Violation;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

/// The function behind the port, and the port.
const PHYSICAL: Bdf = Bdf::from_raw(0x0100);
const PORT: Bdf = Bdf::from_raw(1 << 3);
/// The model's offset of the capability.
const SRIOV: u16 = 0x120;
const BAR0: u16 = SRIOV + offset::BAR0;
const CONTROL: u16 = SRIOV + offset::CONTROL;
const NUMBER: u16 = SRIOV + offset::NUMBER;
/// Bytes of a virtual function's BAR.
const BYTES: u64 = 0x4000;
const KIND: BarKind = BarKind::Memory64(Prefetch::NonPrefetchable);

/// A controller with three virtual functions.
fn controller() -> Node {
    Node::nvme().with_virtual_functions(3, KIND, 14)
}

/// A root port, and the controller behind it.
fn behind_port() -> Tested {
    Tested::new(&[Node::Port(Some(Box::new(controller())))], vec![WINDOW])
}

/// A root port, and the controller behind it, after firmware, which gave virtual functions no addresses.
fn with_firmware() -> Tested {
    let mut tested = behind_port();
    assert!(tested.run_firmware());
    tested
}

fn physical(functions: &[Function]) -> &Function {
    functions.iter().find(|function| function.bdf == PHYSICAL).expect("a controller")
}

fn virtual_functions(functions: &[Function]) -> &VirtualFunctions {
    physical(functions).virtual_functions.as_ref().expect("virtual functions")
}

/// Reason why the virtual functions cannot be used; the physical function can.
fn unusable(functions: &[Function]) -> Option<Unusable> {
    assert_eq!(physical(functions).unusable, None);
    virtual_functions(functions).unusable
}

/// An address behind the port that is free for all three parts: the physical function has the first 16 KiB of the window.
fn room(tested: &mut Tested) -> u64 {
    physical(&tested.enumerate()).bars[0].address() + 0x1_0000
}

fn place(tested: &Tested, address: u64) {
    tested.write(PHYSICAL, BAR0, address as u32);
    tested.write(PHYSICAL, BAR0 + 4, (address >> 32) as u32);
}

#[test]
fn assigned_virtual_functions_are_recorded_beside_the_other_bars() {
    let mut tested = behind_port();
    let (functions, left_out) = tested.assign();
    assert_eq!((left_out, unusable(&functions)), (vec![], None));
    let VirtualFunctions { sriov, bars, .. } = virtual_functions(&functions);
    assert_eq!(*sriov, Sriov { offset: SRIOV, total: 3, routing: Routing { first: 1, stride: 1 }, device: 1 });
    let [bar] = bars.as_slice() else { panic!("{bars:?}") };
    assert_eq!((bar.index(), bar.kind(), bar.size()), (0, KIND, BYTES));
    let port = functions.iter().find(|function| function.bdf == PORT).and_then(|port| port.bridge).unwrap();
    assert!(port.forwards(bar.address(), 3 * BYTES));
    assert_eq!(tested.reach_virtual_functions(), 3);
}

#[test]
fn functions_without_the_capability_have_none() {
    let nodes = [Node::nvme(), Node::Port(Some(Box::new(Node::nvme())))];
    let (functions, _) = Tested::new(&nodes, vec![WINDOW]).assign();
    assert!(functions.iter().all(|function| function.virtual_functions.is_none()));
}

#[test]
fn firmware_that_places_none_leaves_the_physical_function_usable() {
    assert_eq!(unusable(&with_firmware().enumerate()), Some(Unusable::Unassigned));
}

#[test]
fn places_are_found_where_firmware_gave_none() {
    let mut tested = with_firmware();
    let mut functions = tested.enumerate();
    tested.place(&mut functions);
    assert_eq!(unusable(&functions), None);
    let address = virtual_functions(&functions).bars[0].address();
    // The first one behind the physical function's registers.
    assert_eq!(address, physical(&functions).bars[0].address() + 0x4000);
    place(&tested, address);
    assert_eq!(tested.enumerate(), functions);
    assert_eq!(tested.reach_virtual_functions(), 3);
}

#[test]
fn virtual_functions_without_room_are_not_used() {
    let large = Node::nvme().with_virtual_functions(3, KIND, 21);
    let mut tested = Tested::new(&[Node::Port(Some(Box::new(large)))], vec![WINDOW]);
    assert!(tested.run_firmware());
    let mut functions = tested.enumerate();
    tested.place(&mut functions);
    assert_eq!(unusable(&functions), Some(Unusable::Unassigned));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// In any tree that firmware configured, the places that are found are nobody else's.
    #[test]
    fn found_places_are_free(nodes in nodes(24)) {
        let mut tested = Tested::new(&nodes, vec![WINDOW]);
        if !tested.run_firmware() {
            return Ok(());
        }
        let mut functions = tested.enumerate();
        tested.place(&mut functions);
        let mut placed = 0;
        for function in &functions {
            let Some(described) = function.virtual_functions.as_ref().filter(|one| one.unusable.is_none()) else {
                continue;
            };
            for bar in &described.bars {
                let register = SRIOV + offset::BAR0 + u16::from(bar.index()) * 4;
                tested.write(function.bdf, register, bar.address() as u32);
                if bar.registers() == 2 {
                    tested.write(function.bdf, register + 4, (bar.address() >> 32) as u32);
                }
            }
            placed += usize::from(described.sriov.total);
        }
        prop_assert_eq!(tested.enumerate(), functions);
        prop_assert_eq!(tested.reach_virtual_functions(), placed);
        let overlaps = |violation: &Violation| matches!(violation, Violation::Overlap { .. });
        prop_assert!(!tested.bus.violations().iter().any(overlaps));
    }
}

#[test]
fn places_that_firmware_gave_are_kept() {
    let mut tested = with_firmware();
    let address = room(&mut tested);
    place(&tested, address);
    let functions = tested.enumerate();
    assert_eq!(unusable(&functions), None);
    assert_eq!(virtual_functions(&functions).bars[0].address(), address);
    assert_eq!(tested.reach_virtual_functions(), 3);
    assert_eq!(tested.enumerate(), functions, "the next server's start disables them");
}

#[test]
fn server_death_at_any_write_leaves_these_places() {
    let mut misplaced = 0;
    for writes in 0.. {
        let mut tested = with_firmware();
        let address = room(&mut tested);
        place(&tested, address);
        let done = tested.enumerate_until(writes);
        misplaced += u32::from(u64::from(tested.bus.read(PHYSICAL, BAR0) & !0xf) != address);
        // The next one may die as early as that.
        tested.enumerate_until(writes % 9);
        let functions = tested.enumerate();
        assert_eq!(unusable(&functions), None, "after {writes} writes");
        assert_eq!(virtual_functions(&functions).bars[0].address(), address, "after {writes} writes");
        if done {
            break;
        }
    }
    assert!(misplaced > 0);
}

#[test]
fn places_that_cannot_be_used_are_refused() {
    let mut tested = with_firmware();
    let address = room(&mut tested);
    let own = address - 0x1_0000;
    let window_end = u64::from(tested.bus.read(PORT, 0x20) & 0xfff0_0000) + 0x10_0000;
    for (address, reason) in [
        (own - 2 * BYTES, Unusable::OutsidePciWindows),
        (own, Unusable::Overlap),
        (window_end - 2 * BYTES, Unusable::NotForwarded),
        (WINDOW.end - BYTES, Unusable::OutsidePciWindows),
        (u64::MAX - BYTES + 1, Unusable::Bar),
    ] {
        place(&tested, address);
        assert_eq!(unusable(&tested.enumerate()), Some(reason), "{address:#x}");
    }
}

#[test]
fn places_over_other_functions_are_refused() {
    let nodes = [controller(), controller()];
    let mut tested = Tested::new(&nodes, vec![WINDOW]);
    assert!(tested.run_firmware());
    let places: Vec<u64> =
        tested.enumerate().iter().flat_map(|function| function.memory_bars()).map(|bar| bar.address()).collect();
    let free = places.iter().max().unwrap() + 0x10_0000;
    let [first, second] = [1, 2].map(|device| at(0, device, 0));
    let reasons = |tested: &mut Tested| -> Vec<_> {
        let functions = tested.enumerate();
        functions.iter().filter_map(|function| Some(function.virtual_functions.as_ref()?.unusable)).collect()
    };
    tested.write(first, BAR0, free as u32);
    tested.write(second, BAR0, free as u32 + 3 * BYTES as u32);
    assert_eq!(reasons(&mut tested), [None, None]);
    tested.write(second, BAR0, free as u32 + 2 * BYTES as u32);
    assert_eq!(reasons(&mut tested), [Some(Unusable::Overlap); 2]);
    tested.write(second, BAR0, places[0] as u32);
    assert_eq!(reasons(&mut tested), [None, Some(Unusable::Overlap)]);
}

#[test]
fn further_bus_is_kept_free_or_they_are_not_used() {
    // The first one is 100h routing ids further: on the next bus.
    let far = 0x0001_0100;
    let nodes = [Node::Port(Some(Box::new(controller()))), Node::Port(Some(Box::new(Node::nvme())))];
    let mut assigned = Tested::new(&nodes, vec![WINDOW]);
    assigned.bus.pretend(PHYSICAL, SRIOV + offset::ROUTING, far);
    let (functions, _) = assigned.assign();
    assert_eq!(unusable(&functions), None);
    let buses: Vec<_> =
        functions.iter().filter_map(|f| f.bridge).map(|b| (b.numbers.secondary(), b.numbers.subordinate())).collect();
    assert_eq!(buses, [(1, 2), (3, 3)]);
    let mut configured = Tested::new(&nodes, vec![WINDOW]);
    assert!(configured.run_firmware());
    let address = room(&mut configured);
    place(&configured, address);
    configured.bus.pretend(PHYSICAL, SRIOV + offset::ROUTING, far);
    assert_eq!(unusable(&configured.enumerate()), Some(Unusable::NoBus));
}

#[test]
fn buses_that_there_are_not_leave_the_physical_function() {
    for routing in [0x0001_f000, 0x7000_0001] {
        let mut tested = behind_port();
        tested.bus.pretend(PHYSICAL, SRIOV + offset::ROUTING, routing);
        let (functions, left_out) = tested.assign();
        assert_eq!(left_out, []);
        assert_eq!(unusable(&functions), Some(Unusable::NoBus), "{routing:#x}");
    }
}

#[test]
fn impossible_descriptions_leave_the_physical_function() {
    for (register, value) in [
        (offset::TOTAL, 0),
        (offset::TOTAL, 0x0003_0000),
        (offset::TOTAL, 0x0002_0003),
        (offset::ROUTING, 0x0001_0000),
        (offset::ROUTING, 0x0000_0001),
        (offset::ROUTING, 0xffff_ffff),
        (offset::SUPPORTED_PAGE_SIZES, 0),
        (offset::BAR0, 0),
        (offset::BAR0, 0xffff_ffff),
        (offset::BAR0, 0x0000_0001),
        // The capability's own header: the list becomes a loop, or leads out of the list.
        (0, 0x1000_0000),
        (0, 0x0400_0000),
    ] {
        let mut tested = behind_port();
        tested.bus.pretend(PHYSICAL, SRIOV + register, value);
        let (functions, left_out) = tested.assign();
        assert_eq!(left_out, []);
        assert_eq!(physical(&functions).unusable, None);
        assert_eq!(physical(&functions).virtual_functions, None, "{register:#x} {value:#x}");
        tested.reach(&functions);
    }
}

#[test]
fn bridge_that_renames_requests_leaves_none() {
    let mut tested = Tested::new(&[Node::Bridge(vec![controller()])], vec![WINDOW]);
    let (functions, _) = tested.assign();
    assert_eq!(unusable(&functions), Some(Unusable::SharedRequesterId));
}

#[test]
fn left_over_virtual_functions_are_gone_after_the_start() {
    let mut tested = behind_port();
    let before = tested.assign();
    assert_eq!(tested.reach_virtual_functions(), 3);
    let first = Bdf::from_raw(0x0101);
    assert_ne!(tested.bus.read(first, 8), u32::MAX);
    assert_eq!(tested.assign(), before);
    assert_eq!(tested.bus.read(first, 8), u32::MAX);
    assert_eq!((tested.bus.read(PHYSICAL, CONTROL) & 0xffff, tested.bus.read(PHYSICAL, NUMBER)), (0, 0));
    assert_eq!(tested.bus.violations(), []);
}
