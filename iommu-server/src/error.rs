//! Errors of the SMMU driver.

use core::fmt;
use platform::OutOfBounds;

/// Reason why an operation failed. After all but [`Error::Stuck`] and [`Error::OutOfBounds`] nothing has changed, except by
/// a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Less of the registers or of the pool is mapped than is needed.
    OutOfBounds,
    /// The SMMU lacks this feature, or reports a failure that only its reset ends.
    Unsupported(&'static str),
    /// A control register did not take effect within the bound.
    Unanswered,
    /// Starting would let devices reach all memory for a moment: see [`crate::Devices`].
    Unguarded,
    /// The SMMU did not confirm an invalidation within its bound. The tables are changed, yet the device may still use cached
    /// translations: the caller must not free or reuse the memory until [`crate::Smmu::settle`], or any later operation that
    /// invalidates, has succeeded.
    Stuck,
    /// The pool has too few free pages.
    NoPages,
    /// The address space has all translation tables that it may have.
    Quota,
    /// The most possible streams are attached.
    NoAddressSpace,
    /// A StreamID beyond the stream table.
    StreamId,
    /// The stream has an address space already.
    Attached,
    /// The stream has none.
    NotAttached,
    /// An address that is not aligned to a page, is too large, or is one of the pool's own pages.
    Address,
    /// Something is mapped there already.
    Mapped,
    /// Nothing is mapped there.
    NotMapped,
    /// A table does not hold the values written to it.
    Corrupt,
}

impl From<OutOfBounds> for Error {
    fn from(_: OutOfBounds) -> Self {
        Self::OutOfBounds
    }
}

impl Error {
    /// The reason in words.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::OutOfBounds => "registers or pool are mapped too short",
            Self::Unsupported(feature) => feature,
            Self::Unanswered => "a control register did not take effect in time",
            Self::Unguarded => "starting would open memory to devices",
            Self::Stuck => "an invalidation was not confirmed in time",
            Self::NoPages => "no free page",
            Self::Quota => "no more tables for this address space",
            Self::NoAddressSpace => "no free address space",
            Self::StreamId => "no such stream",
            Self::Attached => "the stream is attached",
            Self::NotAttached => "the stream is not attached",
            Self::Address => "invalid address",
            Self::Mapped => "mapped already",
            Self::NotMapped => "not mapped",
            Self::Corrupt => "a table was changed by others",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(feature) => write!(f, "the SMMU does not offer {feature}"),
            other => f.write_str(other.sentence()),
        }
    }
}

impl core::error::Error for Error {}
