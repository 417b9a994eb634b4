//! Sizing of BARs, and the choice of those that may be given away.

use super::bus::{Device, Effect, at};
use super::machine::Act;
use super::system::{System, WINDOW, config, driver};
use crate::addresses::PciWindows;
use pci_api::{INTERRUPTS_MSIX, Match, Refusal};
use pci_spec::Bdf;
use platform::Paddr;
use std::vec;
use std::vec::Vec;

const HERE: Bdf = Bdf::from_raw(1 << 3);

/// Claims the function at [`HERE`], among `others`, and returns the answer.
fn claim_among(device: Device, mut others: Vec<(Bdf, Device)>) -> Result<pci_api::Claimed, Refusal> {
    others.push((HERE, device));
    let mut config = config();
    config.drivers = vec![driver("only", Match::Bdf(HERE.to_raw()), 1)];
    System::with(others, config).claim(1, HERE, INTERRUPTS_MSIX)
}

fn claim_of(device: Device) -> Result<pci_api::Claimed, Refusal> {
    claim_among(device, Vec::new())
}

#[test]
fn sizing_leaves_bars_and_decoding_as_they_were() {
    let system = System::start();
    for (bdf, before) in super::system::devices() {
        for register in (0x10..0x28).step_by(4) {
            assert_eq!(system.device(bdf).read(register), before.read(register), "{bdf} {register:#x}");
        }
        assert_eq!(system.device(bdf).read(0x04) & 3, before.read(0x04) & 3);
    }
}

#[test]
fn bars_move_only_while_nothing_is_decoded() {
    let acts = System::start().take_acts();
    assert!(acts.iter().any(|act| matches!(act, Act::Config(_, Effect::Memory(false)))));
    assert!(!acts.iter().any(|act| matches!(act, Act::Config(_, Effect::MovedWhileDecoding))));
}

#[test]
fn bar_of_64_bits_in_the_last_place_is_refused() {
    let odd = Device::nvme(WINDOW).with(0x24, 0xc500_0004).with(0x28, 0x1234_5678);
    assert_eq!(claim_of(odd), Err(Refusal::Unusable));

    let bridge = Device::bridge([0, 1, 1], 0xc000_0000, 0xc00f_ffff).with(0x14, 0xc500_0004);
    let devices = vec![(HERE, bridge), (at(1, 0, 0), Device::nvme(WINDOW))];
    let system = System::with(devices, config());
    assert_eq!(system.device(HERE).read(0x18), 0x0001_0100);
}

#[test]
fn bar_of_all_ones_is_refused() {
    assert_eq!(claim_of(Device::nvme(WINDOW).stuck(0x10)), Err(Refusal::Unusable));
}

#[test]
fn bar_that_changes_its_type_while_it_is_sized_is_refused() {
    assert!(claim_of(Device::nvme(WINDOW).bar32(3, 0xc100_0000, 0x1000)).is_ok());
    // All of its bits can be written, those of the type, too.
    assert_eq!(claim_of(Device::nvme(WINDOW).bar32(3, 0xc100_0000, 1)), Err(Refusal::Unusable));
}

#[test]
fn bar_outside_the_windows_is_refused() {
    assert_eq!(claim_of(Device::nvme(0xfed0_0000)), Err(Refusal::Unusable));
    assert_eq!(claim_of(Device::nvme(0)), Err(Refusal::Unusable));
    assert_eq!(claim_of(Device::nvme(0xffff_ffff_ffff_c000)), Err(Refusal::Unusable));
}

#[test]
fn bar_over_anothers_is_refused() {
    let other = |address| vec![(at(0, 2, 0), Device::endpoint(0x02_00_00).bar32(0, address, 0x100))];
    assert_eq!(claim_among(Device::nvme(WINDOW), other(0xc000_3f00)), Err(Refusal::Unusable));
    assert!(claim_among(Device::nvme(WINDOW), other(0xc000_4000)).is_ok());
}

#[test]
fn bar_inside_a_page_is_refused() {
    assert_eq!(claim_of(Device::nvme(WINDOW).bar32(2, 0xc001_0800, 0x100)), Err(Refusal::Unusable));
    assert!(claim_of(Device::nvme(WINDOW).bar32(2, 0xc001_0000, 0x100)).is_ok());
}

#[test]
fn bar_that_the_bridge_above_does_not_forward_is_refused() {
    let behind = at(1, 0, 0);
    let port = Device::root_port([0, 1, 1], 0xc000_0000, 0xc00f_ffff);
    let mut config = config();
    config.drivers = vec![driver("only", Match::Bdf(behind.to_raw()), 1)];
    let devices = vec![(at(0, 1, 0), port), (behind, Device::nvme(0xc010_0000))];
    assert_eq!(System::with(devices, config).claim(1, behind, INTERRUPTS_MSIX), Err(Refusal::Unusable));
}

#[test]
fn bar_that_moved_since_it_was_sized_is_refused() {
    let mut config = config();
    config.drivers = vec![driver("only", Match::Bdf(HERE.to_raw()), 1)];
    let mut system = System::with(vec![(HERE, Device::nvme(WINDOW))], config);
    system.machine.state_mut().devices.insert(HERE, Device::nvme(WINDOW + 0x10_0000));
    assert_eq!(system.claim(1, HERE, INTERRUPTS_MSIX), Err(Refusal::Unusable));
}

#[test]
fn touching_windows_are_one() {
    let windows = PciWindows::new(&[(Paddr::new(0x3000), 12), (Paddr::new(0x2000), 12), (Paddr::new(0x6000), 12)]);
    assert!(windows.cover(&(0x2000..0x4000)));
    assert!(!windows.cover(&(0x2000..0x5000)));
    assert!(!windows.cover(&(0x5000..0x7000)));
    assert!(windows.cover(&(0x6000..0x7000)));
}
