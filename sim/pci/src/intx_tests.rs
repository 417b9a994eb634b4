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
    fn pin(&mut self, ioapic_pin: u8, level: Level) {
        self.0.push((ioapic_pin, level));
    }
}

#[test]
fn devices_on_the_root_bus_take_turns() {
    assert_eq!(route(Pin::A, [3]), Some(23));
    assert_eq!(route(Pin::A, [1]), Some(21));
    assert_eq!(route(Pin::B, [3]), Some(20));
    assert_eq!(route(Pin::A, [31]), Some(16));
    assert_eq!(route(Pin::D, [30]), Some(23));
}

#[test]
fn a_port_hands_its_only_devices_pin_on() {
    assert_eq!(route(Pin::A, [0, 1]), route(Pin::A, [1]));
    assert_eq!(route(Pin::A, [2, 1]), route(Pin::C, [1]));
}

#[test]
fn nobody_has_no_pin() {
    assert_eq!(route(Pin::A, []), None);
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
    /// All swizzles together are one sum: the standard's table, applied at each bridge, never does anything else.
    #[test]
    fn every_bridge_adds_its_devices_number(pin in 1u8..=4, devices in prop::collection::vec(0u8..32, 1..10)) {
        let register = Pin::from_register(pin).unwrap();
        let (top, below) = devices.split_last().unwrap();
        let sum: u32 = below.iter().map(|device| u32::from(*device)).sum::<u32>() + u32::from(pin - 1);
        let expected = ioapic_pin((sum % 4) as u8, *top);
        prop_assert_eq!(route(register, devices.iter().copied()), Some(expected));
        prop_assert!((16..24).contains(&expected));
    }
}
