//! Features: values set and got by identifier (sections 5.13 and 5.21).

use bitfield_struct::bitfield;

use crate::admin::Opcode;
use crate::{Cid, DataPointer, Nsid, Sqe};

/// Feature identifiers (section 5.21.1, figure 272).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Feature {
    /// 01h: [`ArbitrationWeights`].
    Arbitration = 0x01,
    /// 06h: bit 0 enables the volatile write cache.
    VolatileWriteCache = 0x06,
    /// 07h: [`NumberOfQueues`].
    NumberOfQueues = 0x07,
    /// 08h: aggregation threshold (7:0, 0's based) and time (15:8, 100 us).
    InterruptCoalescing = 0x08,
    /// 09h: coalescing switched off per vector.
    InterruptVector = 0x09,
    /// 0Bh: which events are reported.
    AsyncEvents = 0x0b,
}

impl Feature {
    /// The feature of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0x01 => Self::Arbitration,
            0x06 => Self::VolatileWriteCache,
            0x07 => Self::NumberOfQueues,
            0x08 => Self::InterruptCoalescing,
            0x09 => Self::InterruptVector,
            0x0b => Self::AsyncEvents,
            _ => return None,
        })
    }
}

/// Set Features (section 5.21) for a feature whose value is CDW11. Not saved across a power cycle.
#[must_use]
pub const fn set_feature(cid: Cid, feature: Feature, cdw11: u32) -> Sqe {
    let mut sqe = Sqe::new(Opcode::SetFeatures as u8, cid, Nsid::NONE, DataPointer::NONE);
    sqe.cdw10 = feature as u32;
    sqe.cdw11 = cdw11;
    sqe
}

/// Get Features (section 5.13): the current value, in the completion's DW0.
#[must_use]
pub const fn get_feature(cid: Cid, feature: Feature) -> Sqe {
    let mut sqe = Sqe::new(Opcode::GetFeatures as u8, cid, Nsid::NONE, DataPointer::NONE);
    sqe.cdw10 = feature as u32;
    sqe
}

/// Number of Queues (section 5.21.1.7): I/O queues, the admin pair not counted.
///
/// Asked for in CDW11 of Set Features, before any I/O queue exists; granted in DW0 of the completion, which may be more
/// or less. Both are 0's based, so that no queue at all can be neither asked for nor granted.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct NumberOfQueues {
    /// NSQR or NSQA: SQs, 0's based. 65535 is invalid.
    pub sqs_z: u16,
    /// NCQR or NCQA: CQs, 0's based. 65535 is invalid.
    pub cqs_z: u16,
}

impl NumberOfQueues {
    /// The value for as many SQs as CQs, 1..=65535; `None` for other numbers.
    #[must_use]
    pub const fn pairs(pairs: u16) -> Option<Self> {
        match pairs.checked_sub(1) {
            Some(z) => Some(Self::new().with_sqs_z(z).with_cqs_z(z)),
            None => None,
        }
    }

    /// Number of SQs: 1..=65536.
    #[must_use]
    pub const fn sqs(self) -> u32 {
        (self.sqs_z() as u32).saturating_add(1)
    }

    /// Number of CQs: 1..=65536.
    #[must_use]
    pub const fn cqs(self) -> u32 {
        (self.cqs_z() as u32).saturating_add(1)
    }

    /// Set Features with this value.
    #[must_use]
    pub const fn set(self, cid: Cid) -> Sqe {
        set_feature(cid, Feature::NumberOfQueues, self.into_bits())
    }
}

/// Arbitration (section 5.21.1.1).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ArbitrationWeights {
    /// AB: at most 2^AB commands from an SQ at a time; 7 is no limit.
    #[bits(3)]
    pub burst: u8,
    #[bits(5)]
    __: u8,
    /// LPW: weight of the low class, 0's based.
    pub low_z: u8,
    /// MPW: weight of the medium class, 0's based.
    pub medium_z: u8,
    /// HPW: weight of the high class, 0's based.
    pub high_z: u8,
}

impl ArbitrationWeights {
    /// [`ArbitrationWeights::burst`] without a limit.
    pub const NO_LIMIT: u8 = 7;

    /// Set Features with this value.
    #[must_use]
    pub const fn set(self, cid: Cid) -> Sqe {
        set_feature(cid, Feature::Arbitration, self.into_bits())
    }
}

#[cfg(test)]
#[path = "feature_tests.rs"]
mod tests;
