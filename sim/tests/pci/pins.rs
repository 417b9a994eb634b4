//! Interrupt pins, from a function to the I/O APIC.

use super::machine::register;
use super::system::{System, bdf};
use pci_spec::Pin;
use pci_spec::intx::route_to_root;
use proptest::prelude::*;
use sim_pci::{BusId, BusType, FunctionConfig, Level, PortConfig};

const INTERRUPT_STATUS: u32 = 1 << 19;

fn with_pin(pin: Pin) -> FunctionConfig {
    FunctionConfig { pin: Some(pin), bus_type: BusType::Conventional, ..System::small() }
}

#[test]
fn a_function_behind_a_port_ends_where_the_port_does() {
    let (mut system, id, base) = System::placed();
    system.store(base + register::PIN, 1);
    system.store(base + register::PIN, 1);
    assert_eq!(system.above.pins, [(21, Level::Asserted)]);
    assert_eq!(system.tree.interrupt_line(id), Some(21));
    assert_ne!(system.read(bdf(1, 0, 0), 4) & INTERRUPT_STATUS, 0);
    system.store(base + register::PIN, 0);
    assert_eq!(system.above.pins[1..], [(21, Level::Deasserted)]);
    assert_eq!(system.read(bdf(1, 0, 0), 4) & INTERRUPT_STATUS, 0);
}

#[test]
fn interrupt_disable_hides_the_pin_but_not_the_status() {
    let (mut system, _, base) = System::placed();
    system.change(bdf(1, 0, 0), 4, 1 << 10, 0);
    system.store(base + register::PIN, 1);
    assert_eq!(system.above.pins, []);
    assert_ne!(system.read(bdf(1, 0, 0), 4) & INTERRUPT_STATUS, 0);
    system.change(bdf(1, 0, 0), 4, 0, 1 << 10);
    assert_eq!(system.above.pins, [(21, Level::Asserted)]);
}

#[test]
fn messages_take_the_pins_place() {
    let (mut system, _, base) = System::placed();
    system.store(base + register::PIN, 1);
    system.change(bdf(1, 0, 0), 0x40, 1 << 31, 0);
    assert_eq!(system.above.pins.last(), Some(&(21, Level::Deasserted)));
    system.change(bdf(1, 0, 0), 0x40, 0, 1 << 31);
    assert_eq!(system.above.pins.last(), Some(&(21, Level::Asserted)));
}

#[test]
fn a_function_without_power_asserts_nothing() {
    let (mut system, _, base) = System::placed();
    system.store(base + register::PIN, 1);
    system.change(bdf(1, 0, 0), 0x64, 3, 0);
    assert_eq!(system.above.pins.last(), Some(&(21, Level::Deasserted)));
    system.change(bdf(1, 0, 0), 0x64, 0, 3);
    assert_eq!(system.above.pins.last(), Some(&(21, Level::Asserted)));
}

#[test]
fn two_functions_on_a_line_keep_it_up_together() {
    let mut system = System::bare();
    let ids = [2, 6].map(|device| system.attach(BusId::ROOT, device, 0, with_pin(Pin::A)));
    system.boot();
    for (id, level) in [(0, Level::Asserted), (1, Level::Asserted), (0, Level::Deasserted), (1, Level::Deasserted)] {
        system.tree.with_device(ids[id], 0, &mut system.above, |_, function| function.pin(level)).unwrap();
    }
    assert_eq!(system.above.pins, [(22, Level::Asserted), (22, Level::Deasserted)]);
}

#[test]
fn a_pin_does_not_need_bus_master() {
    let (mut system, _, base) = System::placed();
    system.change(bdf(1, 0, 0), 4, 0, 4);
    system.store(base + register::PIN, 1);
    assert_eq!(system.above.pins, [(21, Level::Asserted)]);
}

#[test]
fn a_function_without_a_pin_asserts_nothing() {
    let (mut system, ..) = System::with_function(FunctionConfig { pin: None, ..System::small() });
    let base = system.bar0(bdf(1, 0, 0));
    system.store(base + register::PIN, 1);
    assert_eq!(system.above.pins, []);
}

proptest! {
    /// Over random trees: each bridge adds the device's number, and the root bus has the chipset's rule. The standard's
    /// own types give the same way to the root.
    #[test]
    fn the_swizzle_is_the_standards(pin in 1u8..=4, devices in prop::collection::vec(1u8..31, 1..6)) {
        let pin = Pin::from_register(pin).unwrap();
        let mut system = System::bare();
        let (last, bridges) = devices.split_last().unwrap();
        let mut bus = BusId::ROOT;
        for device in bridges {
            bus = system.tree.attach_port(bus, *device, 0, PortConfig::conventional()).unwrap();
        }
        let id = system.attach(bus, *last, 0, with_pin(pin));
        let root = route_to_root(pin, *last, bridges.iter().rev().copied());
        let sum: u32 = devices[1..].iter().map(|device| u32::from(*device)).sum::<u32>() + u32::from(pin.index());
        prop_assert_eq!(u32::from(root.pin.index()), sum % 4);
        let expected = match root.device {
            0..=24 => 20 + (u32::from(root.device) + sum) % 4,
            30 => 20 + sum % 4,
            _ => 16 + sum % 4,
        };
        prop_assert_eq!(system.tree.interrupt_line(id).map(u32::from), Some(expected));
        system.boot();
        system.tree.with_device(id, 0, &mut system.above, |_, function| function.pin(Level::Asserted)).unwrap();
        prop_assert_eq!(&system.above.pins, &[(expected as u8, Level::Asserted)]);
    }
}
