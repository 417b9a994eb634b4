//! Virtual functions at the request of the physical function's driver: the steps and their times, and the next driver.

use super::bus::Effect;
use super::machine::Act;
use super::system::{DRIVER_VSPACE, NVME_CLASS_CODE, OWN_VSPACE, System, driver};
use super::virtual_system::{
    FIRST, MSIX, NEIGHBOUR, OnTree, PHYSICAL, SECOND, SERVER, SRIOV_CONTROL, TOTAL, virtual_at, virtual_config,
};
use pci_api::{
    BAR_FRAME, INTERRUPTS, INTERRUPTS_INTX, INTERRUPTS_MSIX, IO_SPACE, LIST, Match, RELEASE, Refusal, START,
    VIRTUAL_FUNCTIONS,
};
use platform::{Badge, Message};
use sim_pci::FunctionLevelReset;
use std::vec::Vec;

/// The controller claimed and at work.
fn claimed() -> OnTree {
    let mut system = OnTree::start();
    system.run_driver(SERVER).unwrap();
    system
}

/// The controller's BARs.
fn bars(system: &OnTree) -> Vec<u32> {
    (0x10..0x28).step_by(4).map(|register| system.bus.read(PHYSICAL, register)).collect()
}

#[test]
fn reset_comes_first_and_virtual_functions_after_their_times() {
    let mut system = claimed();
    system.take_acts();
    assert_eq!(system.ask_virtual(SERVER, 2), Ok(0));
    let of_controller = |effect| Act::Config(PHYSICAL, effect);
    assert_eq!(system.take_acts(), [Effect::BusMaster(false), Effect::Reset].map(of_controller));
    for _ in 0..9 {
        system.pass(11);
        assert_eq!(system.ask_virtual(SERVER, 2), Ok(0));
        assert!(!system.is_enabled() && system.take_acts().is_empty());
    }
    system.pass(1);
    assert_eq!(system.ask_virtual(SERVER, 2), Ok(0));
    assert!(system.is_enabled());
    system.pass(99);
    assert_eq!(system.ask_virtual(SERVER, 2), Ok(0));
    system.pass(1);
    assert_eq!(system.ask_virtual(SERVER, 2), Ok(2));
    assert_eq!(system.ask_virtual(SERVER, 2), Ok(2));
}

#[test]
fn controller_is_as_before_after_its_reset() {
    let mut system = claimed();
    let table = system.mapped(OWN_VSPACE)[0];
    let (placed, entry, pages) = (bars(&system), system.entry(table), system.mapped(DRIVER_VSPACE));
    let command = system.bus.read(PHYSICAL, 0x04);
    assert_eq!(entry[3], 0, "unmasked");
    system.ask_virtual(SERVER, 2).unwrap();
    assert!(!system.is_master(PHYSICAL) && !system.has_messages(PHYSICAL));
    assert_ne!(bars(&system), placed);
    // The tick ends the reset as well.
    system.tick(100);
    assert_eq!((bars(&system), system.entry(table), system.mapped(DRIVER_VSPACE)), (placed, entry, pages));
    assert!(system.is_master(PHYSICAL) && system.has_messages(PHYSICAL));
    assert_eq!(system.bus.read(PHYSICAL, 0x04), command);
}

#[test]
fn controller_that_was_not_started_is_not_started_by_a_reset() {
    let mut system = OnTree::start();
    system.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap();
    system.enable(TOTAL);
    assert!(!system.is_master(PHYSICAL) && system.has_messages(PHYSICAL));
    system.ask(SERVER, START).unwrap();
    assert!(system.is_master(PHYSICAL));
}

#[test]
fn requests_about_a_controller_under_reset_are_refused_and_others_served() {
    let mut system = claimed();
    system.ask_virtual(SERVER, 2).unwrap();
    for label in [IO_SPACE, START, RELEASE] {
        assert_eq!(system.ask(SERVER, label).unwrap_err(), Refusal::NotReady);
    }
    for label in [BAR_FRAME, INTERRUPTS] {
        assert_eq!(system.ask_index(SERVER, label, 0).unwrap_err(), Refusal::NotReady);
    }
    assert_eq!(system.vector(SERVER, 0, 7).unwrap_err(), Refusal::NotReady);
    assert_eq!(system.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap_err(), Refusal::NotReady);
    system.ask_index(SERVER, LIST, 0).unwrap();
    system.ask_index(FIRST, LIST, 0).unwrap();
    system.tick(50);
    system.pass(50);
    system.ask(SERVER, RELEASE).unwrap();
}

