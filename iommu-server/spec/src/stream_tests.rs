use zerocopy::IntoBytes;

use super::*;

#[test]
fn level_1_descriptor_of_a_page_of_64_entries() {
    let descriptor = L1StreamDescriptor::table(0x0000_0000_4012_3000, 6);
    // Span 7 in bits 4:0, the address in bits 51:6 at its own place.
    assert_eq!(descriptor.into_bits(), 0x4012_3007);
    assert_eq!(descriptor.as_bytes(), [0x07, 0x30, 0x12, 0x40, 0, 0, 0, 0]);
    assert_eq!(descriptor.address(), 0x4012_3000);
    assert_eq!(descriptor.span(), 7);
}

#[test]
fn level_1_descriptor_drops_what_does_not_fit() {
    let descriptor = L1StreamDescriptor::table(u64::MAX, 6);
    assert_eq!(descriptor.into_bits(), 0x000f_ffff_ffff_ffc7);
    assert_eq!(L1StreamDescriptor::new().span(), 0);
}

#[test]
fn stage_1_entry_has_the_bytes_of_the_standard() {
    let entry = StreamTableEntry::stage1(0x0000_0001_4012_3040);
    let mut expected = [0u8; 64];
    // V 1, Config 101b, S1Fmt 0, S1ContextPtr at its own place, S1CDMax 0.
    expected[..8].copy_from_slice(&[0x4b, 0x30, 0x12, 0x40, 0x01, 0, 0, 0]);
    // S1CIR 1, S1COR 1, S1CSH 3 (bits 7:0 are 11_01_01_00b = d4h); SHCFG 1 is bit 44.
    expected[8..16].copy_from_slice(&[0xd4, 0, 0, 0, 0, 0x10, 0, 0]);
    assert_eq!(entry.as_bytes(), expected);
    assert_eq!(entry.context(), 0x1_4012_3040);
}

#[test]
fn fields_of_the_entry_stand_where_the_standard_puts_them() {
    assert_eq!(SteWord0::new().with_s1_format(3).into_bits(), 0x30);
    assert_eq!(SteWord0::new().with_s1_cd_max(31).into_bits(), 0x1f << 59);
    assert_eq!(SteWord0::new().with_config(StreamConfig::Both).into_bits(), 0xe);
    assert_eq!(SteWord1::new().with_merge_events(true).into_bits(), 1 << 19);
    assert_eq!(SteWord1::new().with_s1_stall_disable(true).into_bits(), 1 << 27);
    assert_eq!(SteWord1::new().with_ats(3).into_bits(), 3 << 28);
    assert_eq!(SteWord1::new().with_world(3).into_bits(), 3 << 30);
    assert_eq!(SteWord1::new().with_shareability(3).into_bits(), 3 << 44);
}

#[test]
fn reserved_configurations_are_reported_as_such() {
    for bits in [0b0010u64, 0b0100, 0b0110] {
        assert_eq!(SteWord0::from_bits(bits).config(), StreamConfig::Reserved);
    }
    assert_eq!(SteWord0::from_bits(0).config(), StreamConfig::Abort);
    assert_eq!(SteWord0::from_bits(0b1000).config(), StreamConfig::Bypass);
    assert!(!StreamTableEntry::INVALID.word0.valid());
}
