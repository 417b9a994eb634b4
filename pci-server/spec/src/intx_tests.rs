use std::string::ToString;

use super::*;

/// The bridge specification's table: the pins for INTA to INTD, by the device number modulo 4.
const TABLE: [[Pin; 4]; 4] = [
    [Pin::A, Pin::B, Pin::C, Pin::D],
    [Pin::B, Pin::C, Pin::D, Pin::A],
    [Pin::C, Pin::D, Pin::A, Pin::B],
    [Pin::D, Pin::A, Pin::B, Pin::C],
];

const PINS: [Pin; 4] = [Pin::A, Pin::B, Pin::C, Pin::D];

#[test]
fn swizzle_is_the_table_of_the_bridge_specification() {
    for device in 0..32 {
        for (index, pin) in PINS.into_iter().enumerate() {
            assert_eq!(swizzle(pin, device), TABLE[usize::from(device % 4)][index], "device {device} {pin}");
        }
    }
    // A device number out of range is no reason to panic.
    assert_eq!(swizzle(Pin::D, 0xff), Pin::C);
}

#[test]
fn function_on_the_root_bus_keeps_its_pin() {
    assert_eq!(route_to_root(Pin::C, 3, []), RootPin { device: 3, pin: Pin::C });
}

#[test]
fn function_below_a_root_port_keeps_its_pin_too() {
    // Below a root port there is device 0 alone.
    assert_eq!(route_to_root(Pin::A, 0, [4]), RootPin { device: 4, pin: Pin::A });
}

#[test]
fn pins_turn_at_every_bridge_on_the_way() {
    // INTA of device 2 is INTC at its bridge, which is device 3 on its bus: INTB at the next, device 5 on the root bus.
    assert_eq!(route_to_root(Pin::A, 2, [3, 5]), RootPin { device: 5, pin: Pin::B });
}

#[test]
fn pin_register_counts_from_one() {
    assert_eq!(Pin::from_register(0), None);
    assert_eq!(Pin::from_register(1), Some(Pin::A));
    assert_eq!(Pin::from_register(4), Some(Pin::D));
    assert_eq!(Pin::from_register(5), None);
    assert_eq!(Pin::B.to_string(), "INTB");
}
