//! The context descriptor, which names a stream's translation tables at stage 1 (section 5.4).

use bitfield_struct::bitfield;
use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::stream::{CACHE_WRITE_BACK, INNER_SHAREABLE};
use crate::translation;

/// An address space identifier: the tag of cached translations (section 3.17).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Asid(pub u16);

impl fmt::Display for Asid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Context Descriptor (section 5.4): 64 bytes. The words of the upper address range (TTB1) stay zero here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ContextDescriptor {
    /// Bits 63:0, with the valid bit: written last when a descriptor becomes valid.
    pub word0: CdWord0,
    /// Bits 127:64.
    pub word1: CdWord1,
    /// Bits 191:128: TTB1. Zero while EPD1 is 1.
    pub ttb1: u64,
    /// Bits 255:192: MAIR0 and MAIR1, eight memory attributes of a byte each.
    pub mair: u64,
    /// Bits 511:256: AMAIR, and what later versions added. Zero.
    pub rest: [u64; 4],
}

const _: () = assert!(size_of::<ContextDescriptor>() == 64);

/// The first word of a context descriptor.
#[bitfield(u64)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CdWord0 {
    /// T0SZ: input addresses of the lower range have 64 - T0SZ bits.
    #[bits(6)]
    pub t0sz: u8,
    /// TG0: 0 is the 4 KiB granule.
    #[bits(2)]
    pub tg0: u8,
    /// IR0: inner cacheability of table walks.
    #[bits(2)]
    pub inner0: u8,
    /// OR0: outer cacheability of table walks.
    #[bits(2)]
    pub outer0: u8,
    /// SH0: shareability of table walks.
    #[bits(2)]
    pub shareability0: u8,
    /// EPD0: walks of the lower range are disabled.
    pub disable0: bool,
    /// ENDI: tables are big endian.
    pub big_endian: bool,
    /// T1SZ, TG1, IR1, OR1, SH1: the upper range. Ignored while EPD1 is 1.
    #[bits(14)]
    pub upper_range: u16,
    /// EPD1: walks of the upper range are disabled.
    pub disable1: bool,
    /// V: the descriptor is valid.
    pub valid: bool,
    /// IPS: bits of output addresses, encoded as IDR5.OAS; see [`crate::registers::output_bits`].
    #[bits(3)]
    pub ips: u8,
    /// AFFD: access flag faults are disabled.
    pub access_fault_disable: bool,
    /// WXN: writable is never executable.
    pub write_xn: bool,
    /// UWXN: unprivileged writable is never privileged executable.
    pub unprivileged_write_xn: bool,
    /// TBI: the top byte is ignored, lower and upper range.
    #[bits(2)]
    pub top_byte_ignore: u8,
    /// PAN: privileged access never.
    pub pan: bool,
    /// AA64: the tables are VMSAv8-64.
    pub aarch64: bool,
    /// HD: hardware updates the dirty state.
    pub hardware_dirty: bool,
    /// HA: hardware updates the access flag.
    pub hardware_access: bool,
    /// S: faults stall. Must be 0 where the SMMU does not stall (IDR0.STALL_MODEL 01b).
    pub stall: bool,
    /// R: faults are recorded as events.
    pub record: bool,
    /// A: terminated transactions are aborted. Must be 1 where IDR0.TERM_MODEL is 1.
    pub abort: bool,
    /// ASET: 1 keeps the ASID apart from those of processors (section 5.4, broadcast invalidation).
    pub asid_private: bool,
    /// ASID: tags cached translations.
    pub asid: u16,
}

/// The second word of a context descriptor.
#[bitfield(u64)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CdWord1 {
    /// NSCFG0: for Secure streams only.
    pub nscfg0: bool,
    /// HAD0: hierarchical permissions are disabled.
    pub hierarchical_disable: bool,
    #[bits(2)]
    __: u8,
    /// TTB0, bits 51:4 of the address of the first table.
    #[bits(48)]
    pub ttb0: u64,
    #[bits(12)]
    __: u16,
}

impl ContextDescriptor {
    /// An invalid descriptor: all zero.
    pub const INVALID: Self = Self { word0: CdWord0::new(), word1: CdWord1::new(), ttb1: 0, mair: 0, rest: [0; 4] };

    /// A valid descriptor for an address space of [`translation::INPUT_BITS`] bits, whose first table is at `root` (bits
    /// outside 51:4 are dropped). Faults abort the transaction and are recorded. `ips` is encoded as IDR5.OAS.
    #[must_use]
    pub const fn stage1(root: u64, asid: Asid, ips: u8) -> Self {
        let word0 = CdWord0::new()
            .with_t0sz(translation::T0SZ)
            .with_inner0(CACHE_WRITE_BACK)
            .with_outer0(CACHE_WRITE_BACK)
            .with_shareability0(INNER_SHAREABLE)
            .with_disable1(true)
            .with_valid(true)
            .with_ips(ips & 7)
            .with_aarch64(true)
            .with_record(true)
            .with_abort(true)
            .with_asid_private(true)
            .with_asid(asid.0);
        let word1 = CdWord1::new().with_ttb0((root >> 4) & 0xffff_ffff_ffff);
        Self { word0, word1, ttb1: 0, mair: translation::MAIR, rest: [0; 4] }
    }

    /// The address of the first table.
    #[must_use]
    pub const fn root(&self) -> u64 {
        self.word1.ttb0() << 4
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
