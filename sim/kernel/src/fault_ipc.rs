//! The messages to a thread's fault endpoint about an action it may not do, and the effect of the reply.

use crate::Arch;
use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::delivery::{Authority, Send};
use crate::fault::{
    CAPABILITY_FAULT, Fault, LookupFailure, PendingFault, SYSCALL_IP, SYSCALL_REGISTERS, SYSCALL_SP, UNKNOWN_SYSCALL,
    USER_EXCEPTION, VM_FAULT, failure_len, failure_words,
};
use crate::invocation::REGISTER_WORDS;
use crate::kernel::Kernel;
use crate::schedule::OnEqual;
use crate::slots::SlotId;
use crate::thread::ThreadState;
use platform::{CPtr, MESSAGE_WORDS, Message};

impl Kernel {
    /// Reports a fault of `thread`, as the processor does: sends it to its fault endpoint, and the thread waits for the
    /// reply. Without an endpoint to send it to, the thread stops for good.
    ///
    /// When the thread runs again, [`Kernel::take`] returns [`Restart`](crate::delivery::Delivery::Restart): the faulting operation
    /// has to be repeated.
    pub fn fault(&mut self, thread: ThreadId, fault: Fault) {
        if !self.enter(thread) {
            return;
        }
        let status = match fault {
            Fault::Vm { vaddr, access } => self.page_fault_code(thread, vaddr, access),
            _ => 0,
        };
        self.send_fault(thread, PendingFault { fault, status, failure: None });
        self.leave();
    }

    /// The slot that `cptr` names; when it names none, the thread faults.
    pub(crate) fn lookup_or_fault(&mut self, thread: ThreadId, cptr: CPtr) -> Option<SlotId> {
        match self.lookup(thread, cptr) {
            Ok(slot) => Some(slot),
            Err(failure) => {
                self.capability_fault(thread, cptr, failure, false);
                None
            }
        }
    }

    /// Reports a fault while `thread` receives through `cptr`.
    pub(crate) fn receive_fault(&mut self, thread: ThreadId, cptr: CPtr, failure: LookupFailure) {
        self.capability_fault(thread, cptr, failure, true);
    }

    fn capability_fault(&mut self, thread: ThreadId, cptr: CPtr, failure: LookupFailure, is_receiving: bool) {
        let fault = Fault::Capability { cptr, is_receiving };
        self.send_fault(thread, PendingFault { fault, status: 0, failure: Some(failure) });
    }

    fn send_fault(&mut self, thread: ThreadId, fault: PendingFault) {
        let handler = self.lookup(thread, self.threads[thread].fault_handler);
        let handler = handler.map(|slot| self.slots[slot].cap);
        match handler {
            Ok(Capability::Endpoint { endpoint, badge, rights })
                if rights.write && (rights.grant || rights.grant_reply) =>
            {
                self.threads[thread].fault = Some(fault);
                let authority = Authority { badge, can_grant: true, can_be_answered: true };
                self.send_message(thread, endpoint, Send::Call, authority);
            }
            Ok(_) | Err(_) => self.set_state(thread, ThreadState::Inactive),
        }
    }

    /// The message of the fault of `sender`, if it has one.
    pub(crate) fn fault_message(&self, sender: ThreadId, receiver: ThreadId) -> Option<Message> {
        let PendingFault { fault, status, failure } = self.threads[sender].fault?;
        let context = &self.threads[sender].context;
        let ip = context.instruction_pointer;
        let limit = if self.has_buffer_to_receive(receiver) { MESSAGE_WORDS } else { REGISTER_WORDS };
        // The x86_64 kernel of 5.0.0 cuts the address to 32 bits.
        let address_mask = if self.arch == Arch::X86_64 && !self.is_current() { 0xffff_ffff } else { u64::MAX };
        let (label, words) = match fault {
            Fault::Vm { vaddr, .. } => (VM_FAULT, &[ip, vaddr & address_mask, 0, status][..]),
            Fault::Capability { cptr, is_receiving } => {
                let [kind, words @ ..] = failure_words(failure);
                let all = [ip, cptr.bits(), is_receiving.into(), kind, words[0], words[1], words[2]];
                let len = (4 + failure_len(failure)).min(limit);
                return Some(Message::from_words(CAPABILITY_FAULT, &all[..len]));
            }
            Fault::UnknownSyscall(number) => {
                let mut all = [0; SYSCALL_REGISTERS + 1];
                all[SYSCALL_IP] = ip;
                all[SYSCALL_SP] = context.stack_pointer;
                all[SYSCALL_REGISTERS] = number;
                return Some(Message::from_words(UNKNOWN_SYSCALL, &all[..limit.min(all.len())]));
            }
            Fault::Exception(number) => {
                let all = [ip, context.stack_pointer, 0, number.into(), 0];
                return Some(Message::from_words(USER_EXCEPTION, &all[..limit.min(all.len())]));
            }
        };
        Some(Message::from_words(label, words))
    }

    /// Takes the outgoing message of `thread` as the reply to the fault of `receiver`.
    pub(crate) fn answer_fault(&mut self, thread: ThreadId, receiver: ThreadId) {
        let Some(pending) = self.threads[receiver].fault.take() else { return };
        let answer = &self.threads[thread].outgoing;
        let word = |index: usize| answer.words().get(index).copied();
        let (goes_on, pointers) = match pending.fault {
            Fault::Vm { .. } | Fault::Capability { .. } => (true, (None, None)),
            Fault::UnknownSyscall(_) => (answer.label == 0, (word(SYSCALL_IP), word(SYSCALL_SP))),
            Fault::Exception(_) => (answer.label == 0, (word(0), word(1))),
        };
        let instruction_pointer = pointers.0.map(|address| self.jumpable_or_zero(address));
        let context = &mut self.threads[receiver].context;
        context.instruction_pointer = instruction_pointer.unwrap_or(context.instruction_pointer);
        context.stack_pointer = pointers.1.unwrap_or(context.stack_pointer);
        if goes_on {
            self.set_restarting(receiver);
            self.wake(receiver, OnEqual::Switch);
        } else {
            self.set_state(receiver, ThreadState::Inactive);
        }
    }
}
