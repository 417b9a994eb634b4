//! Vectors by message and by pin.

use super::bus::{Device, Effect, at};
use super::machine::{Act, Object};
use super::system::{BEHIND_BRIDGES, BEHIND_PORT, ON_ROOT, RECEIVE_CPTR, System, config, devices, driver};
use crate::intx::interrupt_line;
use pci_api::{BY_HANDLER, Bound, INTERRUPTS_INTX, INTERRUPTS_MSIX, IntxRouting, Match, RELEASE, Refusal, VECTOR};
use pci_spec::Pin;
use pci_spec::intx::RootPin;
use platform::Message;
use std::vec;
use std::vec::Vec;

const TABLE: u64 = 0xc000_2000;

fn entry(system: &System, vector: u64) -> [u32; 4] {
    let state = system.machine.state();
    let word = |offset| state.memory.get(&(TABLE + 16 * vector + offset)).copied().unwrap_or(0);
    [word(0), word(4), word(8), word(12)]
}

#[test]
fn claim_turns_messages_on_with_every_entry_masked() {
    let system = System::claimed();
    assert_eq!(system.device(BEHIND_PORT).read(0x40) >> 30, 0b10, "enabled, function not masked");
    for vector in 0..4 {
        assert_eq!(entry(&system, vector)[3], 1);
    }
    assert!(!system.device(BEHIND_PORT).interrupts_by_pin());
}

#[test]
fn entries_are_masked_before_the_function_is_unmasked() {
    let mut system = System::start();
    system.take_acts();
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    let acts = system.take_acts();
    let enabled = acts.iter().position(|act| *act == Act::Config(BEHIND_PORT, Effect::Msix(true))).unwrap();
    let masked: Vec<_> = acts[enabled + 1..].iter().filter(|act| matches!(act, Act::TableWrite { .. })).collect();
    assert_eq!(masked.len(), 4);
}

#[test]
fn vector_gets_its_message_and_is_unmasked_by_the_last_write() {
    let mut system = System::claimed();
    system.take_acts();
    system.vector(1, 1, 0x77).unwrap();
    let Object::IrqHandler { irq, pin: None } = system.last_given() else { panic!("no handler") };
    assert_eq!(entry(&system, 1), [0xfee0_0000, 0, 0x30 + u32::from(irq), 0]);
    assert_eq!(entry(&system, 0)[3], 1);
    let acts = system.take_acts();
    assert_eq!(
        acts[..2],
        [Act::IrqBound { irq, badge: 0x77 }, Act::IrqAcked { irq }],
        "of a message before it was bound"
    );
    assert_eq!(acts.last(), Some(&Act::Deleted(Object::Notification { badge: 0x77 })));
    assert_eq!(acts[acts.len() - 2], Act::TableWrite { paddr: TABLE + 16 + 12, value: 0 });
}

