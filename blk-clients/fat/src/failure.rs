//! Why a file is not as it is to be.

use alloc::string::String;
use blk_client::{Error, IoError, OpenError};
use core::fmt;

/// Why the program did not do all that it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    Open(OpenError),
    /// The session's bytes cannot be read without a file system either.
    Stream(IoError),
    Files {
        step: Step,
        error: hadris_fat::Error,
        /// What the stream said, of which the file system knows no more than the kind.
        cause: Option<IoError>,
    },
    /// A file has other contents than it is to have: the first byte that differs, or that one of them alone has.
    Differs {
        path: String,
        at: usize,
    },
    Close(Error),
}

/// What was being done.
#[derive(Debug)]
pub(crate) enum Step {
    Mount { is_new: bool },
    Read(String),
    Write(String),
    Sync,
}

impl Step {
    /// The failure that an error of the file system meant for it.
    pub(crate) fn failed(self) -> impl FnOnce(hadris_fat::Error) -> Failure {
        |error| Failure::Files { step: self, error, cause: None }
    }
}

impl Failure {
    /// With what the stream said last, if that is why.
    pub(crate) fn with_cause(self, said: Option<IoError>) -> Self {
        match self {
            Self::Files {
                step,
                error: error @ (hadris_fat::Error::Io(_) | hadris_fat::Error::IoContext { .. }),
                ..
            } => Self::Files { step, error, cause: said },
            other => other,
        }
    }
}

impl From<IoError> for Failure {
    fn from(error: IoError) -> Self {
        Self::Stream(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => write!(f, "open: {error}"),
            Self::Stream(error) => write!(f, "stream: {error}"),
            Self::Files { step, cause: Some(cause), .. } => write!(f, "{step}: {cause}"),
            Self::Files { step, error, cause: None } => write!(f, "{step}: {error}"),
            Self::Differs { path, at } => write!(f, "{path} differs from what it is to hold at byte {at}"),
            Self::Close(error) => write!(f, "close: {error}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount { is_new: true } => f.write_str("format"),
            Self::Mount { is_new: false } => f.write_str("mount"),
            Self::Read(path) => write!(f, "read {path}"),
            Self::Write(path) => write!(f, "write {path}"),
            Self::Sync => f.write_str("sync"),
        }
    }
}
