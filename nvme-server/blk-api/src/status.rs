//! The outcome of a request.

use core::fmt;

/// The outcome of a request, as it stands in a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u16)]
pub enum Status {
    /// Done.
    Success = 0,
    /// The operation is none of this interface, or reserved fields are set.
    InvalidRequest = 1,
    /// A range does not lie inside the window, or is not aligned to 4 bytes.
    OutsideWindow = 2,
    /// The session does not number these blocks.
    OutsideExtents = 3,
    /// The session may not write, or the media takes no writes any more.
    ReadOnly = 4,
    /// The ranges do not add up to the blocks asked for, or one is not a multiple of the block size.
    LengthMismatch = 5,
    /// More blocks than one request may move.
    TooLarge = 6,
    /// The media could not be read or written.
    MediaError = 7,
    /// The controller failed the command otherwise.
    DeviceError = 8,
    /// The controller was reset while the request was in flight; it may or may not have been executed.
    ControllerReset = 9,
    /// The session is over. A request that was in flight when the controller came back with too few queue pairs may or may not have
    /// been executed.
    Closed = 10,
    /// No record covers some of the blocks. The request itself is valid, and may be retried once the record is installed. Its
    /// part before those blocks may have been executed.
    NotInstalled = 11,
    /// The blocks' record does not give the right to the operation. The request's part before them may have been executed.
    Forbidden = 12,
    /// The controller gave no answer in time and the command was ended; it may or may not have been executed. After this
    /// answer it will not be executed any more.
    TimedOut = 13,
    /// The controller is gone: it was removed, or another disk or namespace is in its place. A request that was in flight may or may not have been executed; later ones were
    /// not. The session is over.
    DeviceGone = 14,
    /// The blocks differ from the data that a compare named.
    CompareFailed = 15,
    /// The controller lacks the command for this operation.
    Unsupported = 16,
}

impl Status {
    /// The status with this number, unless there is none.
    #[must_use]
    pub const fn from_raw(raw: u16) -> Option<Self> {
        Some(match raw {
            0 => Self::Success,
            1 => Self::InvalidRequest,
            2 => Self::OutsideWindow,
            3 => Self::OutsideExtents,
            4 => Self::ReadOnly,
            5 => Self::LengthMismatch,
            6 => Self::TooLarge,
            7 => Self::MediaError,
            8 => Self::DeviceError,
            9 => Self::ControllerReset,
            10 => Self::Closed,
            11 => Self::NotInstalled,
            12 => Self::Forbidden,
            13 => Self::TimedOut,
            14 => Self::DeviceGone,
            15 => Self::CompareFailed,
            16 => Self::Unsupported,
            _ => return None,
        })
    }

    /// Whether the outcome is unknown and a controller is there to retry the request: it may or may not have been executed,
    /// wholly or in part, and nothing of it will be executed any more. It may be retried where [`Opcode::changes_blocks`](crate::operation::Opcode::changes_blocks) allows.
    #[must_use]
    pub const fn is_undecided(self) -> bool {
        match self {
            Self::ControllerReset | Self::TimedOut => true,
            Self::Success
            | Self::InvalidRequest
            | Self::OutsideWindow
            | Self::OutsideExtents
            | Self::ReadOnly
            | Self::LengthMismatch
            | Self::TooLarge
            | Self::MediaError
            | Self::DeviceError
            | Self::Closed
            | Self::NotInstalled
            | Self::Forbidden
            | Self::DeviceGone
            | Self::CompareFailed
            | Self::Unsupported => false,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::InvalidRequest => "not a request of this interface",
            Self::OutsideWindow => "range outside the window",
            Self::OutsideExtents => "blocks outside the session's extents",
            Self::ReadOnly => "the session may not write, or the media is read-only",
            Self::LengthMismatch => "ranges do not match the blocks",
            Self::TooLarge => "too many blocks for one request",
            Self::MediaError => "media error",
            Self::DeviceError => "device error",
            Self::ControllerReset => "the controller was reset",
            Self::Closed => "the session is closed",
            Self::NotInstalled => "no record is installed for some of the blocks",
            Self::Forbidden => "the blocks' record does not give the right",
            Self::TimedOut => "the controller gave no answer in time",
            Self::DeviceGone => "the controller is gone",
            Self::CompareFailed => "the blocks differ from the data",
            Self::Unsupported => "the controller cannot do this operation",
        })
    }
}
