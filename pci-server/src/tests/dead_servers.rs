//! Servers that die: the next incarnation silences running functions, restores BARs that were being sized, and reports the
//! drivers.

use super::bus::Device;
use super::machine::{Machine, SIZING};
use super::system::{BEHIND_BRIDGES, BEHIND_PORT, LIVENESS, ON_ROOT, RECEIVE_CPTR, System};
use pci_api::{INTERRUPTS_INTX, INTERRUPTS_MSIX, LIST, Refusal};
use pci_spec::Bdf;
use platform::{Badge, Memory as _, Message};
use std::vec::Vec;

/// The controllers, all claimed and at work, each with interrupts, two of them by messages.
fn at_work() -> System {
    let mut system = System::start();
    let claims =
        [(1, BEHIND_PORT, INTERRUPTS_MSIX), (2, ON_ROOT, INTERRUPTS_INTX), (3, BEHIND_BRIDGES, INTERRUPTS_MSIX)];
    for (driver, bdf, interrupts) in claims {
        system.claim(driver, bdf, interrupts).unwrap();
        system.work(driver).unwrap();
        assert!(system.device(bdf).is_master());
    }
    system
}

fn is_silent(device: &Device) -> bool {
    !device.is_master() && !device.interrupts_by_pin() && !device.interrupts_by_messages()
}

fn controllers(machine: &Machine) -> Vec<Device> {
    [BEHIND_PORT, ON_ROOT, BEHIND_BRIDGES].map(|bdf| machine.state().devices[&bdf].clone()).to_vec()
}

/// The BARs of every function.
fn places(machine: &Machine) -> Vec<(Bdf, Vec<u32>)> {
    let bars = |device: &Device| (0x10..0x28).step_by(4).map(|register| device.read(register)).collect();
    machine.state().devices.iter().map(|(bdf, device)| (*bdf, bars(device))).collect()
}

/// The decoding bits in the command registers of all functions, bridges among them.
fn decoding(machine: &Machine) -> Vec<u32> {
    machine.state().devices.values().map(|device| device.read(0x04) & 3).collect()
}

#[test]
fn devices_are_silent_before_the_supervisor_is_notified() {
    let mut stopped = 0;
    for writes in 0.. {
        let system = at_work();
        let done = System::successor(&system.machine, Some(writes)).is_some();
        let silent = controllers(&system.machine).iter().all(is_silent);
        let reported = core::mem::take(&mut system.machine.state_mut().signalled);
        assert!(silent || reported.is_empty(), "after {writes} writes: {reported:?}");
        if done {
            assert!(silent);
            assert_eq!(reported, [0, 1, 2].map(Badge::silenced));
            break;
        }
        stopped += 1;
    }
    assert!(stopped > 50, "{stopped}");
}

#[test]
fn server_death_during_start_leaves_every_bar_intact() {
    let whole = System::start();
    let (placed, decode) = (places(&whole.machine), decoding(&whole.machine));
    let mut misplaced = 0;
    for writes in 0.. {
        let system = at_work();
        let done = System::successor(&system.machine, Some(writes)).is_some();
        misplaced += u32::from(places(&system.machine) != placed);
        // The next one may die as early as that, and the one after it has to fix both.
        let again = System::successor(&system.machine, Some(writes % 9)).is_none();
        assert!(again, "no start has so few writes");
        let mut system = System::successor(&system.machine, None).expect("nobody stops it");
        assert_eq!(places(&system.machine), placed, "after {writes} writes");
        assert_eq!(decoding(&system.machine), decode, "after {writes} writes");
        for driver in 0..3 {
            system.set_incarnation(driver, 2);
        }
        system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
        if done {
            break;
        }
    }
    assert!(misplaced > 5, "{misplaced}");
}

/// Virtual functions that the dead server enabled are disabled, and their capabilities not read for a second.
#[test]
fn successor_waits_after_virtual_functions() {
    /// Place of the mark of enabled virtual functions in the kept page.
    const ENABLED: usize = 48;
    let machine = at_work().machine;
    let marked = |machine: &Machine| machine.state_mut().page(SIZING).load_acquire_u32(ENABLED) != Ok(0);
    machine.state_mut().page(SIZING).store_release_u32(ENABLED, 1).unwrap();
    let mut system = System::successor(&machine, None).unwrap();
    for _ in 0..3 {
        system.signal(Badge::SIGNAL | Badge::TICK);
        assert_eq!(system.ask_index(1, LIST, 0).unwrap_err(), Refusal::Busy);
        system.call_with_cap(1, Message::new(LIST), 7);
        assert!(!system.machine.state().holds(RECEIVE_CPTR));
    }
    assert!(system.signalled().is_empty() && marked(&machine), "no driver is restarted meanwhile");
    // One that dies in the middle leaves the wait to the next one.
    let mut system = System::successor(&machine, None).unwrap();
    assert!(system.signalled().is_empty());
    // A tenth of a second for resets, one for virtual functions to disappear.
    for ms in [100, 1099, 1100] {
        assert!(system.signalled().is_empty());
        system.machine.state_mut().ticks = ms;
        system.signal(Badge::SIGNAL | Badge::TICK);
    }
    assert_eq!(system.signalled(), [0, 1, 2].map(Badge::silenced));
    assert!(!marked(&machine));
    assert!(controllers(&machine).iter().all(is_silent));
    system.ask_index(1, LIST, 0).unwrap();
    assert!(
        System::successor(&machine, None).unwrap().ask_index(1, LIST, 0).is_ok(),
        "without a mark there is no wait"
    );
}

#[test]
fn drivers_that_are_alive_are_not_reported() {
    let system = System::start();
    assert!(system.signalled().is_empty());
    let mut system = System::successor(&at_work().machine, None).unwrap();
    assert_eq!(system.signalled().len(), 3);
    system.set_incarnation(0, 2);
    assert!(system.signalled().is_empty(), "it incarnations again");
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    system.set_incarnation(0, 3);
    assert_eq!(system.signalled(), [Badge::silenced(0)]);
    let another = system.machine.state_mut().page(LIVENESS + 4096);
    assert_eq!(another.load_acquire_u32(0), Ok(1), "the others wait still");
}
