//! Claims of virtual functions: what a driver is given, what it may not have, and the return.

use super::bus::Effect;
use super::machine::{Act, Object};
use super::system::{DRIVER_ARENA, DRIVER_VSPACE, NVME_CLASS_CODE, OWN_VSPACE};
use super::virtual_system::{BEYOND, FIRST, MSIX, OnTree, PHYSICAL, SECOND, SERVER, TOTAL, virtual_at};
use pci_api::{BAR_FRAME, INTERRUPTS, INTERRUPTS_INTX, INTERRUPTS_MSI, INTERRUPTS_MSIX, RELEASE, Refusal, START};
use platform::Badge;
use sim_pci::{Blocked, Violation};

/// Bytes of a virtual function's BAR: two pages of registers, then those of the table and the pending bits.
const BYTES: u64 = 0x4000;

/// Address of the first virtual function's registers.
fn base(system: &OnTree) -> u64 {
    u64::from(system.bus.read(PHYSICAL, 0x144) & !0xf)
}

#[test]
fn driver_is_given_the_registers_of_its_own_part_without_the_table() {
    let mut system = OnTree::enabled(2);
    let base = base(&system);
    for (badge, number_z) in [(SECOND, 1), (FIRST, 0)] {
        let claimed = system.claim_class_code(badge, NVME_CLASS_CODE).unwrap();
        let bdf = virtual_at(number_z).to_raw();
        assert_eq!((claimed.bdf, claimed.requester_id, claimed.vectors, claimed.run_count), (bdf, bdf, 3, 1));
        let run = claimed.runs[0];
        assert_eq!((run.vaddr, run.first_page, run.pages, run.bar), (DRIVER_ARENA, 0, 2, 0));
        let first = base + u64::from(number_z) * BYTES;
        let pages = [first, first + 0x1000];
        assert_eq!(system.mapped(DRIVER_VSPACE + badge - 1), pages);
        assert!(system.mapped(OWN_VSPACE).contains(&(first + 0x2000)), "its table");
        for (index, paddr) in (0..).zip(pages) {
            system.ask_index(badge, BAR_FRAME, index).unwrap();
            assert_eq!(system.last_given(), Object::Frame { paddr, mapped: None });
        }
        assert_eq!(system.ask_index(badge, BAR_FRAME, 2).unwrap_err(), Refusal::Unusable);
        let io_space = Object::IoSpace { domain: badge as u16, requester_id: bdf };
        assert_eq!(system.io_space(badge), Ok(io_space));
    }
}

#[test]
fn vectors_are_those_of_its_own_table() {
    let mut system = OnTree::enabled(2);
    system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap();
    let table = base(&system) + 0x2000;
    assert!(system.has_messages(virtual_at(0)) && !system.has_messages(virtual_at(1)));
    assert_eq!(system.entry(table)[3], 1, "masked before it is bound");
    system.vector(FIRST, 0, 7).unwrap();
    let [address, _, _, control] = system.entry(table);
    assert_eq!((address & 0xfff0_0000, control), (0xfee0_0000, 0));
    assert_eq!(system.entry(table + 16)[3], 1);
    assert_eq!(system.vector(FIRST, 3, 7).unwrap_err(), Refusal::NoSuchVector);
}

#[test]
fn vectors_that_were_assigned_after_the_function_was_found_are_given() {
    let mut system = OnTree::start();
    system.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap();
    // One vector; the next capability is at 60h.
    system.bus.pretend(virtual_at(0), MSIX, 0x0000_6011);
    system.enable(1);
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap().vectors, 1);
    system.ask(FIRST, RELEASE).unwrap();
    system.pass(100);
    // So many that the table needs the page of the pending bits.
    let many = system.msix_with(virtual_at(0), 300);
    system.bus.pretend(virtual_at(0), MSIX, many);
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE), Err(Refusal::Unusable));
    system.bus.tell_the_truth();
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap().vectors, 3);
    assert_eq!(system.bus.violations(), []);
}

#[test]
fn virtual_functions_interrupt_by_their_tables_only() {
    let mut system = OnTree::enabled(2);
    for interrupts in [INTERRUPTS_INTX, INTERRUPTS_MSI] {
        assert_eq!(system.claim(FIRST, virtual_at(0), interrupts), Err(Refusal::Unusable));
    }
    system.claim(FIRST, virtual_at(0), INTERRUPTS_MSIX).unwrap();
    for interrupts in [INTERRUPTS_INTX, INTERRUPTS_MSI] {
        assert_eq!(system.ask_index(FIRST, INTERRUPTS, interrupts.into()).unwrap_err(), Refusal::Unusable);
    }
    system.ask_index(FIRST, INTERRUPTS, INTERRUPTS_MSIX.into()).unwrap();
    system.vector(FIRST, 1, 7).unwrap();
}

