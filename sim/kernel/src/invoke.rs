//! Entry of invocations: looks up the invoked capability and the extra ones. A failed lookup is a fault of the thread. A
//! capability of another kind handles the message as that kind does.
//!
//! Neighbours: `cnode` does lookups, `fault_ipc` sends faults, each object's file decodes its own invocations in the kernel's
//! order of checks.

use crate::Arch;
use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::delivery::{Delivery, Send};
use crate::invocation::{Found, Invocation, MAX_CAPS, Outcome, REGISTER_WORDS, Stop};
use crate::kernel::Kernel;
use platform::{Error, Message, Result};

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
                self.send_to(thread, found.slot, Send::Call)?;
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
