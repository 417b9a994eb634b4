//! Why the system could not be built.

use alloc::string::String;
use core::fmt;

/// What stopped the build. Nothing runs then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// The machine has too little memory.
    NoMemory {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes there were, in untypeds large enough.
        available: u64,
    },
    /// The root task's CNode has too few slots.
    NoSlots {
        /// Slots that were asked for.
        asked: u64,
        /// Slots there were.
        available: u64,
    },
    /// The specification asks for what cannot be.
    Specification {
        /// The object, empty for the whole.
        object: String,
        /// What is wrong with it, to be read after its name.
        reason: &'static str,
    },
    /// The kernel refused.
    Refused {
        /// What was tried, to be read before the object's name.
        step: &'static str,
        /// The object.
        object: String,
        /// The kernel's reason.
        error: platform::Error,
    },
    /// Memory or registers of the root task's own cannot be reached.
    OutOfBounds {
        /// Which.
        what: &'static str,
    },
}

impl BuildError {
    /// A specification, or a machine for it, that cannot be: `object` and what is the matter with it.
    #[must_use]
    pub fn specification(object: &str, reason: &'static str) -> Self {
        Self::Specification { object: object.into(), reason }
    }

    /// Makes the kernel's refusal into an error that says of what.
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
            Self::NoSlots { asked, available } => {
                write!(f, "the system needs {asked} more slots of the root task's CNode, and {available} are left")
            }
            Self::Specification { object, reason } if object.is_empty() => write!(f, "specification: {reason}"),
            Self::Specification { object, reason } => write!(f, "specification: `{object}` {reason}"),
            Self::Refused { step, object, error } => write!(f, "the kernel refuses to {step} `{object}`: {error}"),
            Self::OutOfBounds { what } => write!(f, "{what} cannot be reached"),
        }
    }
}

impl core::error::Error for BuildError {}
