//! Transfer of a message from its sender to its receiver: words, a badge, and at most one capability.
//!
//! Words beyond four and capabilities pass through IPC buffers, so both threads need one the kernel can use. Left out: the
//! buffers' bytes themselves; a thread that maps another's IPC buffer does not see the message there.

use crate::arena::{EndpointId, ThreadId};
use crate::capability::{Capability, VmRights};
use crate::delivery::{Authority, Delivery};
use crate::invocation::REGISTER_WORDS;
use crate::kernel::Kernel;
use crate::slots::SlotId;
use platform::{Badge, Message};

/// Bits of a label that the kernel carries.
const LABEL_MASK: u32 = (1 << 20) - 1;

impl Kernel {
    /// Gives `receiver` the message or the fault of `sender`, which came through `endpoint` (`None` for an answer).
    pub(crate) fn transfer(
        &mut self,
        sender: ThreadId,
        endpoint: Option<EndpointId>,
        authority: Authority,
        receiver: ThreadId,
    ) {
        let message = match self.fault_message(sender, receiver) {
            Some(message) => Box::new(message),
            None => Box::new(self.pass_message(sender, endpoint, authority, receiver)),
        };
        self.threads[receiver].delivery = Some(match endpoint {
            Some(_) => Delivery::Message(Badge(authority.badge), message),
            None => Delivery::Reply(message),
        });
    }

    fn pass_message(
        &mut self,
        sender: ThreadId,
        endpoint: Option<EndpointId>,
        authority: Authority,
        receiver: ThreadId,
    ) -> Message {
        let has_buffers = self.has_buffer_to_send(sender) && self.has_buffer_to_receive(receiver);
        let outgoing = &self.threads[sender].outgoing;
        let mut message = if has_buffers || outgoing.words().len() <= REGISTER_WORDS {
            outgoing.clone()
        } else {
            let words = outgoing.words();
            Message::from_words(outgoing.label, &words[..REGISTER_WORDS])
        };
        message.label &= LABEL_MASK;
        let cap = message.cap.take().filter(|_| authority.can_grant && has_buffers);
        let slot = cap.and_then(|cap| self.lookup(sender, cap).ok());
        message.cap_received = slot.is_some_and(|slot| self.pass_capability(slot, endpoint, receiver));
        message
    }

    /// Puts the capability into the receiver's slot, if it can. One that names the endpoint itself comes as its badge instead.
    fn pass_capability(&mut self, slot: SlotId, endpoint: Option<EndpointId>, receiver: ThreadId) -> bool {
        let cap = self.slots[slot].cap;
        if let Capability::Endpoint { endpoint: named, .. } = cap
            && Some(named) == endpoint
        {
            return false;
        }
        let Some(dest) = self.open_receive_slot(receiver) else { return false };
        match self.derive(slot, cap) {
            Ok(derived) if !derived.is_null() => {
                self.insert_derived(derived, slot, dest);
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// The slot a thread named for capabilities, if it exists and is empty.
    fn open_receive_slot(&self, receiver: ThreadId) -> Option<SlotId> {
        let named = self.threads[receiver].receive_cptr?;
        let root = self.lookup(receiver, named.root.cptr()).ok()?;
        let slot = self.resolve(&self.slots[root].cap, named.index, named.depth).ok()?;
        self.slots[slot].cap.is_null().then_some(slot)
    }

    /// Whether the kernel can read the thread's IPC buffer.
    pub(crate) fn has_buffer_to_send(&self, thread: ThreadId) -> bool {
        self.buffer_rights(thread) >= VmRights::ReadOnly
    }

    /// Whether the kernel can write it.
    pub(crate) fn has_buffer_to_receive(&self, thread: ThreadId) -> bool {
        self.buffer_rights(thread) == VmRights::ReadWrite
    }

    fn buffer_rights(&self, thread: ThreadId) -> VmRights {
        match self.slots[self.buffer_slot(thread)].cap {
            Capability::Frame { rights, .. } => rights,
            _ => VmRights::KernelOnly,
        }
    }
}
