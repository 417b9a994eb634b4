//! Drivers and functions that lie.

use super::bus::{Device, at};
use super::machine::Object;
use super::system::{BEHIND_PORT, DRIVER_VSPACE, RECEIVE_CPTR, System, WINDOW, config, devices, driver};
use pci_api::{CLAIM, INTERRUPTS_MSIX, LIST, Match, Refusal, START};
use pci_spec::Bdf;
use platform::{Message, Vaddr};
use std::vec;

const HERE: Bdf = Bdf::from_raw(1 << 3);

fn claim_of(device: Device) -> Result<pci_api::Claimed, Refusal> {
    let mut config = config();
    config.drivers = vec![driver("only", Match::Bdf(HERE.to_raw()), 1)];
    System::with(vec![(HERE, device)], config).claim(1, HERE, INTERRUPTS_MSIX)
}

#[test]
fn unknown_badges_get_nothing() {
    let mut system = System::start();
    for badge in [0, 4, u64::MAX] {
        assert_eq!(system.ask_index(badge, LIST, 0).unwrap_err(), Refusal::NotAllowed);
        assert_eq!(system.claim(badge, BEHIND_PORT, INTERRUPTS_MSIX), Err(Refusal::NotAllowed));
    }
}

#[test]
fn messages_that_are_no_requests_are_refused() {
    let mut system = System::start();
    for message in [
        Message::new(0),
        Message::new(8),
        Message::new(0xf_ffff),
        Message::new(LIST),
        Message::new(CLAIM),
        Message::from_words(START + 100, &[u64::MAX; 32]),
    ] {
        let answer = system.call(1, message);
        assert_eq!(Refusal::from_label(answer.label), Refusal::BadRequest);
    }
    assert_eq!(system.claim(1, BEHIND_PORT, 3), Err(Refusal::BadRequest));
}

#[test]
fn capabilities_nobody_asked_for_are_dropped() {
    let mut system = System::start();
    for badge in [1, 99] {
        for label in [LIST, START, 77] {
            system.call_with_cap(badge, Message::new(label), 7);
            assert!(!system.machine.state().holds(RECEIVE_CPTR));
        }
    }
}

#[test]
fn loop_of_capabilities_ends_and_is_refused() {
    let looping = Device::nvme(WINDOW).with(0x40, 0x0003_4011);
    assert_eq!(claim_of(looping), Err(Refusal::Unusable));
    let behind = Device::nvme(WINDOW).with(0x40, 0x0003_6011).with(0x60, 0x0000_4001);
    assert_eq!(claim_of(behind), Err(Refusal::Unusable));
}

#[test]
fn capability_pointer_into_the_header_is_refused() {
    assert_eq!(claim_of(Device::nvme(WINDOW).with(0x34, 0x10)), Err(Refusal::Unusable));
    assert_eq!(claim_of(Device::nvme(WINDOW).with(0x34, 0x42)), Err(Refusal::Unusable));
}

#[test]
fn table_outside_its_bar_is_refused() {
    let msix = |table, pending| claim_of(Device::nvme(WINDOW).msix(4, table, pending));
    assert_eq!(msix(0x4000, 0x3000), Err(Refusal::Unusable), "beyond the end");
    assert_eq!(msix(0x2000, 0x3ffc | 7), Err(Refusal::Unusable), "a BAR there cannot be");
    assert_eq!(msix(0x2000 | 2, 0x3000), Err(Refusal::Unusable), "a BAR that is not there");
    assert_eq!(msix(0xffff_fff8, 0x3000), Err(Refusal::Unusable), "at the edge of arithmetic");
    assert_eq!(msix(0x2000, 0x2020), Err(Refusal::Unusable), "over each other");
}

#[test]
fn table_in_a_page_with_registers_is_refused() {
    let msix = |table, pending| claim_of(Device::nvme(WINDOW).msix(4, table, pending));
    assert_eq!(msix(0x1800, 0x3000), Err(Refusal::Unusable));
    assert_eq!(msix(0x2000, 0x1ff8), Err(Refusal::Unusable));
    assert!(msix(0x2000, 0x2800).is_ok(), "table and PBA may share a page");
    assert!(msix(0x2800, 0x2000).is_ok());
}

