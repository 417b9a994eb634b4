//! Errors of the build.

use alloc::string::String;
use core::fmt;

/// Reason why the build stopped. Nothing runs then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// The machine has too little memory.
    NoMemory {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes available, in untypeds large enough.
        available: u64,
    },
    /// The root task's CNode has too few cptrs.
    NoCptrs {
        /// Cptrs that were asked for.
        asked: u64,
        /// Cptrs available.
        available: u64,
    },
    /// The specification is invalid.
    Specification {
        /// The object, empty for the whole.
        object: String,
        /// The object's defect, worded to follow its name.
        reason: &'static str,
    },
    /// The kernel refused.
    Refused {
        /// The step that was tried, worded to precede the object's name.
        step: &'static str,
        /// The object.
        object: String,
        /// The kernel's reason.
        error: platform::Error,
    },
    /// Memory or registers of the root task's own cannot be reached.
    OutOfBounds {
        /// Name of the memory or registers.
        what: &'static str,
    },
}

impl BuildError {
    /// The error of an invalid specification, or of a machine that does not fit it: `object` and its defect.
    #[must_use]
    pub fn specification(object: &str, reason: &'static str) -> Self {
        Self::Specification { object: object.into(), reason }
    }

    /// Turns the kernel's refusal into an error that names the step and the object.
    pub(crate) fn refused(step: &'static str, object: &str) -> impl FnOnce(platform::Error) -> Self {
        move |error| Self::Refused { step, object: object.into(), error }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory { asked, available } => {
                write!(f, "the system needs {asked} bytes of memory, and the machine has {available} for it")
            }
            Self::NoCptrs { asked, available } => {
                write!(f, "the system needs {asked} more cptrs of the root task's CNode, and {available} are left")
            }
            Self::Specification { object, reason } if object.is_empty() => write!(f, "specification: {reason}"),
            Self::Specification { object, reason } => write!(f, "specification: `{object}` {reason}"),
            Self::Refused { step, object, error } => write!(f, "the kernel refuses to {step} `{object}`: {error}"),
            Self::OutOfBounds { what } => write!(f, "{what} cannot be reached"),
        }
    }
}

impl core::error::Error for BuildError {}
