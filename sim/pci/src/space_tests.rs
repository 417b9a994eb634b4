use super::*;

#[test]
fn read_only_bits_ignore_writes() {
    let mut space = Space::new(CONVENTIONAL_BYTES);
    space.define(4, 0x1234_5678, 0x0000_00ff);
    space.write(4, 0, u32::MAX);
    assert_eq!(space.read(4), 0x1234_5600);
}

#[test]
fn only_ones_within_the_access_clear() {
    let mut space = Space::new(CONVENTIONAL_BYTES);
    space.define_with_clears(4, 0, 0, 0xf0f0);
    space.set(4, 0xf0f0, 0xf0f0);
    space.write(4, 0x1010, 0x00ff);
    assert_eq!(space.read(4), 0xf0e0);
}

#[test]
fn beyond_the_end_is_all_ones_and_writes_are_lost() {
    let mut space = Space::new(CONVENTIONAL_BYTES);
    assert_eq!(space.write(0x100, 0, u32::MAX), u32::MAX);
    assert_eq!(space.read(0x100), u32::MAX);
    assert!(space.is_read_only(0x100));
}

#[test]
fn a_reset_keeps_what_was_fixed() {
    let mut space = Space::new(CONVENTIONAL_BYTES);
    space.define(8, 1, u32::MAX);
    space.fix(8, 0x80, 0x80);
    space.write(8, 0xffff, u32::MAX);
    space.reset();
    assert_eq!(space.read(8), 0x81);
}
