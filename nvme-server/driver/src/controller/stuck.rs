//! The reasons why a program that attacks with a controller of its own cannot go on: failures of the attacks' preconditions,
//! not of the attacks.

use crate::{DeviceFault, PciError};
use core::fmt;
use nvme_spec::Status;

/// The attacker cannot go on: its controller, or a precondition of an attack, is broken. The worst verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stuck {
    /// The environment lacks this.
    Missing(&'static str),
    /// The PCI server, or the kernel on the way to it.
    Pci(PciError),
    /// The attacker's controller.
    Device(DeviceFault),
    /// The kernel refused an operation that it must allow.
    Kernel(platform::Error),
    /// An honest command failed.
    Honest(Status),
    /// A precondition of an attack does not hold.
    Control(&'static str),
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "the environment lacks {what}"),
            Self::Pci(error) => write!(f, "{error}"),
            Self::Device(fault) => write!(f, "its controller: {fault}"),
            Self::Kernel(error) => write!(f, "the kernel refused: {error}"),
            Self::Honest(status) => write!(f, "an honest command failed: {status}"),
            Self::Control(what) => write!(f, "nothing can be learnt: {what}"),
        }
    }
}

impl From<PciError> for Stuck {
    fn from(error: PciError) -> Self {
        Self::Pci(error)
    }
}

impl From<DeviceFault> for Stuck {
    fn from(fault: DeviceFault) -> Self {
        Self::Device(fault)
    }
}

impl From<platform::Error> for Stuck {
    fn from(error: platform::Error) -> Self {
        Self::Kernel(error)
    }
}

impl From<platform::OutOfBounds> for Stuck {
    fn from(_: platform::OutOfBounds) -> Self {
        Self::Control("an access beyond its own memory")
    }
}
