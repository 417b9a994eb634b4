//! Events: 32 bytes each, put into the event queue by the SMMU (section 7.3).

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::StreamId;

/// log2 of an event record's bytes.
pub const EVENT_BYTES_LOG2: u32 = 5;

/// An event record (section 7.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EventRecord {
    /// Bits 63:0.
    pub word0: EventWord0,
    /// Bits 127:64.
    pub word1: EventWord1,
    /// Bits 191:128: the input address, in events that have one; see [`EventKind::has_address`].
    pub address: u64,
    /// Bits 255:192: the intermediate physical address, or the address of the fetch that failed.
    pub second_address: u64,
}

const _: () = assert!(size_of::<EventRecord>() == 1 << EVENT_BYTES_LOG2);

/// The first word of an event record.
#[bitfield(u64)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct EventWord0 {
    /// The event's number; see [`EventKind`].
    pub number: u8,
    #[bits(3)]
    __: u8,
    /// SSV: the substream is valid.
    pub substream_valid: bool,
    /// SubstreamID.
    #[bits(20)]
    pub substream: u32,
    /// StreamID.
    pub stream: u32,
}

/// The second word of an event record: the transaction's attributes, in events that have an input address.
#[bitfield(u64)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct EventWord1 {
    /// STAG: names a stalled transaction.
    pub stall_tag: u16,
    #[bits(15)]
    __: u16,
    /// Stall: the transaction waits for an answer.
    pub stall: bool,
    __: bool,
    /// PnU: privileged.
    pub privileged: bool,
    /// InD: instruction fetch.
    pub instruction: bool,
    /// RnW: a read.
    pub read: bool,
    #[bits(3)]
    __: u8,
    /// S2: the fault is of stage 2.
    pub stage2: bool,
    /// CLASS: 0 fetch of a context descriptor, 1 of a translation table, 2 the input address itself.
    #[bits(2)]
    pub class: u8,
    #[bits(22)]
    __: u32,
}

/// CLASS: the input address itself caused the fault.
pub const CLASS_INPUT: u8 = 2;
/// CLASS: the fetch of a translation table.
pub const CLASS_TABLE: u8 = 1;

/// Events (sections 7.3.2 to 7.3.19). C is a configuration error, F a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum EventKind {
    /// F_UUT: an unsupported upstream transaction (7.3.2).
    UnsupportedTransaction = 0x01,
    /// C_BAD_STREAMID: beyond the stream table, or an invalid level 1 descriptor (7.3.3).
    BadStream = 0x02,
    /// F_STE_FETCH: an external abort at the stream table (7.3.4).
    SteFetch = 0x03,
    /// C_BAD_STE: an invalid or illegal stream table entry (7.3.5).
    BadSte = 0x04,
    /// F_BAD_ATS_TREQ (7.3.6).
    BadAtsRequest = 0x05,
    /// F_STREAM_DISABLED: a transaction without a substream where one is needed (7.3.7).
    StreamDisabled = 0x06,
    /// F_TRANSL_FORBIDDEN (7.3.8).
    TranslationForbidden = 0x07,
    /// C_BAD_SUBSTREAMID (7.3.9).
    BadSubstream = 0x08,
    /// F_CD_FETCH: an external abort at a context descriptor (7.3.10).
    CdFetch = 0x09,
    /// C_BAD_CD: an invalid or illegal context descriptor (7.3.11).
    BadCd = 0x0a,
    /// F_WALK_EABT: an external abort at a translation table (7.3.12).
    WalkAbort = 0x0b,
    /// F_TRANSLATION: no translation (7.3.13).
    Translation = 0x10,
    /// F_ADDR_SIZE: an output address that is too large (7.3.14).
    AddressSize = 0x11,
    /// F_ACCESS: the access flag is 0 (7.3.15).
    AccessFlag = 0x12,
    /// F_PERMISSION: the translation does not allow the access (7.3.16).
    Permission = 0x13,
    /// F_TLB_CONFLICT (7.3.17).
    TlbConflict = 0x20,
    /// F_CFG_CONFLICT (7.3.18).
    ConfigurationConflict = 0x21,
    /// E_PAGE_REQUEST (7.3.19).
    PageRequest = 0x24,
}

