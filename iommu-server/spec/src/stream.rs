//! Stream tables, which hold the configuration of devices' transactions (sections 3.3.1, 5.1 and 5.2).

use bitfield_struct::bitfield;
use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A StreamID: the device that sent a transaction. For PCI Express it is the requester id (section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct StreamId(pub u32);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// log2 of a stream table entry's bytes.
pub const STE_BYTES_LOG2: u32 = 6;

/// Level 1 Stream Table Descriptor (section 5.1): the address of the level 2 table of 2^SPLIT streams.
#[bitfield(u64)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct L1StreamDescriptor {
    /// Span: the level 2 table has 2^(Span - 1) entries; 0 makes the descriptor invalid. At most SPLIT + 1.
    #[bits(5)]
    pub span: u8,
    __: bool,
    /// L2Ptr, bits 51:6 of the address. The table is aligned to its size.
    #[bits(46)]
    pub l2_pointer: u64,
    #[bits(12)]
    __: u16,
}

impl L1StreamDescriptor {
    /// A descriptor of a table of 2^`entries_log2` entries at `address`, whose bits outside 51:6 are dropped.
    #[must_use]
    pub const fn table(address: u64, entries_log2: u8) -> Self {
        Self::new().with_span(entries_log2.saturating_add(1) & 0x1f).with_l2_pointer((address >> 6) & mask(46))
    }

    /// The level 2 table's address.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.l2_pointer() << 6
    }
}

/// Stream Table Entry (section 5.2): 64 bytes. The words of stage 2 stay zero here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StreamTableEntry {
    /// Bits 63:0, with the valid bit: written last when an entry becomes valid.
    pub word0: SteWord0,
    /// Bits 127:64.
    pub word1: SteWord1,
    /// Bits 511:128: stage 2, and what later versions added. Zero.
    pub rest: [u64; 6],
}

const _: () = assert!(size_of::<StreamTableEntry>() == 64);
const _: () = assert!(size_of::<StreamTableEntry>() == 1 << STE_BYTES_LOG2);
const _: () = assert!(size_of::<L1StreamDescriptor>() == 8);

/// The first word of a stream table entry.
#[bitfield(u64)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SteWord0 {
    /// V: the entry is valid. Otherwise transactions end with [`crate::EventKind::BadSte`].
    pub valid: bool,
    /// Config: one of [`StreamConfig`].
    #[bits(3)]
    pub config: StreamConfig,
    /// S1Fmt: 0 for a linear table of context descriptors.
    #[bits(2)]
    pub s1_format: u8,
    /// S1ContextPtr, bits 51:6 of the address of the context descriptors.
    #[bits(46)]
    pub s1_context_pointer: u64,
    #[bits(7)]
    __: u8,
    /// S1CDMax: log2 of the number of context descriptors; 0 when there are no substreams.
    #[bits(5)]
    pub s1_cd_max: u8,
}

/// STE.Config (section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StreamConfig {
    /// 000b: transactions are aborted and no event is recorded.
    Abort = 0,
    /// 100b: transactions pass untranslated.
    Bypass = 4,
    /// 101b: stage 1 translates, stage 2 bypasses.
    Stage1 = 5,
    /// 110b: stage 2 alone translates.
    Stage2 = 6,
    /// 111b: both stages translate.
    Both = 7,
    /// 001b to 011b: reserved; they abort.
    Reserved = 1,
}

impl StreamConfig {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Abort,
            4 => Self::Bypass,
            5 => Self::Stage1,
            6 => Self::Stage2,
            7 => Self::Both,
            _ => Self::Reserved,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// The second word of a stream table entry.
#[bitfield(u64)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SteWord1 {
    /// S1DSS: transactions without a substream: 0 terminates them. Ignored when S1CDMax is 0.
    #[bits(2)]
    pub s1_dss: u8,
    /// S1CIR: inner cacheability of fetches of context descriptors; see [`CACHE_WRITE_BACK`].
    #[bits(2)]
    pub s1_inner: u8,
    /// S1COR: outer cacheability of those fetches.
    #[bits(2)]
    pub s1_outer: u8,
    /// S1CSH: shareability of those fetches; see [`INNER_SHAREABLE`].
    #[bits(2)]
    pub s1_shareability: u8,
    #[bits(11)]
    __: u16,
    /// MEV: similar events may be merged.
    pub merge_events: bool,
    #[bits(7)]
    __: u8,
    /// S1STALLD: stalling is disabled. Must be 0 where the SMMU does not stall (IDR0.STALL_MODEL 01b).
    pub s1_stall_disable: bool,
    /// EATS: 0 refuses ATS.
    #[bits(2)]
    pub ats: u8,
    /// STRW: 0 for the translation regime NS-EL1, whose entries have an ASID.
    #[bits(2)]
    pub world: u8,
    #[bits(12)]
    __: u16,
    /// SHCFG: 1 keeps the incoming shareability.
    #[bits(2)]
    pub shareability: u8,
    #[bits(18)]
    __: u32,
}

/// Cacheability: normal, write-back cacheable, read-allocate (STE.S1CIR, CD.IR0).
pub const CACHE_WRITE_BACK: u8 = 1;
/// Shareability: inner shareable (STE.S1CSH, CD.SH0, page descriptors).
pub const INNER_SHAREABLE: u8 = 3;
/// STE.SHCFG: the transaction's own shareability.
pub const SHAREABILITY_INCOMING: u8 = 1;

impl StreamTableEntry {
    /// An invalid entry: all zero.
    pub const INVALID: Self = Self { word0: SteWord0::new(), word1: SteWord1::new(), rest: [0; 6] };

    /// A valid entry for stage 1 with one context descriptor at `context`, whose bits outside 51:6 are dropped.
    #[must_use]
    pub const fn stage1(context: u64) -> Self {
        let word0 = SteWord0::new()
            .with_valid(true)
            .with_config(StreamConfig::Stage1)
            .with_s1_context_pointer((context >> 6) & mask(46));
        let word1 = SteWord1::new()
            .with_s1_inner(CACHE_WRITE_BACK)
            .with_s1_outer(CACHE_WRITE_BACK)
            .with_s1_shareability(INNER_SHAREABLE)
            .with_shareability(SHAREABILITY_INCOMING);
        Self { word0, word1, rest: [0; 6] }
    }

    /// The address of the context descriptors.
    #[must_use]
    pub const fn context(&self) -> u64 {
        self.word0.s1_context_pointer() << 6
    }
}

const fn mask(bits: u32) -> u64 {
    u64::MAX >> (64u32.saturating_sub(bits) & 63)
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
