//! Invocations: the request as user level passes it, what the lookups found, and the reasons to stop. Neighbour: `invoke`.

use crate::capability::Capability;
use crate::slots::SlotId;
use platform::{CPtr, Error};

/// Words of a message that travel in registers; more need an IPC buffer.
pub(crate) const REGISTER_WORDS: usize = 4;
/// Extra capabilities of an invocation, at most.
pub(crate) const MAX_CAPS: usize = 3;

/// The reason why an invocation was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// The kernel replies with this error.
    Refused(Error),
    /// The invoked capability is of another kind.
    OtherKind,
    /// The thread faulted and gets no reply.
    Faulted,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// The result of an invocation that can be stopped.
pub(crate) type Outcome<T> = core::result::Result<T, Stop>;

/// An invocation as user level passes it to the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invocation<'a> {
    /// The invoked capability.
    pub(crate) service: CPtr,
    /// The method's number.
    pub(crate) label: u32,
    /// The invocation's arguments, in the order of the kernel's interface.
    pub(crate) words: &'a [u64],
    /// Extra capabilities.
    pub(crate) caps: &'a [CPtr],
}

/// The result of the kernel's lookups for an invocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The slot of the invoked capability.
    pub(crate) slot: SlotId,
    /// The capability.
    pub(crate) cap: Capability,
    pub(crate) caps: [Option<SlotId>; MAX_CAPS],
    pub(crate) is_whole: bool,
}

impl Found {
    /// The slot of the extra capability number `index`.
    ///
    /// # Errors
    /// [`Error::TruncatedMessage`] when it did not arrive, because the thread has no IPC buffer.
    pub(crate) fn cap(&self, index: usize) -> Outcome<SlotId> {
        Ok(self.caps[index].ok_or(Error::TruncatedMessage)?)
    }

    /// # Errors
    /// [`Error::TruncatedMessage`] when words are missing, for the same reason.
    pub(crate) fn all_words(&self) -> Outcome<()> {
        if self.is_whole { Ok(()) } else { Err(Error::TruncatedMessage.into()) }
    }
}