impl EventKind {
    /// Every event with a name.
    pub const ALL: [Self; 18] = [
        Self::UnsupportedTransaction,
        Self::BadStream,
        Self::SteFetch,
        Self::BadSte,
        Self::BadAtsRequest,
        Self::StreamDisabled,
        Self::TranslationForbidden,
        Self::BadSubstream,
        Self::CdFetch,
        Self::BadCd,
        Self::WalkAbort,
        Self::Translation,
        Self::AddressSize,
        Self::AccessFlag,
        Self::Permission,
        Self::TlbConflict,
        Self::ConfigurationConflict,
        Self::PageRequest,
    ];

    /// The event of this number, if it is one of those named here.
    #[must_use]
    pub fn from_raw(raw: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == raw)
    }

    /// Whether the record has the transaction's input address and direction.
    #[must_use]
    pub const fn has_address(self) -> bool {
        matches!(
            self,
            Self::UnsupportedTransaction
                | Self::TranslationForbidden
                | Self::WalkAbort
                | Self::Translation
                | Self::AddressSize
                | Self::AccessFlag
                | Self::Permission
                | Self::TlbConflict
        )
    }
}

impl EventRecord {
    /// A record without an address.
    #[must_use]
    pub const fn new(kind: EventKind, stream: StreamId) -> Self {
        Self {
            word0: EventWord0::new().with_number(kind as u8).with_stream(stream.0),
            word1: EventWord1::new(),
            address: 0,
            second_address: 0,
        }
    }

    /// The event, if it has a name here.
    #[must_use]
    pub fn kind(&self) -> Option<EventKind> {
        EventKind::from_raw(self.word0.number())
    }

    /// The stream.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        StreamId(self.word0.stream())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromBytes;

    #[test]
    fn translation_fault_of_a_write_is_decoded() {
        let record = EventRecord::read_from_bytes(&[
            0x10, 0, 0, 0, 0x08, 0x01, 0, 0, // F_TRANSLATION of stream 0108h
            0, 0, 0, 0, 0x00, 0x02, 0, 0, // RnW 0, CLASS 2 (bits 105:104 are bits 41:40 of this word)
            0x00, 0x50, 0x34, 0x12, 0, 0, 0, 0, // input address
            0, 0, 0, 0, 0, 0, 0, 0,
        ])
        .unwrap();
        assert_eq!(record.kind(), Some(EventKind::Translation));
        assert_eq!(record.stream(), StreamId(0x0108));
        assert!(!record.word1.read());
        assert_eq!(record.word1.class(), CLASS_INPUT);
        assert_eq!(record.address, 0x1234_5000);
    }

    #[test]
    fn attributes_stand_where_the_standard_puts_them() {
        assert_eq!(EventWord1::new().with_stall(true).into_bits(), 1 << 31);
        assert_eq!(EventWord1::new().with_privileged(true).into_bits(), 1 << 33);
        assert_eq!(EventWord1::new().with_instruction(true).into_bits(), 1 << 34);
        assert_eq!(EventWord1::new().with_read(true).into_bits(), 1 << 35);
        assert_eq!(EventWord1::new().with_stage2(true).into_bits(), 1 << 39);
        assert_eq!(EventWord0::new().with_substream_valid(true).into_bits(), 1 << 11);
    }

    #[test]
    fn every_number_is_decoded_without_a_panic() {
        let named = (0..=u8::MAX).filter(|raw| EventKind::from_raw(*raw).is_some()).count();
        assert_eq!(named, EventKind::ALL.len());
        assert!(EventKind::Permission.has_address());
        assert!(!EventKind::BadSte.has_address());
        assert_eq!(EventRecord::new(EventKind::BadSte, StreamId(9)).word0.into_bits(), 0x0000_0009_0000_0004);
    }
}
