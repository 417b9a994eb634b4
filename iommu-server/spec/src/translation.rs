//! Translation tables of VMSAv8-64 stage 1 with the 4 KiB granule (DDI 0487, D5.3): three levels for 39-bit addresses.

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bits of input addresses.
pub const INPUT_BITS: u32 = 39;
/// CD.T0SZ for [`INPUT_BITS`].
pub const T0SZ: u8 = 25;
const _: () = assert!(T0SZ as u32 + INPUT_BITS == 64);

/// Descriptors in a table.
pub const ENTRIES: usize = 512;
/// The first level of a walk: with 39 bits there is no level 0.
pub const FIRST_LEVEL: u8 = 1;
/// The level of page descriptors.
pub const LAST_LEVEL: u8 = 3;

/// Memory attributes (DDI 0487, MAIR_EL1): attribute 0 is normal write-back memory, attribute 1 Device-nGnRE.
pub const MAIR: u64 = 0x04ff;
/// AttrIndx of normal memory.
pub const ATTRIBUTE_NORMAL: u8 = 0;
/// AttrIndx of device registers.
pub const ATTRIBUTE_DEVICE: u8 = 1;

/// A descriptor of any level (D5.3.1 and D5.3.3). Bit 1 distinguishes a table (levels 1 and 2) or a page (level 3) from a block
/// (levels 1 and 2) or nothing (level 3).
#[bitfield(u64)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Descriptor {
    /// Bit 0: anything but a fault.
    pub valid: bool,
    /// Bit 1: a table, or at the last level a page.
    pub table_or_page: bool,
    /// AttrIndx: which byte of MAIR.
    #[bits(3)]
    pub attribute: u8,
    /// NS: for Secure streams only.
    pub non_secure: bool,
    /// AP[1]: unprivileged access is allowed.
    pub unprivileged: bool,
    /// AP[2]: writes are not.
    pub read_only: bool,
    /// SH: shareability.
    #[bits(2)]
    pub shareability: u8,
    /// AF: accessed. Without hardware updates, 0 is an access fault.
    pub accessed: bool,
    /// nG: the translation belongs to one ASID.
    pub not_global: bool,
    /// Bits 47:12 of the output address or the next table's.
    #[bits(36)]
    pub frame: u64,
    #[bits(3)]
    __: u8,
    /// DBM: hardware may make the page writable.
    pub dirty_modifier: bool,
    /// Contiguous: one of 16 alike.
    pub contiguous: bool,
    /// PXN: not executable with privilege.
    pub privileged_xn: bool,
    /// UXN: not executable without.
    pub unprivileged_xn: bool,
    #[bits(4)]
    __: u8,
    /// PXNTable, UXNTable, APTable, NSTable: limits on all below a table. Zero here.
    #[bits(5)]
    pub table_limits: u8,
}

const _: () = assert!(size_of::<Descriptor>() == 8);

/// The rights a page descriptor gives. Stage 1 has no page that can be written and not read (D5.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permission {
    /// AP 11b.
    Read,
    /// AP 01b.
    ReadWrite,
}

impl Descriptor {
    /// No translation.
    pub const INVALID: Self = Self::new();

    /// A table descriptor for the table at `address`, whose bits outside 47:12 are dropped.
    #[must_use]
    pub const fn table(address: u64) -> Self {
        Self::new().with_valid(true).with_table_or_page(true).with_frame(frame(address))
    }

    /// A page descriptor for `address`, whose bits outside 47:12 are dropped: accessed, of one ASID, inner shareable, not
    /// executable.
    #[must_use]
    pub const fn page(address: u64, permission: Permission, attribute: u8) -> Self {
        Self::new()
            .with_valid(true)
            .with_table_or_page(true)
            .with_attribute(attribute & 7)
            .with_unprivileged(true)
            .with_read_only(matches!(permission, Permission::Read))
            .with_shareability(crate::stream::INNER_SHAREABLE)
            .with_accessed(true)
            .with_not_global(true)
            .with_frame(frame(address))
            .with_privileged_xn(true)
            .with_unprivileged_xn(true)
    }

    /// The output address or the next table's.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.frame() << 12
    }
}

const fn frame(address: u64) -> u64 {
    (address >> 12) & 0xf_ffff_ffff
}

/// The place of `input` in a table of `level` (1 to 3; D5.2.3): 0 to 511.
#[must_use]
pub const fn index(input: u64, level: u8) -> usize {
    let shift = shift(level);
    ((input >> shift) & 0x1ff) as usize
}

/// log2 of the bytes one descriptor of `level` covers: 30, 21 or 12. Levels beyond 3 count as 3, level 0 as 1.
#[must_use]
pub const fn shift(level: u8) -> u32 {
    match level {
        0 | 1 => 30,
        2 => 21,
        _ => 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_descriptors_have_the_bits_of_the_standard() {
        let page = Descriptor::page(0x4567_8000, Permission::ReadWrite, ATTRIBUTE_NORMAL);
        // 11b, AP 01b (40h), SH 11b (300h), AF (400h), nG (800h); PXN and UXN are bits 53 and 54.
        assert_eq!(page.into_bits(), 0x0060_0000_4567_8f43);
        let read_only = Descriptor::page(0x4567_8000, Permission::Read, ATTRIBUTE_NORMAL);
        assert_eq!(read_only.into_bits(), 0x0060_0000_4567_8fc3);
        let device = Descriptor::page(0x0802_0000, Permission::ReadWrite, ATTRIBUTE_DEVICE);
        assert_eq!(device.into_bits(), 0x0060_0000_0802_0f47);
        assert_eq!(device.address(), 0x0802_0000);
    }

    #[test]
    fn table_descriptors_have_the_bits_of_the_standard() {
        assert_eq!(Descriptor::table(0x0000_1234_5678_9000).into_bits(), 0x0000_1234_5678_9003);
        assert_eq!(Descriptor::table(u64::MAX).into_bits(), 0x0000_ffff_ffff_f003);
        assert_eq!(Descriptor::new().with_table_limits(0x1f).into_bits(), 0x1f << 59);
        assert_eq!(Descriptor::new().with_contiguous(true).into_bits(), 1 << 52);
        assert_eq!(Descriptor::new().with_dirty_modifier(true).into_bits(), 1 << 51);
    }

    #[test]
    fn addresses_are_split_into_nine_bits_a_level() {
        let input = (3 << 30) | (5 << 21) | (7 << 12) | 0xabc;
        assert_eq!([1, 2, 3].map(|level| index(input, level)), [3, 5, 7]);
        assert_eq!([1, 2, 3].map(|level| index(u64::MAX, level)), [511; 3]);
    }
}