#[test]
fn hostile_requests_change_nothing() {
    let mut system = claimed();
    assert_eq!(system.ask_virtual(FIRST, 1), Err(Refusal::NotClaimed));
    for number in [u64::from(TOTAL) + 1, 0xffff, 0x1_0000, u64::MAX] {
        assert_eq!(system.ask_virtual(SERVER, number), Err(Refusal::NoSuchFunction));
    }
    let empty = system.call(SERVER, Message::new(VIRTUAL_FUNCTIONS));
    assert_eq!(Refusal::from_label(empty.label), Refusal::BadRequest);
    assert!(system.is_master(PHYSICAL) && !system.is_enabled(), "no reset");
    system.enable(2);
    for (number, refusal) in [(1, Refusal::Busy), (3, Refusal::Busy), (4, Refusal::NoSuchFunction)] {
        assert_eq!(system.ask_virtual(SERVER, number), Err(refusal));
    }
    system.run_driver(FIRST).unwrap();
    for number in [0, 1, 2] {
        assert_eq!(system.ask_virtual(FIRST, number), Err(Refusal::Unusable));
    }
    assert_eq!(system.ask_virtual(SERVER, 0), Err(Refusal::Busy), "one of them is claimed");
    assert!(system.is_enabled() && system.is_master(virtual_at(0)));
}

#[test]
fn controllers_without_virtual_functions_are_refused() {
    let mut system = System::claimed();
    system.take_acts();
    for number in [1, u16::MAX.into()] {
        assert_eq!(system.ask_index(1, VIRTUAL_FUNCTIONS, number).unwrap_err(), Refusal::Unusable);
    }
    assert!(system.take_acts().is_empty());
}

#[test]
fn virtual_functions_that_were_disabled_need_a_second() {
    let mut system = OnTree::enabled(2);
    assert_eq!(system.ask_virtual(SERVER, 0), Ok(0));
    assert!(!system.is_enabled());
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap_err(), Refusal::NoSuchFunction);
    let mut waited = 0;
    while system.ask_virtual(SERVER, 3).unwrap() == 0 {
        system.pass(10);
        waited += 10;
    }
    assert_eq!(waited, 1100);
}

#[test]
fn disabling_ends_a_beginning_too() {
    let mut system = claimed();
    system.ask_virtual(SERVER, 2).unwrap();
    assert_eq!(system.ask_virtual(SERVER, 0), Ok(0));
    system.tick(100);
    assert!(system.is_master(PHYSICAL) && !system.is_enabled());
    system.pass(10_000);
    assert!(!system.is_enabled());
    system.enable(1);
}

#[test]
fn next_driver_of_the_controller_has_them_at_once() {
    let mut system = OnTree::enabled(2);
    let claimed = system.run_driver(FIRST).unwrap();
    let pages = system.mapped(DRIVER_VSPACE + 1);
    let resets = system.resets(0);
    system.set_incarnation(0, 1);
    assert!(!system.is_master(PHYSICAL) && system.is_enabled());
    assert_eq!(system.signalled(), [Badge::silenced(0)]);
    // The tenant goes on, and another one begins.
    assert!(system.is_master(virtual_at(0)));
    assert_eq!(system.send(0), Ok(()));
    assert_eq!(system.mapped(DRIVER_VSPACE + 1), pages);
    system.run_driver(SECOND).unwrap();
    system.set_incarnation(0, 2);
    system.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap();
    system.take_acts();
    assert_eq!(system.ask_virtual(SERVER, 2), Ok(2));
    assert!(system.take_acts().is_empty(), "no reset");
    assert_eq!(system.ask_virtual(SERVER, 3), Err(Refusal::Busy));
    system.ask(SERVER, RELEASE).unwrap();
    assert!(system.is_enabled() && system.is_master(virtual_at(0)) && system.has_messages(virtual_at(0)));
    assert_eq!(system.resets(0), resets);
    assert_eq!(claimed.bdf, virtual_at(0).to_raw());
}

#[test]
fn driver_that_dies_during_the_reset_is_reported_after_it() {
    let mut system = claimed();
    let placed = bars(&system);
    system.ask_virtual(SERVER, 2).unwrap();
    system.set_incarnation(0, 1);
    assert!(system.signalled().is_empty());
    system.tick(99);
    assert!(system.signalled().is_empty());
    system.take_acts();
    system.tick(1);
    assert_eq!(system.signalled(), [Badge::silenced(0)]);
    let mastered = |act: &Act| matches!(act, Act::Config(PHYSICAL, Effect::BusMaster(true)));
    assert!(!system.take_acts().iter().any(mastered), "not for a dead driver");
    system.set_incarnation(0, 2);
    assert_eq!(bars(&system), placed);
    system.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap();
    system.enable(2);
    assert!(!system.take_acts().iter().any(mastered), "the next driver has not started it");
}

