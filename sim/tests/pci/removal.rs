//! Surprise removal: a function that was pulled out reads all ones and raises nothing.

use super::machine::{Worker, register};
use super::system::{System, bdf};
use proptest::prelude::*;
use sim_pci::{BusId, Endpoint, FunctionConfig, Level, PortConfig, SlotState};

#[test]
fn a_pin_that_was_up_falls_with_its_function() {
    let (mut system, _, below) = System::nvme();
    let base = system.bar0(bdf(1, 0, 0));
    system.store(base + register::PIN, 1);
    system.tree.remove(below, 1, &mut system.above);
    assert_eq!(system.above.pins, [(21, Level::Asserted), (21, Level::Deasserted)]);
}

#[test]
fn nothing_is_due_after_removal() {
    let (mut system, id, below) = System::nvme();
    let base = system.bar0(bdf(1, 0, 0));
    system.store(base + register::TIMER, 10);
    let devices = system.tree.remove(below, 1, &mut system.above);
    assert_eq!(devices.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id]);
    assert_eq!(system.tree.next_event_ns(), None);
    system.tree.advance(20, &mut system.above);
    assert!(system.tree.device(id).is_none());
    assert!(system.tree.with_device(id, 20, &mut system.above, |_, _| ()).is_none());
}

#[test]
fn a_switch_takes_along_what_is_below_it() {
    let mut system = System::bare();
    let slot = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::root_port(1)).unwrap();
    let inner = system.tree.attach_port(slot, 0, 0, PortConfig::switch_upstream()).unwrap();
    let lower = system.tree.attach_port(inner, 0, 0, PortConfig::switch_downstream(2)).unwrap();
    let id = system.attach(lower, 0, 0, System::small());
    system.boot();
    assert_eq!(system.tree.slot(slot), Some(SlotState::On));
    assert_eq!(system.read(bdf(3, 0, 0), 0), 0x0010_1b36);
    let devices = system.tree.remove(slot, 1, &mut system.above);
    assert_eq!(devices.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id]);
    for bus in 1..4 {
        assert_eq!(system.read(bdf(bus, 0, 0), 0), u32::MAX);
    }
    assert_eq!(system.tree.slot(lower), None);
    assert!(system.tree.attach(lower, 0, 0, Endpoint::new(System::small(), Worker::default())).is_err());
}

#[test]
fn what_comes_next_is_another_function() {
    let (mut system, id, below) = System::nvme();
    system.tree.remove(below, 1, &mut system.above);
    let endpoint = Endpoint::new(System::small(), Worker::default());
    let next = system.tree.insert(below, vec![endpoint], 2, &mut system.above).unwrap();
    assert_ne!(next, [id]);
    assert_eq!(system.tree.bdf(id), None);
    assert_eq!(system.read(bdf(1, 0, 0), 4) & 7, 0);
}

proptest! {
    /// For any actions of software on a function that was pulled out, reads are all ones, and nothing arrives anywhere.
    #[test]
    fn a_removed_function_is_all_ones_and_raises_nothing(
        accesses in prop::collection::vec((0u64..0x4000 / 8, any::<u64>(), 0u16..1024, any::<u32>()), 1..60),
    ) {
        let (mut system, _, below) = System::with_function(FunctionConfig::nvme(0x2000, 8));
        let at = bdf(1, 0, 0);
        let base = system.bar0(at);
        system.store(base + 0x2000, 0xfee0_0000);
        system.store(base + 0x2008, 0x30);
        system.change(at, 0x40, 1 << 31, 0);
        system.store(base + register::RAISE, 0);
        prop_assert_eq!(system.above.messages.len(), 1);
        system.tree.remove(below, 1, &mut system.above);
        for (offset, value, dword, config) in accesses {
            prop_assert_eq!(system.load(base + offset * 8), u64::MAX);
            system.store(base + offset * 8, value);
            prop_assert_eq!(system.read(at, dword * 4), u32::MAX);
            system.write(at, dword * 4, config);
        }
        prop_assert_eq!(system.above.messages.len(), 1);
        prop_assert_eq!(system.above.requesters.len(), 0);
        prop_assert_eq!(system.above.pins.len(), 0);
        prop_assert_eq!(system.violations(), []);
    }
}
