use super::*;

#[test]
fn widths_no_processor_has_are_refused() {
    for bytes in [0, 3, 5, 6, 7, 9, 16, 255] {
        assert_eq!(check(0, bytes), Err(BadAccess::Width { bytes }));
    }
    assert_eq!(ConfigAccess::new(0, 8).unwrap_err(), BadAccess::Width { bytes: 8 });
}

#[test]
fn unaligned_accesses_are_refused() {
    for bytes in [2, 4, 8] {
        assert_eq!(check(1, bytes), Err(BadAccess::Unaligned { address: 1, bytes }));
        assert_eq!(check(u64::from(bytes), bytes), Ok(()));
    }
    assert!(matches!(ConfigAccess::new(2, 4), Err(BadAccess::Unaligned { .. })));
}

#[test]
fn a_part_of_a_dword_is_placed_where_it_is_read() {
    let access = ConfigAccess::new(0x1_0006, 2).unwrap();
    assert_eq!((access.register, access.mask()), (4, 0xffff_0000));
    assert_eq!(access.place(0xffff_1234), 0x1234_0000);
    assert_eq!(access.extract(0x1234_5678), 0x1234);
    assert_eq!(access.bdf, Bdf::new(0, 2, 0));
}

#[test]
fn beyond_the_last_bus_there_is_no_function() {
    assert_eq!(ConfigAccess::new(0x1000_0000, 4).unwrap().bdf, None);
}
