use zerocopy::IntoBytes;

use super::*;

#[test]
fn stage_1_descriptor_has_the_bytes_of_the_standard() {
    let descriptor = ContextDescriptor::stage1(0x0000_0001_4567_8000, Asid(0x0102), 4);
    let mut expected = [0u8; 64];
    // Bits 13:0: T0SZ 25, IR0 1 (100h), OR0 1 (400h), SH0 3 (3000h): 3519h. EPD1 is bit 30, V bit 31: c0h.
    // Bits 47:32: IPS 4, AA64 (bit 41), R (45), A (46), ASET (47): e204h. ASID on top.
    expected[..8].copy_from_slice(&[0x19, 0x35, 0x00, 0xc0, 0x04, 0xe2, 0x02, 0x01]);
    expected[8..16].copy_from_slice(&[0x00, 0x80, 0x67, 0x45, 0x01, 0, 0, 0]);
    // Attribute 0 is normal write-back, attribute 1 Device-nGnRE.
    expected[24..32].copy_from_slice(&[0xff, 0x04, 0, 0, 0, 0, 0, 0]);
    assert_eq!(descriptor.as_bytes(), expected);
    assert_eq!(descriptor.root(), 0x1_4567_8000);
}

#[test]
fn fields_of_the_descriptor_stand_where_the_standard_puts_them() {
    assert_eq!(CdWord0::new().with_tg0(3).into_bits(), 0xc0);
    assert_eq!(CdWord0::new().with_disable0(true).into_bits(), 1 << 14);
    assert_eq!(CdWord0::new().with_big_endian(true).into_bits(), 1 << 15);
    assert_eq!(CdWord0::new().with_upper_range(0x3fff).into_bits(), 0x3fff << 16);
    assert_eq!(CdWord0::new().with_access_fault_disable(true).into_bits(), 1 << 35);
    assert_eq!(CdWord0::new().with_top_byte_ignore(3).into_bits(), 3 << 38);
    assert_eq!(CdWord0::new().with_hardware_dirty(true).into_bits(), 1 << 42);
    assert_eq!(CdWord0::new().with_hardware_access(true).into_bits(), 1 << 43);
    assert_eq!(CdWord0::new().with_stall(true).into_bits(), 1 << 44);
    assert_eq!(CdWord1::new().with_hierarchical_disable(true).into_bits(), 2);
}

#[test]
fn addresses_that_do_not_fit_are_cut() {
    assert_eq!(ContextDescriptor::stage1(u64::MAX, Asid(1), 0xff).root(), 0x000f_ffff_ffff_fff0);
    assert!(!ContextDescriptor::INVALID.word0.valid());
}
