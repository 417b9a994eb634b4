//! Bridges: bus numbers, bridge windows, and the requester ids of requests above them.

use super::machine::register;
use super::system::{System, WINDOW, bdf};
use super::walk::walk;
use pci_spec::bridge::{BridgeKind, BusNumbers, MemoryWindow, requester_id};
use pci_spec::express::PortType;
use proptest::prelude::*;
use sim_pci::{BusId, BusType, FunctionConfig, PortConfig, Violation};

const MIB: u64 = 1 << 20;

fn conventional() -> FunctionConfig {
    FunctionConfig { bus_type: BusType::Conventional, ..System::small() }
}

#[test]
fn a_bus_without_a_number_does_not_answer() {
    let mut system = System::bare();
    let below = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::conventional()).unwrap();
    system.attach(below, 3, 0, conventional());
    assert_eq!(walk(&mut system).len(), 2);
    system.write(bdf(0, 1, 0), 0x18, 0x0007_0700);
    assert_eq!(system.read(bdf(7, 3, 0), 0), 0x0010_1b36);
    assert_eq!(system.read(bdf(1, 3, 0), 0), u32::MAX);
    assert_eq!(system.read(bdf(7, 2, 0), 0), u32::MAX);
}

#[test]
fn buses_outside_those_of_the_bridge_above_are_not_reached() {
    let mut system = System::bare();
    let upper = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::conventional()).unwrap();
    let lower = system.tree.attach_port(upper, 0, 0, PortConfig::conventional()).unwrap();
    system.attach(lower, 0, 0, conventional());
    system.write(bdf(0, 1, 0), 0x18, 0x0001_0100);
    system.write(bdf(1, 0, 0), 0x18, 0x0002_0201);
    assert_eq!(system.read(bdf(2, 0, 0), 0), u32::MAX);
    system.write(bdf(0, 1, 0), 0x18, 0x0002_0100);
    assert_eq!(system.read(bdf(2, 0, 0), 0), 0x0010_1b36);
}

#[test]
fn a_bus_that_two_bridges_claim_is_recorded_when_it_is_accessed() {
    let mut system = System::bare();
    for device in [1, 2] {
        let below = system.tree.attach_port(BusId::ROOT, device, 0, PortConfig::conventional()).unwrap();
        system.attach(below, 0, 0, conventional());
        system.write(bdf(0, device, 0), 0x18, 0x0003_0300);
    }
    assert_eq!(system.violations(), []);
    system.read(bdf(3, 0, 0), 0);
    assert_eq!(system.violations(), [Violation::AmbiguousBus { bus: 3 }]);
}

#[test]
fn it_is_recorded_deeper_down_too() {
    let mut system = System::bare();
    let upper = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::conventional()).unwrap();
    let lower = system.tree.attach_port(upper, 0, 0, PortConfig::conventional()).unwrap();
    system.attach(lower, 0, 0, conventional());
    system.tree.attach_port(BusId::ROOT, 2, 0, PortConfig::conventional()).unwrap();
    system.write(bdf(0, 1, 0), 0x18, 0x0002_0100);
    system.write(bdf(1, 0, 0), 0x18, 0x0002_0201);
    system.write(bdf(0, 2, 0), 0x18, 0x0002_0200);
    assert_eq!(system.read(bdf(2, 0, 0), 0), 0x0010_1b36);
    assert_eq!(system.violations(), [Violation::AmbiguousBus { bus: 2 }]);
}

#[test]
fn a_bridge_cannot_take_the_bus_it_hangs_from() {
    let mut system = System::bare();
    let upper = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::conventional()).unwrap();
    system.tree.attach_port(upper, 0, 0, PortConfig::conventional()).unwrap();
    system.write(bdf(0, 1, 0), 0x18, 0x0002_0100);
    system.write(bdf(1, 0, 0), 0x18, 0x0001_0101);
    assert_eq!(system.read(bdf(1, 0, 0), 0), 0x0001_1b36);
}

#[test]
fn a_link_has_one_device_at_its_end_unless_ari_is_forwarded() {
    let mut system = System::bare();
    let below = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::root_port(1)).unwrap();
    system.attach(below, 0, 0, System::small());
    system.attach(below, 1, 0, System::small());
    system.boot();
    assert_eq!(system.read(bdf(1, 1, 0), 0), u32::MAX);
    system.write(bdf(0, 1, 0), 0xa8, 1 << 5);
    assert_eq!(system.read(bdf(1, 1, 0), 0), 0x0010_1b36);
}

#[test]
fn a_bridge_that_does_not_decode_forwards_nothing() {
    let (mut system, _, base) = System::placed();
    assert_eq!(system.load(base), 0);
    system.change(bdf(0, 1, 0), 4, 0, 2);
    assert_eq!(system.load(base), u64::MAX);
}

#[test]
fn a_closed_window_forwards_nothing() {
    let (mut system, _, base) = System::placed();
    system.write(bdf(0, 1, 0), 0x20, pci_spec::bridge::CLOSED);
    assert_eq!(system.load(base), u64::MAX);
}

