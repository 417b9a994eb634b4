//! The system calls that move messages and signals, and the results of a thread's operations.
//!
//! Each of them may leave the thread waiting. The result is there when the thread runs again: [`Kernel::take`].

use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::delivery::{Delivery, Receive, Send};
use crate::fault::LookupFailure;
use crate::invocation::{Outcome, Stop};
use crate::kernel::Kernel;
use platform::{AbsoluteCPtr, CPtr, Cap, Error, Message, Notification};

impl Kernel {
    /// Takes the result of the thread's last operation. `None` while it waits, and after the result was taken.
    ///
    /// Call it after every operation, when the thread runs (again). [`Delivery::Restart`] means that the operation has to be
    /// repeated, whatever it returned at first. seL4 does the same with a thread that was stopped in the kernel, whose
    /// endpoint ended, or whose fault was answered.
    #[inline]
    pub fn take(&mut self, thread: ThreadId) -> Option<Delivery> {
        let taken = self.threads.get_mut(thread)?;
        let delivery = taken.delivery.take();
        taken.is_in_operation &= delivery.is_none();
        delivery
    }

    /// See [`platform::Kernel::signal`].
    #[inline]
    pub fn signal(&mut self, thread: ThreadId, notification: Cap<Notification>) {
        static NOTHING: Message = Message::new(0);
        self.send(thread, notification.cptr(), &NOTHING);
    }

    /// See [`platform::Kernel::send`].
    pub fn send(&mut self, thread: ThreadId, dest: CPtr, message: &Message) {
        if self.enter(thread) {
            // Nobody receives a refusal.
            let _ = self.send_from(thread, dest, message, Send::Waiting);
            self.finish(thread, Delivery::Nothing);
            self.leave();
        }
    }

    /// See [`platform::Kernel::nb_send`].
    pub fn nb_send(&mut self, thread: ThreadId, dest: CPtr, message: &Message) {
        if self.enter(thread) {
            let _ = self.send_from(thread, dest, message, Send::Polling);
            self.finish(thread, Delivery::Nothing);
            self.leave();
        }
    }

    /// See [`platform::Kernel::call`]: ends in [`Delivery::Reply`]. The kernel itself replies to a message that is not sent,
    /// with the error's number as label.
    pub fn call(&mut self, thread: ThreadId, endpoint: CPtr, message: &Message) {
        if self.enter(thread) {
            match self.send_from(thread, endpoint, message, Send::Call) {
                Ok(()) => self.finish(thread, Delivery::Reply(Box::default())),
                Err(Stop::Refused(error)) => self.finish(thread, Delivery::Reply(Box::new(error_message(error)))),
                Err(Stop::OtherKind | Stop::Faulted) => {}
            }
            self.leave();
        }
    }

    /// See [`platform::Kernel::reply`]. Does nothing without a caller to answer.
    pub fn reply(&mut self, thread: ThreadId, message: &Message) {
        if self.enter(thread) {
            self.reply_from(thread, message);
            self.finish(thread, Delivery::Nothing);
            self.leave();
        }
    }

    /// Waits for a message or signal from the endpoint or notification `from`.
    pub fn receive(&mut self, thread: ThreadId, from: CPtr) {
        if self.enter(thread) {
            self.receive_from(thread, from, Receive::Waiting);
            self.leave();
        }
    }

    /// Takes a message or signal if there is one; [`Delivery::Nothing`] otherwise.
    pub fn nb_receive(&mut self, thread: ThreadId, from: CPtr) {
        if self.enter(thread) {
            self.receive_from(thread, from, Receive::Polling);
            self.finish(thread, Delivery::Nothing);
            self.leave();
        }
    }

    /// [`Kernel::reply`] and [`Kernel::receive`] in one system call, which is how components wait after a short
    /// answer.
    pub fn reply_receive(&mut self, thread: ThreadId, message: &Message, from: CPtr) {
        if self.enter(thread) {
            self.reply_from(thread, message);
            self.receive_from(thread, from, Receive::Waiting);
            self.leave();
        }
    }

    /// Names the place in the thread's CSpace where a capability in a message lands, if it is empty then.
    pub fn set_receive_cptr(&mut self, thread: ThreadId, cptr: Option<AbsoluteCPtr>) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.receive_cptr = cptr;
        }
    }

    /// Records the result of an operation, if it ended: the thread is runnable and has no other result yet.
    pub(crate) fn finish(&mut self, thread: ThreadId, delivery: Delivery) {
        if let Some(finished) = self.threads.get_mut(thread)
            && finished.state.is_runnable()
            && finished.delivery.is_none()
        {
            finished.delivery = Some(delivery);
        }
    }

    fn send_from(&mut self, thread: ThreadId, dest: CPtr, message: &Message, send: Send) -> Outcome<()> {
        let lost = |kernel: &mut Self, cptr: CPtr| match send {
            // A failure is ignored, because the sender does not wait for the result.
            Send::Polling => kernel.lookup(thread, cptr).map_err(|_| Stop::Faulted),
            Send::Waiting | Send::Call => kernel.lookup_or_fault(thread, cptr).ok_or(Stop::Faulted),
        };
        let slot = lost(self, dest)?;
        if let Some(cap) = message.cap.filter(|_| self.has_buffer_to_send(thread)) {
            lost(self, cap)?;
        }
        self.threads[thread].outgoing.clone_from(message);
        self.send_to(thread, slot, send)
    }

    fn reply_from(&mut self, thread: ThreadId, message: &Message) {
        let slot = self.caller_slot(thread);
        if let Capability::Reply { thread: caller, can_grant, is_master: false } = self.slots[slot].cap {
            self.threads[thread].outgoing.clone_from(message);
            self.answer(thread, caller, can_grant, slot);
        }
    }

    fn receive_from(&mut self, thread: ThreadId, from: CPtr, receive: Receive) {
        let missing = LookupFailure::MissingCapability { bits_left: 0 };
        let cap = match self.lookup(thread, from) {
            Ok(slot) => self.slots[slot].cap,
            Err(failure) => return self.receive_fault(thread, from, failure),
        };
        match cap {
            Capability::Endpoint { endpoint, rights, .. } if rights.read => {
                self.delete_simple(self.caller_slot(thread));
                self.receive_message(thread, endpoint, self.rules.grants.answer_carries(rights), receive);
            }
            Capability::Notification { notification, rights, .. }
                if rights.read && self.notifications[notification].bound.is_none_or(|bound| bound == thread) =>
            {
                self.receive_signal(thread, notification, receive);
            }
            _ => self.receive_fault(thread, from, missing),
        }
    }
}

/// The kernel's answer to a call that it refuses.
fn error_message(error: Error) -> Message {
    match error {
        Error::InvalidArgument(position) => Message::from_words(1, &[position]),
        Error::InvalidCapability(position) => Message::from_words(Message::NO_CAPABILITY, &[position]),
        Error::IllegalOperation => Message::new(3),
        Error::RangeError { min, max } => Message::from_words(4, &[min, max]),
        Error::AlignmentError => Message::new(5),
        Error::FailedLookup => Message::new(6),
        Error::TruncatedMessage => Message::new(7),
        Error::DeleteFirst => Message::new(8),
        Error::RevokeFirst => Message::new(9),
        Error::NotEnoughMemory(left) => Message::from_words(10, &[left]),
        Error::Unknown(code) => Message::new(code as u32),
    }
}