#[test]
fn nobody_has_anothers_virtual_function() {
    let mut system = OnTree::start();
    system.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap();
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap_err(), Refusal::NoSuchFunction, "not yet");
    system.ask(SERVER, RELEASE).unwrap();
    let mut system = OnTree::enabled(TOTAL);
    for (badge, bdf) in [(FIRST, virtual_at(1)), (SECOND, virtual_at(0)), (FIRST, PHYSICAL), (BEYOND, virtual_at(2))] {
        assert_eq!(system.claim(badge, bdf, INTERRUPTS_MSIX), Err(Refusal::NotAllowed));
    }
    assert_eq!(system.claim_class_code(BEYOND, NVME_CLASS_CODE).unwrap_err(), Refusal::NoSuchFunction);
    assert_eq!(system.claim(FIRST, virtual_at(7), INTERRUPTS_MSIX), Err(Refusal::NoSuchFunction));
    system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap();
    assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap_err(), Refusal::Busy);
    // The driver of the controller is allowed the first of its class, and that is not a virtual one.
    system.ask(SERVER, RELEASE).unwrap();
    for number_z in 0..TOTAL {
        assert_eq!(system.claim(SERVER, virtual_at(number_z), INTERRUPTS_MSIX), Err(Refusal::NotAllowed));
    }
    assert_eq!(system.claim_class_code(SERVER, NVME_CLASS_CODE).unwrap().bdf, PHYSICAL.to_raw());
}

#[test]
fn bus_mastering_then_messages_then_reset_then_all_returns() {
    let mut system = OnTree::enabled(2);
    let before = system.passing_cptrs();
    system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap();
    system.take_acts();
    system.vector(FIRST, 0, 7).unwrap();
    system.io_space(FIRST).unwrap();
    assert_eq!(system.send(0), Err(Blocked::NotBusMaster));
    assert!(!system.take_acts().iter().any(|act| matches!(act, Act::Config(_, Effect::BusMaster(_)))));
    system.ask(FIRST, START).unwrap();
    assert_eq!(system.take_acts(), [Act::Config(virtual_at(0), Effect::BusMaster(true))]);
    assert_eq!(system.send(0), Ok(()));

    let resets = system.resets(0);
    system.ask(FIRST, RELEASE).unwrap();
    let acts = system.take_acts();
    let of_virtual = |effect| Act::Config(virtual_at(0), effect);
    assert_eq!(acts[..3], [Effect::BusMaster(false), Effect::Msix(false), Effect::Reset].map(of_virtual));
    let at_most = |wanted: fn(&Act) -> bool| acts.iter().rposition(wanted).unwrap();
    let unmapped = at_most(|act| matches!(act, Act::Unmapped));
    let cleared = at_most(|act| matches!(act, Act::IrqCleared { .. }));
    let io_space = at_most(|act| matches!(act, Act::Deleted(Object::IoSpace { .. })));
    assert!(unmapped < cleared && cleared < io_space);
    assert_eq!(system.resets(0), resets + 1);
    assert_eq!(system.send(0), Err(Blocked::NotBusMaster));
    assert!(system.mapped(DRIVER_VSPACE + 1).is_empty());
    assert_eq!(system.passing_cptrs(), before);
    assert_eq!(system.bus.violations(), [Violation::DmaWithoutBusMaster; 2]);
}

#[test]
fn released_virtual_function_comes_back_after_its_reset() {
    let mut system = OnTree::enabled(2);
    for _ in 0..3 {
        system.run_driver(FIRST).unwrap();
        system.ask(FIRST, RELEASE).unwrap();
        for _ in 0..2 {
            assert_eq!(system.claim_class_code(FIRST, NVME_CLASS_CODE).unwrap_err(), Refusal::NotReady);
            // A neighbour is served meanwhile.
            system.run_driver(SECOND).unwrap();
            system.ask(SECOND, RELEASE).unwrap();
            system.pass(100);
            system.run_driver(FIRST).unwrap();
            system.ask(FIRST, RELEASE).unwrap();
        }
        (0..20).for_each(|_| system.tick(5));
    }
}

#[test]
fn dead_driver_is_reported_when_its_virtual_function_is_as_new() {
    let mut system = OnTree::enabled(2);
    system.run_driver(FIRST).unwrap();
    system.run_driver(SECOND).unwrap();
    let resets = system.resets(0);
    system.set_incarnation(1, 1);
    assert!(!system.is_master(virtual_at(0)) && !system.has_messages(virtual_at(0)));
    assert_eq!(system.resets(0), resets + 1);
    assert!(system.mapped(DRIVER_VSPACE + 1).is_empty());
    assert!(system.signalled().is_empty(), "its next incarnation could not claim it");
    system.tick(99);
    assert!(system.signalled().is_empty());
    system.tick(1);
    assert_eq!(system.signalled(), [Badge::silenced(1)]);
    system.tick(1);
    assert!(system.signalled().is_empty());
    system.set_incarnation(1, 2);
    system.run_driver(FIRST).unwrap();
    // The neighbour noticed nothing.
    assert!(system.is_master(virtual_at(1)) && system.has_messages(virtual_at(1)));
}

#[test]
fn server_death_takes_all_virtual_functions() {
    let mut system = OnTree::enabled(2);
    system.run_driver(FIRST).unwrap();
    system.run_driver(SECOND).unwrap();
    system.ask(SECOND, RELEASE).unwrap();
    let mut next = system.successor(None).unwrap();
    next.tick(100);
    assert!(!next.is_enabled());
    assert!(next.signalled().is_empty());
    next.tick(1000);
    assert_eq!(next.signalled(), [0, 1, 2, 3].map(Badge::silenced));
}
