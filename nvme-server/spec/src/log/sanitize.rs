//! The log page about sanitize operations (section 5.14.1.16.2).

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Sanitize Status, log page 81h (section 5.14.1.16.2). Estimated times are seconds; all ones is no estimate.
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SanitizeLog {
    /// SPROG: the part that is done, in 65,536ths; all ones when no operation is going on.
    pub progress: U16,
    /// SSTAT. See [`SanitizeLog::status`].
    pub status: U16,
    /// SCDW10: CDW10 of the last Sanitize that began an operation.
    pub cdw10: U32,
    /// Estimated time of an overwrite.
    pub overwrite_seconds: U32,
    /// Estimated time of a block erase.
    pub erase_seconds: U32,
    /// Estimated time of a crypto erase.
    pub crypto_seconds: U32,
    /// Estimated time of an overwrite that keeps blocks allocated.
    pub overwrite_keeping_seconds: U32,
    /// Estimated time of a block erase that keeps blocks allocated.
    pub erase_keeping_seconds: U32,
    /// Estimated time of a crypto erase that keeps blocks allocated.
    pub crypto_keeping_seconds: U32,
    reserved_32: [u8; 480],
}

const _: () = assert!(size_of::<SanitizeLog>() == 512 && align_of::<SanitizeLog>() == 1);

/// SSTAT of [`SanitizeLog`].
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct SanitizeStatus {
    /// See [`SanitizeState`].
    #[bits(3)]
    pub state: u8,
    /// Passes of an overwrite that are complete.
    #[bits(5)]
    pub passes: u8,
    /// Global data erased: nothing was written since the last operation that succeeded, or ever.
    pub erased: bool,
    #[bits(7)]
    __: u8,
}

/// The state of the most recent operation (section 5.14.1.16.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SanitizeState {
    /// 000b: there never was one.
    Never = 0,
    /// 001b: the operation succeeded.
    Succeeded = 1,
    /// 010b: the operation is going on.
    Running = 2,
    /// 011b: the operation failed.
    Failed = 3,
    /// 100b: the operation succeeded and deallocated blocks that were to stay allocated.
    Deallocated = 4,
}

impl SanitizeState {
    /// The state of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Never),
            1 => Some(Self::Succeeded),
            2 => Some(Self::Running),
            3 => Some(Self::Failed),
            4 => Some(Self::Deallocated),
            _ => None,
        }
    }
}

impl SanitizeLog {
    /// No estimate, or no operation going on.
    pub const NO_ESTIMATE: u32 = u32::MAX;
    /// [`SanitizeLog::progress`] when no operation is going on.
    pub const NOT_RUNNING: u16 = u16::MAX;

    /// SSTAT as fields.
    #[must_use]
    pub const fn status(&self) -> SanitizeStatus {
        SanitizeStatus::from_bits(self.status.get())
    }
}
