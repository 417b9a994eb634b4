use super::*;

#[test]
fn control_is_decoded() {
    // 64-bit address, maskable, 8 vectors possible, 2 allowed, enabled.
    let control = Control::from_bits(0x0197);
    assert!(control.enable() && control.address_64() && control.maskable());
    assert_eq!(control.vectors(), Some(8));
    assert_eq!(control.enabled(), 1);
    assert_eq!(control.data_offset(), 0x0c);
    assert_eq!(control.mask_offset(), Some(0x10));
}

#[test]
fn short_address_moves_data_and_mask_down() {
    let control = Control::from_bits(0x0100);
    assert_eq!(control.data_offset(), 0x08);
    assert_eq!(control.mask_offset(), Some(0x0c));
    assert_eq!(Control::from_bits(0x0080).mask_offset(), None);
}

#[test]
fn reserved_numbers_of_vectors_are_refused() {
    assert_eq!(Control::from_bits(0x000a).vectors(), Some(32));
    assert_eq!(Control::from_bits(0x000c).vectors(), None);
    assert_eq!(Control::from_bits(0x000e).vectors(), None);
}

#[test]
fn x86_message_names_apic_and_vector() {
    assert_eq!(Message::x86(0, 0x31), Some(Message { address: 0xfee0_0000, data: 0x31 }));
    assert_eq!(Message::x86(1, 0xff), Some(Message { address: 0xfee0_1000, data: 0xff }));
    assert_eq!(Message::x86(0xff, 0x20), Some(Message { address: 0xfeef_f000, data: 0x20 }));
    assert_eq!(Message::x86(0, 0x1f), None);
}
