//! Faults of a controller. Each is counted and logged, and leads to a controller reset.

use core::fmt;
use nvme_spec::Status;

/// A fault that a sound controller does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceFault {
    /// A completion names a command that was not submitted.
    UnknownCommand(u16),
    /// A completion names a submission queue that does not belong to the completion queue.
    WrongQueue(u16),
    /// Registers read as all ones: the device is gone or does not decode.
    Absent,
    /// CSTS.CFS: the controller reports that it failed.
    Fatal,
    /// CSTS.RDY is 0 although it was enabled, or CSTS.SHST is not: it was reset or shut down from elsewhere, or lost its power.
    NotReady,
    /// A command or a change of CSTS.RDY took longer than allowed.
    TimedOut,
    /// A vector that had to be stopped again and again: interrupts without completions.
    InterruptStorm(u16),
    /// An administrative command that must work was refused.
    Refused(Status),
    /// The controller refused to delete a queue pair that it created, or to create one that it had.
    Inconsistent(Status),
    /// A register or identify value that the standard excludes, or that this server cannot work with.
    Unusable(&'static str),
    /// Another disk is in the place of the first, or its registers have other capabilities.
    Exchanged,
    /// The server's own memory does not hold what was laid out in it: a defect of ours, treated like one of theirs.
    OwnMemory,
}

impl DeviceFault {
    /// Whether a secondary controller that was set offline, or reset with its primary, shows it: it can be brought up again.
    #[must_use]
    pub const fn shows_reset(self) -> bool {
        matches!(self, Self::Fatal | Self::NotReady)
    }
}

impl From<platform::OutOfBounds> for DeviceFault {
    #[inline]
    fn from(_: platform::OutOfBounds) -> Self {
        Self::OwnMemory
    }
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCommand(cid) => write!(f, "completion of command {cid:#x}, which was not submitted"),
            Self::WrongQueue(sqid) => write!(f, "completion for submission queue {sqid} on another queue"),
            Self::Absent => f.write_str("registers read as all ones"),
            Self::Fatal => f.write_str("fatal controller status"),
            Self::NotReady => f.write_str("not ready any more, as after a loss of power"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::InterruptStorm(vector) => write!(f, "vector {vector} interrupts without end"),
            Self::Refused(status) => write!(f, "refused with status {:#x}", status.to_raw()),
            Self::Inconsistent(status) => {
                write!(f, "refused with status {:#x} to undo or repeat its own work", status.to_raw())
            }
            Self::Unusable(what) => f.write_str(what),
            Self::Exchanged => f.write_str("another disk is in its place"),
            Self::OwnMemory => f.write_str("queue memory out of bounds"),
        }
    }
}
