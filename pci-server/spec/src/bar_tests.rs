use std::vec::Vec;

use super::*;

fn one(value: u32, sized: u32) -> Result<Option<Bar>, BarError> {
    Bar::decode(0, RawBar { value, sized }, None)
}

fn wide(value: u64, sized: u64) -> Result<Option<Bar>, BarError> {
    let raw = RawBar { value: value as u32, sized: sized as u32 };
    let next = RawBar { value: (value >> 32) as u32, sized: (sized >> 32) as u32 };
    Bar::decode(0, raw, Some(next))
}

#[test]
fn nvme_bar_of_16_kib_is_decoded() {
    let bar = wide(0x0000_0000_febf_0004, 0xffff_ffff_ffff_c004).unwrap().unwrap();
    assert_eq!(bar.kind(), BarKind::Memory64(Prefetch::NonPrefetchable));
    assert_eq!(bar.address(), 0xfebf_0000);
    assert_eq!(bar.size(), 16384);
    assert_eq!(bar.last(), 0xfebf_3fff);
    assert_eq!(bar.registers(), 2);
    assert!(bar.is_memory());
}

#[test]
fn prefetchable_bar_above_4_gib_is_decoded() {
    let bar = wide(0x0000_0080_0000_000c, 0xffff_fff0_0000_000c).unwrap().unwrap();
    assert_eq!(bar.kind(), BarKind::Memory64(Prefetch::Prefetchable));
    assert_eq!(bar.address(), 0x80_0000_0000);
    assert_eq!(bar.size(), 64 << 30);
}

#[test]
fn memory_below_4_gib_is_decoded() {
    let bar = one(0xfeb0_0008, 0xfff0_0008).unwrap().unwrap();
    assert_eq!(bar.kind(), BarKind::Memory32(Prefetch::Prefetchable));
    assert_eq!(bar.size(), 1 << 20);
    assert_eq!(one(0, 0xffff_fff0).unwrap().unwrap().size(), 16);
    assert_eq!(one(0x8000_0000, 0x8000_0000).unwrap().unwrap().last(), 0xffff_ffff);
}

#[test]
fn ports_are_decoded_with_and_without_upper_bits() {
    let bar = one(0x0000_c041, 0xffff_ffe1).unwrap().unwrap();
    assert_eq!((bar.kind(), bar.address(), bar.size()), (BarKind::Io, 0xc040, 32));
    let bar = one(0x0000_c041, 0x0000_ffe1).unwrap().unwrap();
    assert_eq!((bar.kind(), bar.address(), bar.size()), (BarKind::Io, 0xc040, 32));
    assert_eq!(one(0x0000_0005, 0xffff_fffd).unwrap().unwrap().size(), 4);
    assert!(!bar.is_memory());
}

#[test]
fn missing_bar_is_none() {
    assert_eq!(one(0, 0), Ok(None));
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let error = |mask| Err(BarError::ImpossibleSize { index: 0, mask });
    // A hole in the mask.
    assert_eq!(one(0, 0xfff0_f000), error(0xfff0_f000));
    // Upper bits that do not stick.
    assert_eq!(one(0, 0x0fff_f000), error(0x0fff_f000));
    // No address bit at all.
    assert_eq!(one(8, 8), error(0));
    assert_eq!(wide(4, 4), error(0));
    assert_eq!(one(1, 1), error(0));
    // 64 bits whose halves do not join.
    assert_eq!(wide(4, 0xffff_ffff_0000_1004), error(0xffff_ffff_0000_1000));
    assert_eq!(wide(4, 0x0000_0000_ffff_c004), error(0xffff_c000));
    assert_eq!(one(1, 0x00ff_ffe1), error(0x00ff_ffe0));
}

#[test]
fn types_that_cannot_be_are_refused() {
    assert_eq!(one(2, 0xffff_fff2), Err(BarError::ReservedType { index: 0 }));
    assert_eq!(one(6, 0xffff_fff6), Err(BarError::ReservedType { index: 0 }));
    // All ones: the function is gone.
    assert_eq!(one(0xffff_ffff, 0xffff_ffff), Err(BarError::ReservedType { index: 0 }));
    assert_eq!(one(0xfeb0_0000, 0xfff0_0008), Err(BarError::TypeChanged { index: 0 }));
    assert_eq!(one(0xfeb0_0000, 0xfff0_0001), Err(BarError::TypeChanged { index: 0 }));
    assert_eq!(one(4, 0xffff_c004), Err(BarError::NoUpperHalf { index: 0 }));
}

#[test]
fn address_within_its_own_size_is_refused() {
    let error = BarError::Misaligned { index: 0, address: 0xfeb0_1000 };
    assert_eq!(one(0xfeb0_1000, 0xffff_c000), Err(error));
}

#[test]
fn address_without_a_size_is_refused() {
    assert_eq!(one(0xfeb0_0000, 0), Err(BarError::ImpossibleSize { index: 0, mask: 0 }));
}

#[test]
fn wide_bars_take_two_registers() {
    let raw = [
        RawBar { value: 0xfebf_0004, sized: 0xffff_c004 },
        RawBar { value: 0, sized: 0xffff_ffff },
        RawBar { value: 0, sized: 0 },
        RawBar { value: 0xc001, sized: 0xffff_fff1 },
        RawBar { value: 0xfea0_0000, sized: 0xffff_f000 },
        RawBar { value: 4, sized: 0xffff_f004 },
    ];
    let bars: Vec<_> = decode_all(&raw).collect();
    assert_eq!(bars.len(), 4);
    let indices: Vec<_> = bars[..3].iter().map(|bar| bar.unwrap().index()).collect();
    assert_eq!(indices, [0, 3, 4]);
    assert_eq!(bars[3], Err(BarError::NoUpperHalf { index: 5 }));
}

#[test]
fn upper_half_of_a_refused_bar_is_not_decoded() {
    let raw = [RawBar { value: 4, sized: 0xfff0_f004 }, RawBar { value: 1, sized: 0xffff_fff1 }];
    assert_eq!(decode_all(&raw).count(), 1);
}
