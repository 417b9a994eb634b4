//! Faults: messages to a thread's fault endpoint about an action it may not do, and the effect of the reply.

use crate::Arch;
use crate::Kernel;
use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::cnode::LookupFailure;
use crate::endpoint::{Authority, Send};
use crate::invocation::REGISTER_WORDS;
use crate::schedule::OnEqual;
use crate::slots::SlotId;
use crate::thread::ThreadState;
use crate::vspace::Access;
use platform::{CPtr, MESSAGE_WORDS, Message};

/// Labels of fault messages (seL4 5.0.0, `seL4_Fault`).
const CAPABILITY_FAULT: u32 = 1;
const UNKNOWN_SYSCALL: u32 = 2;
const USER_EXCEPTION: u32 = 3;
const VM_FAULT: u32 = 5;
/// The processor's page fault error code (Intel SDM volume 3, section 4.7).
const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
/// Words of an unknown syscall's message before its number, and where among them are instruction and stack pointer.
const SYSCALL_REGISTERS: usize = 18;
const SYSCALL_IP: usize = 15;
const SYSCALL_SP: usize = 16;

/// The invalid action of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The thread accessed memory that is not mapped for this access.
    Vm {
        /// The address.
        vaddr: u64,
        /// The access.
        access: Access,
    },
    /// The thread used a path that leads to no capability.
    Capability {
        /// The path.
        cptr: CPtr,
        /// Whether the thread was receiving.
        is_receiving: bool,
    },
    /// The thread made a system call that does not exist.
    UnknownSyscall(u64),
    /// The processor raised an exception.
    Exception(u32),
}

/// A fault without reply so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingFault {
    fault: Fault,
    /// The processor's error code, for memory.
    status: u64,
    /// The lookup failure, for capabilities.
    failure: Option<LookupFailure>,
}

impl Kernel {
    /// Reports a fault of `thread`, as the processor does: sends it to its fault endpoint, and the thread waits for the
    /// reply. Without an endpoint to send it to, the thread stops for good.
    ///
    /// When the thread runs again, [`Kernel::take`] returns [`Restart`](crate::Delivery::Restart): the faulting operation
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

/// Number and words of a lookup failure, as messages have them.
fn failure_words(failure: Option<LookupFailure>) -> [u64; 4] {
    match failure {
        None | Some(LookupFailure::InvalidRoot) => [1, 0, 0, 0],
        Some(LookupFailure::MissingCapability { bits_left }) => [2, bits_left.into(), 0, 0],
        Some(LookupFailure::DepthMismatch { bits_found, bits_left }) => [3, bits_left.into(), bits_found.into(), 0],
        Some(LookupFailure::GuardMismatch { guard, bits_left, bits_found }) => {
            [4, bits_left.into(), guard, bits_found.into()]
        }
    }
}

/// Number of words that follow the failure's number.
const fn failure_len(failure: Option<LookupFailure>) -> usize {
    match failure {
        None | Some(LookupFailure::InvalidRoot) => 0,
        Some(LookupFailure::MissingCapability { .. }) => 1,
        Some(LookupFailure::DepthMismatch { .. }) => 2,
        Some(LookupFailure::GuardMismatch { .. }) => 3,
    }
}

/// A decoded fault message of the kernel, for a supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultReport {
    /// The fault.
    pub fault: Fault,
    /// The address of the instruction.
    pub instruction: u64,
}

impl FaultReport {
    /// Decodes `message`; `None` when the kernel did not write it.
    #[must_use]
    pub fn decode(message: &Message) -> Option<Self> {
        let word = |index: usize| message.words().get(index).copied();
        let (fault, instruction) = match message.label {
            VM_FAULT => {
                let (instruction, vaddr) = (word(0)?, word(1)?);
                let access = match (word(2)?, word(3)?) {
                    (_, status) if status & WRITE != 0 => Access::Write,
                    // The processor distinguishes fetches from reads only where no-execute is in use.
                    (prefetch, _) if prefetch != 0 || vaddr == instruction => Access::Execute,
                    _ => Access::Read,
                };
                (Fault::Vm { vaddr, access }, instruction)
            }
            CAPABILITY_FAULT => {
                (Fault::Capability { cptr: CPtr::new(word(1)?), is_receiving: word(2)? != 0 }, word(0)?)
            }
            UNKNOWN_SYSCALL => (Fault::UnknownSyscall(word(SYSCALL_REGISTERS)?), word(SYSCALL_IP)?),
            USER_EXCEPTION => (Fault::Exception(word(3)? as u32), word(0)?),
            _ => return None,
        };
        Some(Self { fault, instruction })
    }
}

/// The error code of a page fault at user level.
pub(crate) fn page_fault_status(is_present: bool, access: Access) -> u64 {
    let present = if is_present { PRESENT } else { 0 };
    let write = if access == Access::Write { WRITE } else { 0 };
    USER | present | write
}
