//! The tree as firmware leaves it, over written and random trees.

use super::machine::{Above, Worker};
use super::system::{System, WINDOW, bdf};
use super::walk::walk;
use pci_spec::BarKind;
use pci_spec::bar::Prefetch;
use proptest::prelude::*;
use sim_pci::{BarConfig, BusId, Endpoint, Firmware, FirmwareError, FunctionConfig, PortConfig, Tree, TreeConfig};

#[test]
fn everything_decodes_and_nobody_is_master() {
    let mut system = System::bare();
    let below = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::root_port(1)).unwrap();
    system.attach(below, 0, 0, FunctionConfig::nvme(0x2000, 4));
    system.tree.run_firmware(Firmware::Places, &mut system.above).unwrap();
    for at in [bdf(0, 1, 0), bdf(1, 0, 0)] {
        assert_eq!(system.read(at, 4) & 0b110, 0b010);
    }
    assert_eq!(system.read(bdf(0, 1, 0), 0x18), 0x0001_0100);
    assert_eq!(system.read(bdf(1, 0, 0), 0x40) >> 30, 0, "MSI-X stays off");
    assert_eq!(system.read(bdf(1, 0, 0), 0x3c) & 0xff, 11);
}

#[test]
fn without_firmware_nothing_is_placed() {
    let mut system = System::bare();
    let below = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::root_port(1)).unwrap();
    system.attach(below, 0, 0, FunctionConfig::nvme(0x2000, 4));
    assert_eq!(system.read(bdf(0, 1, 0), 0x18), 0);
    assert_eq!(system.read(bdf(1, 0, 0), 0), u32::MAX);
    assert_eq!(system.read(bdf(0, 1, 0), 4) & 7, 0);
}

#[test]
fn an_empty_slot_gets_room_for_what_may_come() {
    let mut system = System::bare();
    system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::root_port(1)).unwrap();
    system.boot();
    let window = system.read(bdf(0, 1, 0), 0x20);
    assert_eq!((window & 0xfff0_0000) - (window << 16 & 0xfff0_0000), 0x10_0000, "base and last MiB");
}

#[test]
fn what_does_not_fit_is_reported() {
    let mebibyte = WINDOW.start..WINDOW.start + 0x10_0000;
    let mut tree: Tree<Worker> = Tree::new(TreeConfig { buses: 2, windows: vec![mebibyte] });
    let below = tree.attach_port(BusId::ROOT, 1, 0, PortConfig::root_port(1)).unwrap();
    assert_eq!(tree.run_firmware(Firmware::Places, &mut Above::default()), Err(FirmwareError::NoRoom));
    tree.attach(below, 0, 0, Endpoint::new(System::small(), Worker::default())).unwrap();
    tree.attach_port(BusId::ROOT, 2, 0, PortConfig::conventional()).unwrap();
    assert_eq!(tree.run_firmware(Firmware::Places, &mut Above::default()), Err(FirmwareError::NoBus));
}

/// A node of a random tree.
#[derive(Clone, Debug)]
enum Node {
    /// An endpoint with BARs of these log2 sizes, wide ones or not.
    Endpoint(Vec<(u32, bool)>),
    Bridge(Vec<Node>),
}

fn node() -> impl Strategy<Value = Node> {
    let endpoint = prop::collection::vec((4u32..24, any::<bool>()), 0..3).prop_map(Node::Endpoint);
    endpoint.prop_recursive(3, 12, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Node::Bridge))
}

fn attach(system: &mut System, bus: BusId, nodes: &[Node], first: u8) -> usize {
    let mut count = 0;
    for (device, node) in (first..).zip(nodes) {
        count += 1;
        match node {
            Node::Bridge(below) => {
                let bus = system.tree.attach_port(bus, device, 0, PortConfig::conventional()).unwrap();
                count += attach(system, bus, below, 0);
            }
            Node::Endpoint(bars) => {
                let mut config = FunctionConfig { msix: None, bars: [None; 6], ..System::small() };
                for (place, (log2, wide)) in config.bars.iter_mut().step_by(2).zip(bars) {
                    let prefetch = Prefetch::NonPrefetchable;
                    let kind = if *wide { BarKind::Memory64(prefetch) } else { BarKind::Memory32(prefetch) };
                    *place = Some(BarConfig { kind, bytes: 1 << log2 });
                }
                system.attach(bus, device, 0, config);
            }
        }
    }
    count
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Over random trees: an enumerator finds every function, every BAR is reached at its first and last bytes, no two
    /// overlap, and no rule was broken on the way.
    #[test]
    fn all_of_a_random_tree_is_placed_and_reached(nodes in prop::collection::vec(node(), 0..4)) {
        let mut system = System::bare();
        let count = attach(&mut system, BusId::ROOT, &nodes, 1);
        system.boot();
        let seen = walk(&mut system);
        prop_assert_eq!(seen.len(), count + 1);
        let mut ranges: Vec<(u64, u64)> = seen.iter().flat_map(|seen| seen.bars.clone()).collect();
        for (address, bytes) in &ranges {
            prop_assert!(WINDOW.contains(address) && address + bytes <= WINDOW.end);
            prop_assert_eq!(system.load(*address) as u32, 0);
            prop_assert_eq!(system.load(address + bytes - 8) as u32, *bytes as u32 - 8);
        }
        ranges.sort_unstable();
        prop_assert!(ranges.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
        prop_assert_eq!(system.violations(), []);
    }
}
