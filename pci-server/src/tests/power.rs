//! A controller and the port above it that something left in D3hot.

use super::system::NVME_CLASS_CODE;
use super::virtual_system::{OnTree, PHYSICAL, SERVER};
use pci_spec::Bdf;
use pci_spec::power::RECOVERY_MS;
use sim_pci::OnWaking;
use std::vec::Vec;

/// The port.
const PORT: Bdf = Bdf::from_raw(1 << 3);
/// The model's offset of PMCSR.
const CONTROL: u16 = 0x64;

/// The registers that a reset loses, from the first BAR on: those of the controller, and buses and windows of the port.
fn places(system: &OnTree) -> Vec<u32> {
    let of = |bdf, count: u16| (0..count).map(move |number| (bdf, 0x10 + 4 * number));
    of(PHYSICAL, 6).chain(of(PORT, 9)).map(|(bdf, register)| system.bus.read(bdf, register)).collect()
}

/// Both in their places and in D0, and nothing accessed too early.
fn assert_awake(system: &OnTree, placed: &[u32], when: &str) {
    assert_eq!(places(system), placed, "{when}");
    assert_eq!([PHYSICAL, PORT].map(|bdf| system.bus.read(bdf, CONTROL) & 0b11), [0, 0], "{when}");
}

#[test]
fn functions_and_ports_in_d3hot_are_woken_in_their_places() {
    for on_waking in [OnWaking::Keeps, OnWaking::Loses] {
        let system = OnTree::start();
        let placed = places(&system);
        system.suspend(on_waking);
        let mut next = system.successor(None).unwrap();
        assert_awake(&next, &placed, "at the start");
        next.set_incarnation(0, 2);
        next.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap();
    }
}

#[test]
fn a_server_that_dies_while_it_wakes_them_leaves_the_rest_to_the_next() {
    for writes in 0.. {
        let system = OnTree::start();
        let placed = places(&system);
        system.suspend(OnWaking::Loses);
        let done = system.successor(Some(writes)).is_some();
        assert_awake(&system.successor(None).unwrap(), &placed, &std::format!("after {writes} writes"));
        if done {
            break;
        }
    }
}

#[test]
fn a_function_that_stays_asleep_is_not_waited_for() {
    let system = OnTree::start();
    system.bus.pretend(PHYSICAL, CONTROL, 3);
    let before = system.machine.state().ticks;
    let next = system.successor(None).unwrap();
    // Ticks are milliseconds here.
    assert_eq!(next.machine.state().ticks - before, RECOVERY_MS, "one attempt");
}
