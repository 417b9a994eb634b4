//! Why the probe cannot go on: nothing that is attacked, but what the attacks stand on.

use core::fmt;
use nvme_server::driver::{DeviceFault, PciError};

/// What went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    /// The environment lacks this.
    Missing(&'static str),
    /// The PCI server, or the kernel on the way to it.
    Pci(PciError),
    /// The controller.
    Device(DeviceFault),
    /// The kernel refused what it must allow.
    Kernel(platform::Error),
    /// What must be so before an attack means anything is not so.
    Control(&'static str),
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "the environment lacks {what}"),
            Self::Pci(error) => write!(f, "{error}"),
            Self::Device(fault) => write!(f, "the controller: {fault}"),
            Self::Kernel(error) => write!(f, "the kernel refused: {error}"),
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
        Self::Control("an access beyond the probe's own memory")
    }
}