#[test]
fn vectors_have_interrupts_of_their_own_from_the_range_given() {
    let mut system = System::claimed();
    let irqs: Vec<_> = (0..3)
        .map(|index| {
            system.vector(1, index, 7).unwrap();
            match system.last_given() {
                Object::IrqHandler { irq, .. } => irq,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(irqs, [20, 21, 22]);
}

#[test]
fn vector_bound_again_keeps_its_interrupt() {
    let mut system = System::claimed();
    system.vector(1, 0, 7).unwrap();
    let first = system.last_given();
    system.vector(1, 0, 8).unwrap();
    assert_eq!(system.last_given(), first);
    assert!(system.take_acts().contains(&Act::IrqBound { irq: 20, badge: 8 }));
}

#[test]
fn vectors_beyond_those_of_function_and_driver_are_refused() {
    let mut system = System::claimed();
    for index in [3, 4, 0x1_0000, u64::MAX] {
        assert_eq!(system.vector(1, index, 7).unwrap_err(), Refusal::NoSuchVector);
    }
    assert!(!system.machine.state().holds(RECEIVE_CPTR));
}

#[test]
fn interrupts_that_are_used_up_are_refused_until_one_returns() {
    let mut config = config();
    config.irqs = (20, 3);
    let mut system = System::with(devices(), config);
    system.claim(1, BEHIND_PORT, INTERRUPTS_MSIX).unwrap();
    system.claim(2, ON_ROOT, INTERRUPTS_MSIX).unwrap();
    for index in 0..3 {
        system.vector(1, index, 7).unwrap();
    }
    assert_eq!(system.vector(2, 0, 8).unwrap_err(), Refusal::Exhausted);
    system.ask(1, RELEASE).unwrap();
    system.vector(2, 0, 8).unwrap();
}

#[test]
fn vector_without_a_notification_is_refused() {
    let mut system = System::claimed();
    let answer = system.call(1, Message::with(VECTOR, &pci_api::Index(0)));
    assert_eq!(Refusal::from_label(answer.label), Refusal::BadRequest);
}

#[test]
fn pin_is_let_through_after_it_is_bound_and_acknowledged() {
    let mut system = System::start();
    let claimed = system.claim(1, BEHIND_PORT, INTERRUPTS_INTX).unwrap();
    assert_eq!(claimed.vectors, 1);
    assert!(!system.device(BEHIND_PORT).interrupts_by_pin());
    system.take_acts();
    let answer = system.vector(1, 0, 7).unwrap();
    assert_eq!(answer.payload(), Ok(Bound { by: BY_HANDLER }));
    // Pin A of device 0 behind a port that is device 2 on the root bus.
    assert_eq!(system.last_given(), Object::IrqHandler { irq: 20, pin: Some(22) });
    assert_eq!(system.take_acts()[..2], [Act::IrqBound { irq: 20, badge: 7 }, Act::IrqAcked { irq: 20 }]);
    assert!(system.device(BEHIND_PORT).interrupts_by_pin());
    assert_eq!(system.device(BEHIND_PORT).read(0x40) >> 31, 0, "no messages");
    system.ask(1, RELEASE).unwrap();
    assert!(!system.device(BEHIND_PORT).interrupts_by_pin());
}

#[test]
fn pin_behind_bridges_is_swizzled_at_each() {
    let mut config = config();
    // The neighbour whose pin ends there too belongs to no driver.
    config.drivers[1].allowed = Match::Bdf(BEHIND_BRIDGES.to_raw());
    let mut system = System::with(devices(), config);
    system.claim(3, BEHIND_BRIDGES, INTERRUPTS_INTX).unwrap();
    system.vector(3, 0, 7).unwrap();
    // Pin B of device 1, pin C of the lower bridge's device 1, pin D of device 4 on the root bus: 20 + (4 + 3) % 4.
    assert_eq!(system.last_given(), Object::IrqHandler { irq: 20, pin: Some(23) });
}

#[test]
fn function_without_pin_or_without_messages_cannot_have_them() {
    let here = at(0, 1, 0);
    let claim = |device: Device, interrupts| {
        let mut config = config();
        config.drivers = vec![driver("only", Match::Bdf(here.to_raw()), 1)];
        System::with(vec![(here, device)], config).claim(1, here, interrupts)
    };
    let plain = Device::endpoint(0x02_00_00).bar32(0, 0xc000_0000, 0x1000);
    assert_eq!(claim(plain.clone(), INTERRUPTS_MSIX), Err(Refusal::Unusable));
    assert_eq!(claim(plain.clone(), INTERRUPTS_INTX), Err(Refusal::Unusable));
    assert_eq!(claim(plain.clone().pin(9), INTERRUPTS_INTX), Err(Refusal::Unusable));
    assert!(claim(plain.pin(4), INTERRUPTS_INTX).is_ok());
}

#[test]
fn q35_routes_root_pins_as_its_chipset_does() {
    let pin = |device, pin| interrupt_line(IntxRouting::Q35, RootPin { device, pin });
    assert_eq!([pin(0, Pin::A), pin(1, Pin::A), pin(3, Pin::A), pin(3, Pin::B)], [20, 21, 23, 20]);
    assert_eq!([pin(24, Pin::D), pin(25, Pin::A), pin(31, Pin::D)], [23, 16, 19]);
    assert_eq!([pin(30, Pin::A), pin(30, Pin::D)], [20, 23]);
}

#[test]
fn virt_routes_root_pins_to_four_lines_in_turn() {
    let line = |device, pin| interrupt_line(IntxRouting::Virt, RootPin { device, pin });
    assert_eq!([line(0, Pin::A), line(0, Pin::B), line(0, Pin::C), line(0, Pin::D)], [35, 36, 37, 38]);
    assert_eq!([line(1, Pin::A), line(2, Pin::A), line(3, Pin::A), line(4, Pin::A)], [36, 37, 38, 35]);
    assert_eq!([line(3, Pin::B), line(31, Pin::A), line(31, Pin::D)], [35, 38, 37]);
}
