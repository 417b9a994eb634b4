//! Errors of the program.

use alloc::string::String;
use blk_client::{Error, IoError, OpenError};
use core::fmt;

/// Reason why the program did not complete its configuration.
#[derive(Debug)]
pub(crate) enum Failure {
    Open(OpenError),
    /// The session's bytes cannot be read even without a file system.
    Stream(IoError),
    Files {
        step: Step,
        error: hadris_fat::Error,
        /// The stream's error, of which the file system passes on only the kind.
        cause: Option<IoError>,
    },
    /// The session holds something that is no FAT volume.
    HoldsOther,
    /// A file has unexpected contents: the first byte that differs, or that only one of them has.
    Differs {
        path: String,
        at: usize,
    },
    Close(Error),
}

/// Step of the program that failed.
#[derive(Debug)]
pub(crate) enum Step {
    Mount { is_new: bool },
    Read(String),
    Write(String),
    Sync,
}

impl Step {
    /// Converts an error of the file system in this step to a failure.
    pub(crate) fn failed(self) -> impl FnOnce(hadris_fat::Error) -> Failure {
        |error| Failure::Files { step: self, error, cause: None }
    }
}

impl Failure {
    /// Adds the stream's last error, if that is the cause.
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
            Self::HoldsOther => {
                f.write_str("its blocks hold something that is no FAT volume: write format = true to replace it")
            }
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
