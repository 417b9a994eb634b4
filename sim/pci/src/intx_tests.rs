use super::*;
use proptest::prelude::*;

struct Heard(Vec<(u8, Level)>);

impl Machine for Heard {
    fn dma_read(&mut self, _: u16, _: u64, _: &mut [u8]) -> Result<(), crate::Blocked> {
        unreachable!("lines do no DMA")
    }
    fn dma_write(&mut self, _: u16, _: u64, _: &[u8]) -> Result<(), crate::Blocked> {
        unreachable!("lines do no DMA")
    }
    fn message(&mut self, _: u16, _: u64, _: u32) {
        unreachable!("lines send no messages")
    }
    fn pin(&mut self, interrupt_line: u8, level: Level) {
        self.0.push((interrupt_line, level));
    }
}

fn q35(pin: Pin, devices: impl IntoIterator<Item = u8>) -> Option<u8> {
    route(HostBridge::Q35, pin, devices)
}

#[test]
fn on_virt_all_devices_take_turns() {
    let virt = |pin, device| route(HostBridge::Virt, pin, [device]);
    assert_eq!((virt(Pin::A, 4), virt(Pin::B, 4), virt(Pin::A, 31)), (Some(35), Some(36), Some(38)));
    assert_eq!(route(HostBridge::Virt, Pin::A, [1, 5]), virt(Pin::B, 5));
}

#[test]
fn devices_on_the_root_bus_take_turns() {
    assert_eq!(q35(Pin::A, [3]), Some(23));
    assert_eq!(q35(Pin::A, [1]), Some(21));
    assert_eq!(q35(Pin::B, [3]), Some(20));
    assert_eq!(q35(Pin::A, [31]), Some(16));
    assert_eq!(q35(Pin::D, [30]), Some(23));
}

#[test]
fn a_port_hands_its_only_devices_pin_on() {
    assert_eq!(q35(Pin::A, [0, 1]), q35(Pin::A, [1]));
    assert_eq!(q35(Pin::A, [2, 1]), q35(Pin::C, [1]));
}

#[test]
fn nobody_has_no_pin() {
    assert_eq!(q35(Pin::A, []), None);
}

#[test]
fn a_shared_line_goes_down_with_the_last() {
    let mut lines = Lines::default();
    let mut heard = Heard(Vec::new());
    for level in [Level::Asserted, Level::Asserted, Level::Deasserted, Level::Deasserted] {
        lines.change(20, level, &mut heard);
    }
    assert_eq!(heard.0, [(20, Level::Asserted), (20, Level::Deasserted)]);
}

proptest! {
    /// All swizzles together are one sum: the standard's table, applied at each bridge, gives the same.
    #[test]
    fn every_bridge_adds_its_devices_number(pin in 1u8..=4, devices in prop::collection::vec(0u8..32, 1..10)) {
        let register = Pin::from_register(pin).unwrap();
        let (top, below) = devices.split_last().unwrap();
        let sum: u32 = below.iter().map(|device| u32::from(*device)).sum::<u32>() + u32::from(pin - 1);
        let expected = interrupt_line(HostBridge::Q35, (sum % 4) as u8, *top);
        prop_assert_eq!(q35(register, devices.iter().copied()), Some(expected));
        prop_assert!((16..24).contains(&expected));
    }
}
