//! Answers of the kernel to calls, in terms that do not depend on where a machine's memory lies.

use core::fmt;
use platform::{Badge, Error};
use report::FaultKind;
use serde::{Deserialize, Serialize};

/// The answer to one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The call was done, and has no result.
    Done,
    /// The call was refused.
    Refused(Error),
    /// A physical address: the sequences' untyped that it lies in, and the offset from its start.
    Address(u8, u64),
    /// A physical address outside of these untypeds.
    Elsewhere,
    /// Instruction pointer, stack pointer, three arguments.
    Registers([u64; 5]),
    /// A word of memory.
    Value(u64),
    /// Signals: their badges, ORed.
    Signal(u64),
    /// A message.
    Message {
        /// The sender's badge.
        badge: u64,
        /// The message's label.
        label: u32,
        /// Number of words.
        words: u8,
        /// The first word, 0 without one.
        first: u64,
        /// A number that changes with each word.
        digest: u64,
        /// Whether a capability came into the receive slot.
        cap: bool,
    },
    /// A fault message.
    Fault {
        /// The badge of the fault endpoint's capability.
        badge: u64,
        /// The kind of fault.
        kind: FaultKind,
        /// The address, capability pointer or system call that faulted.
        address: u64,
    },
    /// Nothing came; or a message without badge, which looks the same to a thread that polls.
    Nothing,
}

impl Answer {
    /// The answer to a call that returns nothing but its success.
    #[must_use]
    pub fn of(result: platform::Result<()>) -> Self {
        result.map_or_else(Self::refused, |()| Self::Done)
    }

    /// The answer of a refused call.
    #[must_use]
    pub fn refused(error: Error) -> Self {
        Self::Refused(error)
    }

    /// The answer to a wait that ended with `badge` and `message`. `fault` has the kind and the address if the message is a
    /// fault of the kernel's own.
    #[must_use]
    pub fn received(badge: Badge, message: Arrived<'_>, fault: Option<(FaultKind, u64)>) -> Self {
        match (badge.0, fault) {
            (0, _) => Self::Nothing,
            (bits, _) if badge.has(Badge::SIGNAL) => Self::Signal(bits),
            (badge, Some((kind, address))) => Self::Fault { badge, kind, address },
            (badge, None) => Self::message(badge, message),
        }
    }

    /// The answer to a call that was answered with `message`.
    #[must_use]
    pub fn replied(message: Arrived<'_>) -> Self {
        Self::message(0, message)
    }

    fn message(badge: u64, Arrived { label, words, cap }: Arrived<'_>) -> Self {
        Self::Message {
            badge,
            label,
            words: u8::try_from(words.len()).unwrap_or(u8::MAX),
            first: words.first().copied().unwrap_or(0),
            digest: digest(words),
            cap,
        }
    }
}

/// A message that arrived, on the kernel or on its model.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The message's label.
    pub label: u32,
    /// The message's words.
    pub words: &'a [u64],
    /// Whether a capability came into the receive slot.
    pub cap: bool,
}

/// A number that depends on each word and its place (FNV-1a over words).
fn digest(words: &[u64]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    words.iter().fold(BASIS, |sum, word| (sum ^ word).wrapping_mul(PRIME))
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "error {} {refusal:?}", number(*refusal)),
            other => write!(f, "{other:?}"),
        }
    }
}

/// The error's number (seL4 manual, section 10.1).
const fn number(error: Error) -> u64 {
    match error {
        Error::InvalidArgument(_) => 1,
        Error::InvalidCapability(_) => 2,
        Error::IllegalOperation => 3,
        Error::RangeError { .. } => 4,
        Error::AlignmentError => 5,
        Error::FailedLookup => 6,
        Error::TruncatedMessage => 7,
        Error::DeleteFirst => 8,
        Error::RevokeFirst => 9,
        Error::NotEnoughMemory(_) => 10,
        Error::Unknown(number) => number,
    }
}

/// A line of a journal: the call number `index` of `thread` was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The thread's number.
    pub thread: u8,
    /// The call's number in its thread.
    pub index: u16,
    /// The answer.
    pub answer: Answer,
}
