//! Errors of a client's requests and sessions.

use blk_api::Status;
use blk_api::ring::{DO_NOT_RETRY, RingError};
use blk_api::session::Refusal;
use core::fmt;
use nvme_driver::{DeviceFault, PciError};

/// Error of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The server refused the request, or the controller failed it.
    Failed {
        /// The outcome, never [`Status::Success`].
        status: Status,
        /// The controller's status field when it failed the command, else 0, as in
        /// [`Completed::device_status`](blk_api::ring::Completed::device_status).
        device_status: u16,
    },
    /// The server wrote impossible ring indices: the session is unusable.
    Ring(RingError),
    /// The server completed a request that is not in flight: the session is unusable.
    UnknownCompletion,
    /// The server returned an undefined status: the session is unusable.
    UnknownStatus(u16),
    /// The request names more ranges than an entry holds, or a range of another session's window.
    BadParts,
    /// A call was refused.
    Refused(Refusal),
    /// The session's own function is unusable, and so is the session.
    Device(FunctionFault),
}

/// Reason for which a session's own function is unusable; one byte, because results of every poll contain it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionFault {
    /// The function's registers read as all ones.
    Absent,
    /// The function's controller failed, or was reset and does not come back.
    Failed,
    /// The function completed what was not submitted.
    Impossible,
    /// The function, or the PCI server, does not do what is asked.
    Unusable,
}

impl From<DeviceFault> for FunctionFault {
    #[inline]
    fn from(fault: DeviceFault) -> Self {
        match fault {
            DeviceFault::Absent => Self::Absent,
            DeviceFault::Fatal | DeviceFault::NotReady => Self::Failed,
            DeviceFault::UnknownCommand(_) | DeviceFault::WrongQueue(_) => Self::Impossible,
            DeviceFault::TimedOut
            | DeviceFault::InterruptStorm(_)
            | DeviceFault::Refused(_)
            | DeviceFault::Inconsistent(_)
            | DeviceFault::Unusable(_)
            | DeviceFault::Exchanged
            | DeviceFault::OwnMemory => Self::Unusable,
        }
    }
}

impl fmt::Display for FunctionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "its registers read as all ones",
            Self::Failed => "its controller failed",
            Self::Impossible => "it completed what was not submitted",
            Self::Unusable => "it does not do what is asked",
        })
    }
}

impl Error {
    /// The session has ended.
    pub const CLOSED: Self = Self::status(Status::Closed);

    /// The controller is gone, and the session has ended.
    pub const DEVICE_GONE: Self = Self::status(Status::DeviceGone);

    /// Makes an error of the server's own refusal, without a status of the controller.
    #[must_use]
    pub const fn status(status: Status) -> Self {
        Self::Failed { status, device_status: 0 }
    }

    /// Returns the status from the server or the controller, if there is one.
    #[must_use]
    pub const fn outcome(self) -> Option<Status> {
        match self {
            Self::Failed { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether the controller says that the same request would fail again (DNR).
    #[must_use]
    pub const fn must_not_be_retried(&self) -> bool {
        matches!(self, Self::Failed { device_status, .. } if *device_status & DO_NOT_RETRY != 0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { status, device_status: 0 } => write!(f, "{status}"),
            Self::Failed { status, device_status } => write!(f, "{status} (controller: {device_status:#x})"),
            Self::Ring(error) => write!(f, "server: {error}"),
            Self::UnknownCompletion => f.write_str("completion of a request that is not under way"),
            Self::UnknownStatus(raw) => write!(f, "completion with unknown status {raw}"),
            Self::BadParts => f.write_str("too many window ranges, or of another window"),
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
            Self::Device(fault) => write!(f, "the function cannot be used: {fault}"),
        }
    }
}

impl core::error::Error for Error {}

impl From<DeviceFault> for Error {
    #[inline]
    fn from(fault: DeviceFault) -> Self {
        Self::Device(fault.into())
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Dead => Self::CLOSED,
            Refusal::DeviceGone => Self::DEVICE_GONE,
            refusal => Self::Refused(refusal),
        }
    }
}

impl From<RingError> for Error {
    #[inline]
    fn from(error: RingError) -> Self {
        Self::Ring(error)
    }
}

/// Error of opening a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The environment lacks an entry that a client needs; its name.
    Missing(&'static str),
    /// The ring regions do not fit the number of entries.
    Ring(RingError),
    /// The server refused.
    Refused(Refusal),
    /// The server's answer is invalid: too short, or with an impossible block size.
    BadGeometry,
    /// The server is dead and is not restarted.
    Dead,
    /// The session's own function could not be claimed, or its memory could not be mapped for it.
    Pci(PciError),
    /// The function could not be brought up.
    Device(DeviceFault),
}

impl OpenError {
    /// Whether the session's own function was withdrawn: it can be opened when it is granted again.
    #[must_use]
    pub const fn is_withdrawn(self) -> bool {
        matches!(self, Self::Pci(PciError::Refused(pci_api::Refusal::Withdrawn)))
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the environment has no `{name}`"),
            Self::Ring(error) => write!(f, "{error}"),
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
            Self::BadGeometry => f.write_str("the server's geometry cannot be"),
            Self::Dead => f.write_str("the server stays dead"),
            Self::Pci(error) => write!(f, "{error}"),
            Self::Device(fault) => write!(f, "controller: {fault}"),
        }
    }
}

impl core::error::Error for OpenError {}

impl From<Refusal> for OpenError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Dead => Self::Dead,
            refusal => Self::Refused(refusal),
        }
    }
}

impl From<PciError> for OpenError {
    fn from(error: PciError) -> Self {
        Self::Pci(error)
    }
}

impl From<DeviceFault> for OpenError {
    fn from(fault: DeviceFault) -> Self {
        Self::Device(fault)
    }
}

impl From<RingError> for OpenError {
    fn from(error: RingError) -> Self {
        Self::Ring(error)
    }
}
