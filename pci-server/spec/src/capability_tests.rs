use std::vec::Vec;

use super::*;
use crate::recorded::Recorded;

#[test]
fn nvme_function_has_three_capabilities() {
    let config = Recorded::nvme();
    let found: Vec<_> = walk(&config).map(Result::unwrap).collect();
    let expected = [
        Capability { offset: 0x40, id: id::MSIX, control: 0x8040 },
        Capability { offset: 0x80, id: id::EXPRESS, control: 0x0002 },
        Capability { offset: 0x60, id: id::POWER_MANAGEMENT, control: 0x0003 },
    ];
    assert_eq!(found, expected);
    assert_eq!(find(&config, id::EXPRESS), Ok(Some(expected[1])));
    assert_eq!(find(&config, id::MSI), Ok(None));
    assert_eq!(expected[0].read32(&config, 4), Some(0x2000));
    assert_eq!(expected[0].read32(&config, 5), None);
    assert_eq!(expected[0].read32(&config, 0xc0), None);
}

#[test]
fn closure_is_configuration_space_enough() {
    let zeroes = |_offset: u8| 0;
    assert_eq!(walk(&zeroes).count(), 0);
}

#[test]
fn list_is_not_polled_without_the_status_bit() {
    let config = Recorded::nvme().with(0x06, &[0, 0]);
    assert_eq!(walk(&config).count(), 0);
}

#[test]
fn capability_that_points_to_itself_ends_the_walk() {
    let config = Recorded::empty().with(0x34, &[0x40]).with(0x40, &[0x05, 0x40]);
    let found: Vec<_> = walk(&config).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(found[1], Err(CapabilityError::Loop { pointer: 0x40 }));
    assert_eq!(find(&config, id::MSIX), Err(CapabilityError::Loop { pointer: 0x40 }));
}

#[test]
fn longer_loop_ends_the_walk() {
    let config = Recorded::nvme().with(0x61, &[0x80]);
    assert_eq!(walk(&config).last(), Some(Err(CapabilityError::Loop { pointer: 0x80 })));
}

#[test]
fn pointer_into_the_header_is_refused() {
    let config = Recorded::nvme().with(0x81, &[0x10]);
    let found: Vec<_> = walk(&config).collect();
    assert_eq!(found.len(), 3);
    assert_eq!(found[2], Err(CapabilityError::OutOfRange { pointer: 0x10 }));
    let config = Recorded::nvme().with(0x34, &[0x3c]);
    assert_eq!(walk(&config).next(), Some(Err(CapabilityError::OutOfRange { pointer: 0x3c })));
}

#[test]
fn misaligned_pointer_is_refused() {
    let config = Recorded::nvme().with(0x34, &[0x41]);
    assert_eq!(walk(&config).next(), Some(Err(CapabilityError::Misaligned { pointer: 0x41 })));
}

#[test]
fn list_of_more_than_the_limit_is_refused() {
    let mut config = Recorded::empty().with(0x34, &[0x40]);
    for offset in (0x40..0xfc).step_by(4) {
        config = config.with(offset, &[id::VENDOR, offset as u8 + 4]);
    }
    let found: Vec<_> = walk(&config).collect();
    assert_eq!(found.len(), 33);
    assert_eq!(found[32], Err(CapabilityError::TooLong));
}

#[test]
fn list_at_the_limit_is_accepted() {
    let mut config = Recorded::empty().with(0x34, &[0x40]);
    for offset in (0x40..0x40 + 31 * 4).step_by(4) {
        config = config.with(offset, &[id::VENDOR, offset as u8 + 4]);
    }
    assert_eq!(walk(&config).filter(Result::is_ok).count(), 32);
    assert!(walk(&config).all(|capability| capability.is_ok()));
}

#[test]
fn function_that_vanished_is_distinguished() {
    let config = Recorded::nvme().with(0x80, &[0xff; 4]);
    assert_eq!(walk(&config).last(), Some(Err(CapabilityError::Absent { pointer: 0x80 })));
    let gone = |_offset: u8| u32::MAX;
    assert_eq!(walk(&gone).next(), Some(Err(CapabilityError::Misaligned { pointer: 0xff })));
}
