use super::*;
use crate::capability::{find, id};
use crate::express;
use crate::recorded::Recorded;

/// A root port like QEMU's (1b36:000c) with slot 7 and a device in it that runs.
fn port() -> Recorded {
    Recorded::empty()
        .with(0x34, &[0x54])
        .with(0x54, &[0x10, 0x00, 0x42, 0x01]) // version 2, root port, slot
        .with(0x54 + 0x0c, &[0x14, 0x3d, 0x10, 0x08]) // the link reports its state
        .with(0x54 + 0x10, &[0x00, 0x00, 0x14, 0x21]) // active
        .with(0x54 + 0x14, &[0x7b, 0x00, 0x38, 0x00]) // slot 7
        .with(0x54 + 0x18, &[0xc0, 0x01, 0x48, 0x00]) // power on; present, presence changed
}

#[test]
fn a_ports_slot_is_decoded() {
    let config = port();
    let capability = find(&config, id::EXPRESS).unwrap().unwrap();
    assert!(express::Capabilities::from_bits(capability.control).slot());
    let slot = SlotCapabilities::from_bits(capability.read32(&config, SLOT_CAPABILITIES).unwrap());
    assert!(slot.button() && slot.power_controller() && slot.surprise() && slot.hot_plug());
    assert!(!slot.latch_sensor() && !slot.no_command_completed());
    assert_eq!(slot.number(), 7);
    let link = LinkCapabilities::from_bits(capability.read32(&config, LINK_CAPABILITIES).unwrap());
    assert!(link.reports_active());
    let link = capability.read32(&config, LINK_CONTROL_STATUS).unwrap();
    assert!(LinkStatus::from_bits((link >> 16) as u16).active());
    let both = capability.read32(&config, SLOT_CONTROL_STATUS).unwrap();
    let (control, status) = (SlotControl::from_bits(both as u16), SlotStatus::from_bits((both >> 16) as u16));
    assert_eq!((control.attention(), control.power(), control.power_off()), (Indicator::Off, Indicator::On, false));
    assert!(status.present() && status.presence_changed() && !status.button());
}

#[test]
fn only_events_are_written_back() {
    assert_eq!(SlotStatus::EVENTS.into_bits(), 0b1_0001_1111);
    assert_eq!(SlotStatus::from_bits(u16::MAX).events(), SlotStatus::EVENTS);
    let present = SlotStatus::new().with_present(true);
    assert_eq!(present.events(), SlotStatus::new());
    assert_eq!(present.with_button(true).events(), SlotStatus::new().with_button(true));
}

#[test]
fn a_command_keeps_the_bits_beside_its_own() {
    let control = SlotControl::from_bits(0x17ff).with_power_off(false).with_power(Indicator::Blink);
    assert_eq!(control.into_bits(), 0x12ff);
    assert_eq!(SlotControl::from_bits(0x0040).power(), Indicator::Reserved);
    assert_eq!(control.with_power_off(true).into_bits(), 0x16ff);
}

#[test]
fn the_largest_slot_number_is_read_whole() {
    let slot = SlotCapabilities::from_bits(0xffff_ffff);
    assert_eq!(slot.number(), 0x1fff);
    assert_eq!(SlotCapabilities::from_bits(0x0007_ffff).number(), 0);
}
