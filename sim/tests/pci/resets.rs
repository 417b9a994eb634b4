//! Resets of a function and of a bus.

use super::machine::register;
use super::system::{System, bdf};
use pci_spec::Bdf;
use sim_pci::{FunctionConfig, FunctionLevelReset, Level, Reset, Violation};

const DEVICE_CONTROL: u16 = 0x88;
const FLR: u32 = 1 << 15;

fn at() -> Bdf {
    bdf(1, 0, 0)
}

fn taking(ns: u64) -> FunctionConfig {
    FunctionConfig { function_level_reset: FunctionLevelReset::Takes { ns }, ..FunctionConfig::nvme(0x2000, 4) }
}

#[test]
fn a_function_level_reset_leaves_a_function_as_after_power_on() {
    let (mut system, id, _) = System::with_function(taking(0));
    let base = system.bar0(at());
    system.store(base + register::DATA, 99);
    system.store(base + 0x2000, 0xfee0_0000);
    system.change(at(), 0x40, 1 << 31, 0);
    system.change(at(), DEVICE_CONTROL, FLR, 0);
    assert_eq!(system.device(id).resets, [Reset::FunctionLevel]);
    assert_eq!(system.bar0(at()), 0);
    assert_eq!(system.read(at(), 4) & 7, 0);
    assert_eq!(system.read(at(), 0x40) >> 30, 0);
    assert_eq!(system.read(at(), DEVICE_CONTROL) & FLR, 0, "reads zero");
    system.write(at(), 0x10, base as u32);
    system.write16(at(), 4, 6);
    assert_eq!(system.load(base + register::DATA), 0);
    assert_eq!(system.load(base + 0x2000), 0);
    assert_eq!(system.load(base + 0x2008), 1 << 32, "masked");
}

#[test]
fn a_reset_lets_the_pin_fall() {
    let (mut system, ..) = System::with_function(taking(0));
    let base = system.bar0(at());
    system.store(base + register::PIN, 1);
    system.change(at(), DEVICE_CONTROL, FLR, 0);
    assert_eq!(system.above.pins, [(21, Level::Asserted), (21, Level::Deasserted)]);
}

#[test]
fn a_function_that_is_being_reset_does_not_answer() {
    let (mut system, ..) = System::with_function(taking(100));
    let before = system.read(at(), DEVICE_CONTROL);
    system.now_ns = 1000;
    system.write(at(), DEVICE_CONTROL, before | FLR);
    system.now_ns = 1099;
    assert_eq!(system.read(at(), 0), u32::MAX);
    assert_eq!(system.violations(), [Violation::AccessDuringReset { register: 0 }]);
    system.now_ns = 1100;
    assert_eq!(system.read(at(), 0), 0x0010_1b36);
}

#[test]
fn a_function_without_it_ignores_the_reset() {
    let config = FunctionConfig { function_level_reset: FunctionLevelReset::Absent, ..taking(0) };
    let (mut system, id, _) = System::with_function(config);
    let base = system.bar0(at());
    assert_eq!(system.read(at(), 0x84) >> 28 & 1, 0);
    system.change(at(), DEVICE_CONTROL, FLR, 0);
    assert_eq!(system.device(id).resets, []);
    assert_eq!(system.bar0(at()), base);
}

#[test]
fn a_bridge_holds_what_is_below_in_reset() {
    let (mut system, id, _) = System::with_function(taking(0));
    let base = system.bar0(at());
    system.change(bdf(0, 1, 0), 0x3c, 1 << 22, 0);
    assert_eq!(system.device(id).resets, [Reset::Bus]);
    assert_eq!(system.read(at(), 0), u32::MAX);
    assert_eq!(system.load(base), u64::MAX);
    system.change(bdf(0, 1, 0), 0x3c, 0, 1 << 22);
    assert_eq!(system.read(at(), 0), 0x0010_1b36);
    assert_eq!(system.bar0(at()), 0);
    assert_eq!(system.device(id).resets.len(), 1);
}