#[test]
fn next_server_waits_for_a_reset_and_restores_the_bars() {
    let mut system = claimed();
    let placed = bars(&system);
    system.ask_virtual(SERVER, 2).unwrap();
    let mut next = system.successor(None).expect("nobody stops it");
    next.tick(99);
    assert_ne!(bars(&next), placed);
    next.tick(1);
    assert_eq!(bars(&next), placed);
    assert!(next.signalled().is_empty());
    next.tick(1000);
    assert_eq!(next.signalled(), [0, 1, 2, 3].map(Badge::silenced));
    assert!(!next.is_master(PHYSICAL));
}

#[test]
fn server_death_at_any_write_leaves_the_controller_as_it_was() {
    let mut died_in_reset = 0;
    for writes in 0.. {
        let mut system = claimed();
        let placed = bars(&system);
        let is_done = system.done_within(writes, |system| system.enable(2));
        died_in_reset += u32::from(bars(&system) != placed);
        // The next one may die as early as that, or while it waits.
        drop(system.successor(Some(writes % 9)));
        let mut last = system.successor(None).expect("nobody stops it");
        for _ in 0..3 {
            last.tick(1000);
        }
        assert_eq!(bars(&last), placed, "after {writes} writes");
        assert!(!last.is_enabled() && !last.is_master(PHYSICAL));
        assert_eq!(last.signalled(), [0, 1, 2, 3].map(Badge::silenced));
        last.set_incarnation(0, 2);
        last.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap();
        last.enable(2);
        if is_done {
            break;
        }
    }
    assert!(died_in_reset > 0);
}

#[test]
fn controller_that_cannot_be_reset_alone_is_used_as_it_is() {
    let mut system = OnTree::with(FunctionLevelReset::Absent, &virtual_config());
    system.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap();
    system.take_acts();
    system.enable(2);
    assert!(!system.take_acts().contains(&Act::Config(PHYSICAL, Effect::Reset)));
    // Its virtual functions have none either, which the standard requires: no tenant would find one as new.
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap_err(), Refusal::Unusable);
}

#[test]
fn controller_that_loses_its_virtual_functions_gets_them_again() {
    let mut system = OnTree::enabled(2);
    system.bus.write(PHYSICAL, SRIOV_CONTROL, 0, system.now_ns());
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap_err(), Refusal::Unusable);
    assert_eq!(system.ask_virtual(SERVER, 2), Ok(0));
    system.enable(2);
    system.run_driver(FIRST).unwrap();
}

#[test]
fn controller_whose_table_grows_by_the_reset_is_not_started_again() {
    for (vectors, count) in [(4, Ok(0)), (9, Err(Refusal::Unusable))] {
        let mut system = claimed();
        system.ask_virtual(SERVER, 2).unwrap();
        let grown = system.msix_with(PHYSICAL, vectors);
        system.bus.pretend(PHYSICAL, MSIX, grown);
        system.pass(100);
        assert_eq!(system.ask_virtual(SERVER, 2), count);
        assert_eq!(system.is_master(PHYSICAL), count.is_ok());
        system.ask(SERVER, RELEASE).unwrap();
    }
}

#[test]
fn pin_of_the_controllers_own_survives_the_reset() {
    let mut system = OnTree::start();
    system.claim(SERVER, PHYSICAL, INTERRUPTS_INTX).unwrap();
    system.vector(SERVER, 0, 7).unwrap();
    let is_pin_disabled = |system: &OnTree| system.bus.read(PHYSICAL, 0x04) & 1 << 10 != 0;
    assert!(!is_pin_disabled(&system));
    system.enable(1);
    assert!(!is_pin_disabled(&system));
}

#[test]
fn pin_that_drivers_share_is_refused() {
    let mut config = virtual_config();
    config.drivers.push(driver("neighbour", Match::Bdf(NEIGHBOUR.to_raw()), 5));
    let mut system = OnTree::with(FunctionLevelReset::Takes { ns: 100_000_000 }, &config);
    system.claim(SERVER, PHYSICAL, INTERRUPTS_INTX).unwrap();
    assert_eq!(system.ask_virtual(SERVER, 1), Err(Refusal::Unusable));
    system.ask_index(SERVER, INTERRUPTS, INTERRUPTS_MSIX.into()).unwrap();
    system.enable(1);
}
