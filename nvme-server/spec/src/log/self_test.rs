//! The log page about self-tests (section 5.14.1.6).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::admin::SelfTestCode;

/// Device Self-test, log page 06h (section 5.14.1.6).
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SelfTestLog {
    /// The test that runs (3:0), as [`SelfTestCode`]; 0 for none.
    pub current: u8,
    /// Percent of that test that are done (6:0).
    pub percent: u8,
    reserved_2: [u8; 2],
    /// The last results, the newest first.
    pub results: [SelfTestEntry; 20],
}

const _: () = assert!(size_of::<SelfTestLog>() == 564 && align_of::<SelfTestLog>() == 1);

/// A result in [`SelfTestLog`] (section 5.14.1.6, figure 203).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SelfTestEntry {
    /// The result (3:0), as [`SelfTestResult`], and the code of the test (7:4).
    pub status: u8,
    /// The first segment that failed, for a result that names one.
    pub segment: u8,
    /// Which of the following are valid: NSID in bit 0, LBA in bit 1, SCT in bit 2, SC in bit 3.
    pub valid: u8,
    reserved_3: u8,
    /// POH: hours with power when the test ended.
    pub hours: U64,
    /// NSID.
    pub nsid: U32,
    /// The block that failed.
    pub lba: U64,
    /// SCT of the failure.
    pub sct: u8,
    /// SC of the failure.
    pub sc: u8,
    /// The vendor's own.
    pub vendor: U16,
}

const _: () = assert!(size_of::<SelfTestEntry>() == 28 && align_of::<SelfTestEntry>() == 1);

/// The result of a self-test (section 5.14.1.6, figure 203).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SelfTestResult {
    /// 0h: no error.
    Passed = 0x0,
    /// 1h: aborted by Device Self-test.
    AbortedByCommand = 0x1,
    /// 2h: aborted by a reset.
    AbortedByReset = 0x2,
    /// 3h: aborted because a namespace was removed.
    AbortedByRemoval = 0x3,
    /// 4h: aborted by Format NVM.
    AbortedByFormat = 0x4,
    /// 5h: a fatal error; the test did not end.
    Fatal = 0x5,
    /// 6h: a segment failed that is not known.
    FailedSomewhere = 0x6,
    /// 7h: the segments failed of which the entry names the first.
    FailedSegment = 0x7,
    /// 8h: aborted for an unknown reason.
    Aborted = 0x8,
    /// 9h: aborted by a sanitize.
    AbortedBySanitize = 0x9,
    /// Fh: the entry has no result.
    Unused = 0xf,
}

impl SelfTestResult {
    /// The result of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0x0 => Self::Passed,
            0x1 => Self::AbortedByCommand,
            0x2 => Self::AbortedByReset,
            0x3 => Self::AbortedByRemoval,
            0x4 => Self::AbortedByFormat,
            0x5 => Self::Fatal,
            0x6 => Self::FailedSomewhere,
            0x7 => Self::FailedSegment,
            0x8 => Self::Aborted,
            0x9 => Self::AbortedBySanitize,
            0xf => Self::Unused,
            _ => return None,
        })
    }
}

impl SelfTestEntry {
    /// An entry without a result.
    #[must_use]
    pub fn unused() -> Self {
        let mut entry: Self = zerocopy::FromZeros::new_zeroed();
        entry.status = SelfTestResult::Unused as u8;
        entry
    }

    /// The entry of a test that ended.
    #[must_use]
    pub fn of(code: SelfTestCode, result: SelfTestResult, hours: u64) -> Self {
        let mut entry = Self::unused();
        entry.status = result as u8 | (code as u8) << 4;
        entry.hours.set(hours);
        entry
    }

    /// The result, if it has a name here.
    #[must_use]
    pub const fn result(&self) -> Option<SelfTestResult> {
        SelfTestResult::from_raw(self.status & 0xf)
    }

    /// The code of the test: see [`SelfTestCode`].
    #[must_use]
    pub const fn code(&self) -> u8 {
        self.status >> 4
    }
}