#[test]
fn table_of_all_its_bar_leaves_nothing_to_map() {
    let mut config = config();
    config.drivers = vec![driver("only", Match::Bdf(HERE.to_raw()), 1)];
    let device = Device::endpoint(0x02_00_00).bar64(0, WINDOW, 0x1000).msix(4, 0, 0x800);
    let mut system = System::with(vec![(HERE, device)], config);
    assert_eq!(system.claim(1, HERE, INTERRUPTS_MSIX).unwrap().run_count, 0);
    assert!(system.mapped(DRIVER_VSPACE).is_empty());
}

#[test]
fn largest_table_is_refused_where_the_arena_has_no_room_for_it() {
    // 2048 entries are 8 pages; the server's arena of 16 is shared by three drivers.
    let big = Device::endpoint(0x02_00_00).bar64(0, WINDOW, 0x1_0000).msix(2048, 0x2000, 0xa000);
    let mut config = config();
    config.drivers[0].allowed = Match::Bdf(HERE.to_raw());
    let mut system = System::with(vec![(HERE, big.clone())], config);
    assert_eq!(system.claim(1, HERE, INTERRUPTS_MSIX), Err(Refusal::Exhausted));
    assert!(system.mapped(DRIVER_VSPACE).is_empty());
    assert!(claim_of(big).is_ok());
}

#[test]
fn functions_of_all_ones_are_none() {
    let system = System::with(vec![(HERE, Device::endpoint(0).stuck(0x00))], config());
    assert!(system.machine.state().reports.is_empty());
}

#[test]
fn function_that_vanishes_is_refused_without_harm() {
    let mut system = System::start();
    system.machine.state_mut().devices.remove(&BEHIND_PORT);
    assert_eq!(system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX), Err(Refusal::Unusable));
}

#[test]
fn function_that_vanishes_while_claimed_can_be_released() {
    let mut system = System::claimed();
    system.vector(1, 0, 7).unwrap();
    system.machine.state_mut().devices.remove(&BEHIND_PORT);
    system.ask(1, pci_api::RELEASE).unwrap();
    assert_eq!(system.passing_cptrs(), 0);
}

#[test]
fn arena_at_the_end_of_the_address_space_is_refused() {
    let mut config = config();
    config.drivers[0].arena = Vaddr::new(u64::MAX - 0xfff);
    config.drivers[0].arena_len = u64::MAX;
    let mut system = System::with(devices(), config);
    // The kernel has no such addresses.
    assert_eq!(system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX), Err(Refusal::Kernel));
    assert_eq!(system.passing_cptrs(), 0);
}

#[test]
fn drivers_that_share_a_domain_are_not_served() {
    let mut config = config();
    config.drivers[1].domain = config.drivers[0].domain;
    let system = System::with(devices(), config);
    assert!(system.ended);
    assert!(matches!(system.machine.state().reports.as_slice(), [report::Report::Failure { .. }]));
}

#[test]
fn missing_capability_is_reported_and_ends_the_server() {
    for name in ["irq-control", "io-space-master", "own-vspace", "driver-vspace", "pci-window"] {
        let system = System::without(name);
        assert!(system.ended, "{name}");
        let reports = &system.machine.state().reports;
        assert!(reports.iter().any(|report| matches!(report, report::Report::Failure { .. })), "{name}");
    }
}

#[test]
fn neighbour_is_served_after_all_that() {
    let mut system = System::start();
    system.call(1, Message::from_words(CLAIM, &[u64::MAX; 32]));
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    assert!(system.io_space(1).is_ok_and(|given| matches!(given, Object::IoSpace { .. })));
    assert_eq!(system.claim(1, at(0, 3, 0), INTERRUPTS_MSIX), Err(Refusal::Busy));
}
