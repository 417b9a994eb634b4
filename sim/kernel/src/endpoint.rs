//! Endpoints: messages from one thread to another, with a badge, words and at most one capability, and the right to reply.
//!
//! Neighbours: threads enter through `syscall`; `transfer` moves the content of a message.

use crate::arena::{EndpointId, ThreadId};
use crate::capability::Capability;
use crate::delivery::{Authority, Delivery, Receive, Send};
use crate::invocation::Outcome;
use crate::kernel::Kernel;
use crate::object::Waiting;
use crate::schedule::OnEqual;
use crate::slots::SlotId;
use crate::thread::ThreadState;
use platform::{Badge, Error};

impl Kernel {
    /// Sends the outgoing message of `thread` through the capability in `slot`: to an endpoint, a notification, or the
    /// thread that a reply capability answers.
    ///
    /// # Errors
    /// [`Error::InvalidCapability`] for a capability that takes no message.
    pub(crate) fn send_to(&mut self, thread: ThreadId, slot: SlotId, send: Send) -> Outcome<()> {
        match self.slots[slot].cap {
            Capability::Endpoint { endpoint, badge, rights } if rights.write => {
                self.send_message(thread, endpoint, send, Authority::of(badge, rights));
            }
            Capability::Notification { notification, badge, rights } if rights.write => {
                self.signal_notification(notification, badge);
            }
            Capability::Reply { thread: receiver, can_grant, is_master: false } => {
                self.answer(thread, receiver, can_grant, slot);
            }
            Capability::Endpoint { .. }
            | Capability::Notification { .. }
            | Capability::Reply { .. }
            | Capability::Null
            | Capability::Zombie { .. } => return Err(Error::InvalidCapability(0).into()),
            _ => return Err(Error::IllegalOperation.into()),
        }
        Ok(())
    }

    /// Sends the outgoing message of `thread`, or its fault, through an endpoint.
    pub(crate) fn send_message(&mut self, thread: ThreadId, endpoint: EndpointId, send: Send, authority: Authority) {
        let object = &self.endpoints[endpoint];
        let Some(receiver) = object.queue.head.filter(|_| object.waiting == Waiting::Receivers) else {
            if send != Send::Polling {
                let Authority { badge, can_grant, can_be_answered } = authority;
                let is_call = send == Send::Call;
                let state = ThreadState::BlockedOnSend { endpoint, badge, can_grant, can_be_answered, is_call };
                self.set_state(thread, state);
                self.enter_endpoint_queue(endpoint, thread, Waiting::Senders);
            }
            return;
        };
        let ThreadState::BlockedOnReceive { answer_can_grant, .. } = self.threads[receiver].state else { return };
        self.leave_endpoint_queue(endpoint, receiver);
        self.transfer(thread, Some(endpoint), authority, receiver);
        self.set_state(receiver, ThreadState::Running);
        self.wake(receiver, OnEqual::Switch);
        if send == Send::Call || self.is_call_by_fault(thread) {
            self.await_answer(thread, authority, receiver, answer_can_grant);
        }
    }

    /// Receives from an endpoint; a signal on the bound notification comes first. `answer_can_grant`: whether the answer
    /// to a call may carry a capability.
    pub(crate) fn receive_message(
        &mut self,
        thread: ThreadId,
        endpoint: EndpointId,
        answer_can_grant: bool,
        receive: Receive,
    ) {
        if let Some(badges) = self.threads[thread].bound.and_then(|bound| self.take_badges(bound)) {
            self.threads[thread].delivery = Some(Delivery::Signal(Badge(badges)));
            return;
        }
        let object = &self.endpoints[endpoint];
        let Some(sender) = object.queue.head.filter(|_| object.waiting == Waiting::Senders) else {
            if receive == Receive::Waiting {
                self.set_state(thread, ThreadState::BlockedOnReceive { endpoint, answer_can_grant });
                self.enter_endpoint_queue(endpoint, thread, Waiting::Receivers);
            }
            return;
        };
        self.leave_endpoint_queue(endpoint, sender);
        let ThreadState::BlockedOnSend { badge, can_grant, can_be_answered, is_call, .. } = self.threads[sender].state
        else {
            return;
        };
        let authority = Authority { badge, can_grant, can_be_answered };
        self.transfer(sender, Some(endpoint), authority, thread);
        if is_call || self.is_call_by_fault(sender) {
            self.await_answer(sender, authority, thread, answer_can_grant);
        } else {
            self.threads[sender].delivery = Some(Delivery::Nothing);
            self.set_state(sender, ThreadState::Running);
            self.wake(sender, OnEqual::Stay);
        }
    }