#[test]
fn the_prefetchable_window_forwards_too() {
    let (mut system, _, base) = System::placed();
    let memory = system.read(bdf(0, 1, 0), 0x20);
    system.write(bdf(0, 1, 0), 0x20, pci_spec::bridge::CLOSED);
    system.write(bdf(0, 1, 0), 0x24, memory);
    assert_eq!(system.load(base), 0);
    system.write(bdf(0, 1, 0), 0x28, 1);
    system.write(bdf(0, 1, 0), 0x2c, 1);
    assert_eq!(system.load(base), u64::MAX, "4 GiB further up");
}

#[test]
fn a_window_over_a_neighbours_bar_is_recorded() {
    let (mut system, ..) = System::nvme();
    let window = system.read(bdf(0, 1, 0), 0x20);
    system.attach(BusId::ROOT, 2, 0, System::small());
    system.write(bdf(0, 2, 0), 0x10, window << 16 & 0xfff0_0000);
    system.write16(bdf(0, 2, 0), 4, 2);
    let found = system.violations();
    assert!(matches!(found[..], [Violation::Overlap { .. }]), "{found:?}");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Root,
    Upstream,
    Downstream,
    ToPci,
    Conventional,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let below = prop_oneof![Just(Step::Upstream), Just(Step::Downstream), Just(Step::ToPci), Just(Step::Conventional)];
    (prop_oneof![Just(Step::Root), Just(Step::Conventional)], prop::collection::vec(below, 0..5))
        .prop_map(|(first, rest)| std::iter::once(first).chain(rest).collect())
}

fn port(step: Step) -> (PortConfig, Option<PortType>) {
    match step {
        Step::Root => (PortConfig::root_port(1), Some(PortType::RootPort)),
        Step::Upstream => (PortConfig::switch_upstream(), Some(PortType::SwitchUpstream)),
        Step::Downstream => (PortConfig::switch_downstream(2), Some(PortType::SwitchDownstream)),
        Step::ToPci => (PortConfig::express_to_pci(), Some(PortType::ExpressToPci)),
        Step::Conventional => (PortConfig::conventional(), None),
    }
}

proptest! {
    /// The requester id at the root is that of the topmost bridge which renames, or the function's own.
    #[test]
    fn requesters_are_named_as_the_standards_say(steps in steps()) {
        let mut system = System::bare();
        let mut bus = BusId::ROOT;
        let mut kinds = Vec::new();
        for (above, step) in (0u8..).zip(&steps) {
            let (config, port_type) = port(*step);
            let device = u8::from(above == 0);
            bus = system.tree.attach_port(bus, device, 0, config).unwrap();
            let bridge = bdf(above, device, 0);
            let numbers = BusNumbers::new().with_primary(above).with_secondary(above + 1).with_subordinate(15);
            kinds.insert(0, BridgeKind::new(bridge, numbers, port_type));
        }
        let id = system.attach(bus, 0, 0, System::small());
        system.boot();
        let at = bdf(steps.len() as u8, 0, 0);
        let expected = requester_id(&kinds, at).to_raw();
        prop_assert_eq!(system.tree.requester_id(id), Some(expected));
        let base = system.bar0(at);
        system.store(base + register::DMA_WRITE, 0x1000);
        prop_assert_eq!(&system.above.requesters, &[expected]);
    }

    /// An address reaches a BAR exactly when it is in it and in a window of every bridge above.
    #[test]
    fn every_bridge_above_must_forward(
        windows in prop::collection::vec((0u64..8, 1u64..8), 1..4),
        probes in prop::collection::vec(0u64..8 * MIB / 8, 30),
    ) {
        let mut system = System::bare();
        let mut bus = BusId::ROOT;
        for (above, (base, len)) in (0u8..).zip(&windows) {
            let device = u8::from(above == 0);
            bus = system.tree.attach_port(bus, device, 0, PortConfig::conventional()).unwrap();
            let bridge = bdf(above, device, 0);
            system.write(bridge, 0x18, u32::from_le_bytes([above, above + 1, 15, 0]));
            let window = MemoryWindow::new(WINDOW.start + base * MIB, len * MIB).unwrap();
            system.write(bridge, 0x20, window.to_memory().unwrap());
            system.write(bridge, 0x24, pci_spec::bridge::CLOSED);
            system.write16(bridge, 4, 2);
        }
        let mut config = conventional();
        config.bars[0] = config.bars[0].map(|bar| sim_pci::BarConfig { bytes: 8 * MIB, ..bar });
        system.attach(bus, 0, 0, config);
        let at = bdf(windows.len() as u8, 0, 0);
        system.write(at, 0x10, WINDOW.start as u32);
        system.write16(at, 4, 2);
        for probe in probes {
            let offset = probe * 8;
            let reached = windows.iter().all(|(base, len)| (base * MIB..(base + len) * MIB).contains(&offset));
            let expected = if reached && offset != register::DATA { offset } else if reached { 0 } else { u64::MAX };
            prop_assert_eq!(system.load(WINDOW.start + offset), expected);
        }
    }
}
