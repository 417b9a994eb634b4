//! Entry of invocations: looks up the invoked capability and the extra ones. A failed lookup is a fault of the thread. A
//! capability of another kind handles the message as that kind does.
//!
//! Neighbours: `cnode` does lookups, `fault` sends faults, each object's file decodes its own invocations in the kernel's
//! order of checks.

use crate::Arch;
use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::slots::SlotId;
use crate::{Delivery, Kernel};
use platform::{CPtr, Error, Message, Result};

/// Words of a message that travel in registers; more need an IPC buffer.
pub(crate) const REGISTER_WORDS: usize = 4;
/// Extra capabilities of an invocation, at most.
const MAX_CAPS: usize = 3;

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
    caps: [Option<SlotId>; MAX_CAPS],
    is_whole: bool,
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

impl Kernel {
    /// Makes `thread` invoke a capability; `act` does the work of its kind.
    pub(crate) fn invoke<T: Default>(
        &mut self,
        thread: ThreadId,
        invocation: &Invocation,
        act: impl FnOnce(&mut Self, &Found) -> Outcome<T>,
    ) -> Result<T> {
        if !self.enter(thread) {
            return Err(Error::IllegalOperation);
        }
        let outcome = match self.find(thread, invocation) {
            Some(found) => match act(self, &found) {
                Err(Stop::OtherKind) => self.misdirected(thread, invocation, &found).map(|()| T::default()),
                outcome => outcome,
            },
            None => Err(Stop::Faulted),
        };
        self.finish(thread, Delivery::Nothing);
        self.leave();
        outcome.map_err(|stop| match stop {
            Stop::Refused(error) => error,
            Stop::OtherKind | Stop::Faulted => Error::InvalidCapability(0),
        })
    }

    /// Looks up the capabilities of an invocation. `None` when a lookup failed, which is a fault of the thread.
    fn find(&mut self, thread: ThreadId, invocation: &Invocation) -> Option<Found> {
        let slot = self.lookup_or_fault(thread, invocation.service)?;
        let has_buffer = self.has_buffer_to_send(thread);
        let mut caps = [None; MAX_CAPS];
        if has_buffer {
            for (place, cptr) in caps.iter_mut().zip(invocation.caps) {
                *place = Some(self.lookup_or_fault(thread, *cptr)?);
            }
        }
        let is_whole = has_buffer || invocation.words.len() <= REGISTER_WORDS;
        Some(Found { slot, cap: self.slots[slot].cap, caps, is_whole })
    }

    /// Handles an invocation on a capability of a kind that does not have it. Most kinds refuse; endpoints, notifications
    /// and reply capabilities take any message.
    fn misdirected(&mut self, thread: ThreadId, invocation: &Invocation, found: &Found) -> Outcome<()> {
        match found.cap {
            Capability::Null | Capability::Zombie { .. } => Err(Error::InvalidCapability(0).into()),
            Capability::Endpoint { .. } | Capability::Notification { .. } | Capability::Reply { .. } => {
                let mut message = Message::from_words(invocation.label, invocation.words);
                message.cap = invocation.caps.first().copied();
                self.threads[thread].outgoing = message;
                self.send_to(thread, found.slot, crate::endpoint::Send::Call)?;
                if self.threads[thread].state.is_runnable() { Ok(()) } else { Err(Stop::Faulted) }
            }
            // The x86_64 kernel of 5.0.0 checks the message before its label for both.
            Capability::IrqControl | Capability::IoPorts { .. } if self.is_current() => {
                Err(Error::IllegalOperation.into())
            }
            Capability::IrqControl if self.arch == Arch::X86_64 => Err(Error::TruncatedMessage.into()),
            Capability::IoPorts { .. } if invocation.words.is_empty() => Err(Error::TruncatedMessage.into()),
            _ => Err(Error::IllegalOperation.into()),
        }
    }
}
