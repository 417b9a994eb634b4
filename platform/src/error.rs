//! The kernel's errors for invocations that fail (seL4 manual, section 10.1).

use core::fmt;
use serde::{Deserialize, Serialize};

/// The result of an invocation.
pub type Result<T> = core::result::Result<T, Error>;

/// The kernel's refusal, with its details.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Error {
    /// An argument has a value that is not allowed; its position in the message.
    InvalidArgument(u64),
    /// A capability is of the wrong kind or not there; its position, 0 for the invoked one.
    InvalidCapability(u64),
    /// The capability does not have this operation, or not in its present state.
    IllegalOperation,
    /// An argument lies outside `min..=max`.
    RangeError {
        /// Smallest allowed value.
        min: u64,
        /// Largest allowed value.
        max: u64,
    },
    /// An address is not aligned as the object requires.
    AlignmentError,
    /// A slot or a paging structure on the way is missing.
    FailedLookup,
    /// The message lacks words or capabilities.
    TruncatedMessage,
    /// The destination is in use.
    DeleteFirst,
    /// The capability has children.
    RevokeFirst,
    /// The untyped has too little left; bytes that remain.
    NotEnoughMemory(u64),
    /// A number this kernel version does not document.
    Unknown(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidArgument(position) => write!(f, "invalid argument {position}"),
            Self::InvalidCapability(position) => write!(f, "invalid capability {position}"),
            Self::IllegalOperation => f.write_str("illegal operation"),
            Self::RangeError { min, max } => write!(f, "argument outside {min}..={max}"),
            Self::AlignmentError => f.write_str("alignment error"),
            Self::FailedLookup => f.write_str("failed lookup"),
            Self::TruncatedMessage => f.write_str("truncated message"),
            Self::DeleteFirst => f.write_str("destination in use"),
            Self::RevokeFirst => f.write_str("capability has children"),
            Self::NotEnoughMemory(left) => write!(f, "not enough memory, {left} bytes left"),
            Self::Unknown(code) => write!(f, "unknown error {code}"),
        }
    }
}

impl core::error::Error for Error {}
