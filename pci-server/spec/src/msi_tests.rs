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

/// Reads `control` as that of a capability at `offset`.
fn read(offset: u8, control: u16) -> Result<MsiCapability, MsiError> {
    let config = move |register: u8| if register == offset { u32::from(control) << 16 | 5 } else { 0 };
    MsiCapability::read(&config, Capability { offset, id: 5, control })
}

#[test]
fn capability_is_as_long_as_its_registers() {
    let bytes = [0x0000, 0x0080, 0x0100, 0x0180].map(|control| Control::from_bits(control).bytes());
    assert_eq!(bytes, [0x0c, 0x10, 0x14, 0x18], "PCI 6.8.1, figure 6-9");
    assert!(read(0xe8, 0x0180).is_ok());
    assert_eq!(read(0xec, 0x0180), Err(MsiError::BeyondSpace { offset: 0xec }));
    assert!(read(0xf4, 0x0000).is_ok());
    assert_eq!(read(0xf8, 0x0000), Err(MsiError::BeyondSpace { offset: 0xf8 }));
}

#[test]
fn capability_with_a_reserved_number_of_vectors_is_refused() {
    assert_eq!(read(0x50, 0x000a).unwrap().vectors(), 32);
    assert_eq!(read(0x50, 0x000c), Err(MsiError::Vectors { capable: 6 }));
    assert_eq!(read(0x50, 0x000e), Err(MsiError::Vectors { capable: 7 }));
}
