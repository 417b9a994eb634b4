//! Failures for which the driver gives up.

use crate::interrupts::Mode;
use core::fmt;
use pci_api::Refusal;
use platform::OutOfBounds;

/// The reason why a check failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The environment lacks an item of this name.
    Missing(&'static str),
    /// The PCI server refused.
    Refused(Refusal),
    /// The PCI server's answer makes no sense.
    Answer,
    /// The kernel refused.
    Kernel(platform::Error),
    /// A register lies beyond those that the PCI server mapped.
    Registers,
    /// The function is another one, or behaves incorrectly.
    Device(&'static str),
    /// No interrupt came within the limit.
    NoInterrupt(Mode, &'static str),
    /// An interrupt came that must not.
    Unexpected(Mode, &'static str),
    /// The function's interrupt status differs from the raised bits.
    Status {
        /// Raised, and not acknowledged.
        raised: u32,
        /// Read.
        read: u32,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "the environment lacks {what}"),
            Self::Refused(refusal) => write!(f, "the PCI server refused: {refusal}"),
            Self::Answer => f.write_str("the PCI server's answer makes no sense"),
            Self::Kernel(error) => write!(f, "the kernel refused: {error}"),
            Self::Registers => f.write_str("the function has fewer registers than an edu device"),
            Self::Device(what) => write!(f, "the function {what}"),
            Self::NoInterrupt(mode, when) => write!(f, "no interrupt by {} {when}", mode.name()),
            Self::Unexpected(mode, when) => write!(f, "an interrupt by {} {when}", mode.name()),
            Self::Status { raised, read } => {
                write!(f, "the function's interrupt status is {read:#x}, and {raised:#x} was raised")
            }
        }
    }
}

impl From<platform::Error> for Failure {
    fn from(error: platform::Error) -> Self {
        Self::Kernel(error)
    }
}

impl From<OutOfBounds> for Failure {
    fn from(_: OutOfBounds) -> Self {
        Self::Registers
    }
}
