//! How an invocation enters the kernel: the invoked capability and those that go along are looked up, what does not
//! lie where a lookup ends is a fault of the thread, and what is of another kind does what that kind does.
//!
//! Neighbours: `cnode` looks up, `fault` sends faults, each object's file decodes its own invocations in the kernel's
//! order of checks.

use crate::Arch;
use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::slots::SlotId;
use crate::{Delivery, Kernel};
use platform::{CPtr, Error, Message, Result};

/// Words of a message that travel in registers; more need an IPC buffer.
pub(crate) const REGISTER_WORDS: usize = 4;
/// Capabilities that go along, at most.
const MAX_CAPS: usize = 3;

/// Why an invocation was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// The kernel answers with this.
    Refused(Error),
    /// The invoked capability is of another kind.
    OtherKind,
    /// The thread faulted and has no answer.
    Faulted,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// What an invocation that can be stopped gives.
pub(crate) type Outcome<T> = core::result::Result<T, Stop>;

/// An invocation as it goes to the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invocation<'a> {
    /// The invoked capability.
    pub(crate) service: CPtr,
    /// The method's number.
    pub(crate) label: u32,
    /// Its arguments, in the order of the kernel's interface.
    pub(crate) words: &'a [u64],
    /// Capabilities that go along.
    pub(crate) caps: &'a [CPtr],
}

/// What the kernel has found of an invocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Where the invoked capability lies.
    pub(crate) slot: SlotId,
    /// The capability.
    pub(crate) cap: Capability,
    caps: [Option<SlotId>; MAX_CAPS],
    is_whole: bool,
}

impl Found {
    /// The slot of the capability number `index` that goes along.
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
    /// Has `thread` invoke a capability: `act` does what its kind asks for.
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

    /// Looks up what an invocation names. `None` when a lookup failed, which is a fault of the thread.
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

    /// An invocation on a capability of a kind that does not know it. Most refuse; endpoints, notifications and reply
    /// capabilities take any message.
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
            // x86_64's kernel looks at the message before its label for both.
            Capability::IrqControl if self.arch == Arch::X86_64 => Err(Error::TruncatedMessage.into()),
            Capability::IoPorts { .. } if invocation.words.is_empty() => Err(Error::TruncatedMessage.into()),
            _ => Err(Error::IllegalOperation.into()),
        }
    }
}