    /// Whether a fault of the thread makes its message a call. Later kernels have faults sent as calls.
    fn is_call_by_fault(&self, thread: ThreadId) -> bool {
        !self.is_current() && self.threads[thread].fault.is_some()
    }

    /// Makes `sender` wait for the reply of `receiver`; without the right to one it waits for ever. `answer_can_grant`: whether the
    /// reply may carry a capability.
    fn await_answer(&mut self, sender: ThreadId, authority: Authority, receiver: ThreadId, answer_can_grant: bool) {
        if !authority.can_be_answered {
            return self.set_state(sender, ThreadState::Inactive);
        }
        self.set_state(sender, ThreadState::BlockedOnReply);
        let (master, caller) = (self.reply_slot(sender), self.caller_slot(receiver));
        self.insert_derived(
            Capability::Reply { thread: sender, can_grant: answer_can_grant, is_master: false },
            master,
            caller,
        );
    }

    /// Answers `receiver`, which waits for it, by the reply capability in `slot`.
    pub(crate) fn answer(&mut self, thread: ThreadId, receiver: ThreadId, can_grant: bool, slot: SlotId) {
        if self.threads[receiver].fault.is_some() {
            self.delete_simple(slot);
            return self.answer_fault(thread, receiver);
        }
        self.transfer(thread, None, Authority { badge: 0, can_grant, can_be_answered: false }, receiver);
        self.delete_simple(slot);
        self.set_state(receiver, ThreadState::Running);
        self.wake(receiver, OnEqual::Switch);
    }

    fn enter_endpoint_queue(&mut self, endpoint: EndpointId, thread: ThreadId, waiting: Waiting) {
        let object = &mut self.endpoints[endpoint];
        object.queue.append(&mut self.threads, thread);
        object.waiting = waiting;
    }

    fn leave_endpoint_queue(&mut self, endpoint: EndpointId, thread: ThreadId) {
        let object = &mut self.endpoints[endpoint];
        object.queue.remove(&mut self.threads, thread);
        if object.queue.head.is_none() {
            object.waiting = Waiting::Nobody;
        }
    }

    /// Ends any wait of a thread.
    pub(crate) fn cancel_ipc(&mut self, thread: ThreadId) {
        match self.threads[thread].state {
            ThreadState::BlockedOnSend { endpoint, .. } | ThreadState::BlockedOnReceive { endpoint, .. } => {
                self.leave_endpoint_queue(endpoint, thread);
                self.set_state(thread, ThreadState::Inactive);
            }
            ThreadState::BlockedOnNotification(notification) => self.cancel_signal(thread, notification),
            ThreadState::BlockedOnReply => {
                self.threads[thread].fault = None;
                if let Some(caller) = self.slots[self.reply_slot(thread)].next {
                    self.delete_simple(caller);
                }
            }
            ThreadState::Running | ThreadState::Restart | ThreadState::Inactive => {}
        }
    }

    /// Ends all waits at an endpoint: the threads retry, and find that it is gone.
    pub(crate) fn cancel_all_ipc(&mut self, endpoint: EndpointId) {
        let object = &mut self.endpoints[endpoint];
        if object.waiting == Waiting::Nobody {
            return;
        }
        object.waiting = Waiting::Nobody;
        let queue = core::mem::take(&mut object.queue);
        self.restart_queue(queue);
    }
}
