use zerocopy::IntoBytes;

use super::*;
use crate::capability::{find, id};
use crate::recorded::Recorded;

fn capability(control: u16) -> Capability {
    Capability { offset: 0x40, id: id::MSIX, control }
}

#[test]
fn capability_of_the_nvme_function_is_read() {
    let config = Recorded::nvme();
    let msix = MsixCapability::read(&config, find(&config, id::MSIX).unwrap().unwrap()).unwrap();
    assert_eq!(msix.offset, 0x40);
    assert_eq!(msix.control.entries(), 65);
    assert!(msix.control.enable());
    assert!(!msix.control.function_mask());
    assert_eq!(msix.table, Place { bar: 0, offset: 0x2000, bytes: 1040 });
    assert_eq!(msix.pending, Place { bar: 0, offset: 0x3000, bytes: 16 });
    assert_eq!(msix.table.pages(), 2..3);
    assert_eq!(msix.pending.pages(), 3..4);
    assert!(msix.table.fits(16384));
    assert!(!msix.pending.fits(0x3000));
    assert_eq!(msix.entry_offset(0), Some(0x2000));
    assert_eq!(msix.entry_offset(64), Some(0x2400));
    assert_eq!(msix.entry_offset(65), None);
}

#[test]
fn control_bits_stand_where_the_standard_puts_them() {
    assert_eq!(Control::new().with_enable(true).into_bits(), 0x8000);
    assert_eq!(Control::new().with_function_mask(true).into_bits(), 0x4000);
    assert_eq!(Control::from_bits(0x07ff).entries(), 2048);
    assert_eq!(Control::from_bits(0).entries(), 1);
}

#[test]
fn table_in_another_bar_is_reported() {
    let msix = MsixCapability::decode(capability(0x0003), 0x0000_1004, 0x0000_0002).unwrap();
    assert_eq!(msix.table, Place { bar: 4, offset: 0x1000, bytes: 64 });
    assert_eq!(msix.pending, Place { bar: 2, offset: 0, bytes: 8 });
}

#[test]
fn table_that_ends_in_the_next_page_touches_both() {
    let place = Place { bar: 0, offset: 0x0ff8, bytes: 16 };
    assert_eq!(place.pages(), 0..2);
}

#[test]
fn reserved_bars_are_refused() {
    let read = |table, pending| MsixCapability::decode(capability(0), table, pending);
    assert_eq!(read(0x2006, 0x3000), Err(MsixError::ReservedBar { bar: 6 }));
    assert_eq!(read(0x2000, 0x3007), Err(MsixError::ReservedBar { bar: 7 }));
    assert_eq!(read(u32::MAX, u32::MAX), Err(MsixError::ReservedBar { bar: 7 }));
}

#[test]
fn table_over_its_pending_bits_is_refused() {
    let read = |table, pending| MsixCapability::decode(capability(0x0040), table, pending);
    assert_eq!(read(0x2000, 0x2000), Err(MsixError::Overlap));
    assert_eq!(read(0x2000, 0x2408), Err(MsixError::Overlap));
    assert!(read(0x2000, 0x2410).is_ok());
    assert!(read(0x2000, 0x2001).is_ok());
}

#[test]
fn places_at_the_end_of_32_bits_do_not_overflow() {
    let msix = MsixCapability::decode(capability(0x07ff), 0xffff_fff8, 0x0000_0001).unwrap();
    assert_eq!(msix.table.end(), 0x1_0000_7ff8);
    assert!(!msix.table.fits(0x1_0000_0000));
    assert_eq!(msix.entry_offset(2047), Some(0x1_0000_7fe8));
}

#[test]
fn capability_at_the_end_of_configuration_space_is_refused() {
    let config = Recorded::empty();
    let capability = Capability { offset: 0xf8, id: id::MSIX, control: 0 };
    assert_eq!(MsixCapability::read(&config, capability), Err(MsixError::Truncated));
}

#[test]
fn entry_has_the_bytes_of_the_standard() {
    let message = Message { address: 0x0000_0001_fee0_1000, data: 0x31 };
    let entry = Entry::new(message, VectorControl::Masked);
    assert_eq!(entry.as_bytes(), [0x00, 0x10, 0xe0, 0xfe, 0x01, 0, 0, 0, 0x31, 0, 0, 0, 0x01, 0, 0, 0]);
    assert_eq!(entry.message(), message);
    assert!(entry.is_masked());
    assert!(!Entry::new(message, VectorControl::Unmasked).is_masked());
    assert_eq!(CONTROL_OFFSET, 12);
}
