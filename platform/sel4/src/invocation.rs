//! Turns an invocation into a system call and its answer into a result. The functions with each method's label and the
//! order of its arguments are generated from the kernel's interface files; see `bindings/src/invocations.rs`.

use crate::bindings::{bitfield::seL4_MessageInfo as message_info, constant};
use crate::ipc_buffer::IpcBuffer;
use crate::syscall::{self, REGISTER_WORDS, Received};
use platform::{Error, Message, Result};

/// This thread's access to the kernel. Clones are the same.
#[derive(Clone, Debug)]
pub struct Sel4 {
    ipc_buffer: IpcBuffer,
}

/// The words of a successful answer.
pub(crate) struct Answer {
    words: [u64; REGISTER_WORDS],
}

impl Answer {
    /// Word `index`. Must be read before the next system call.
    #[inline]
    pub(crate) fn word(&self, kernel: &Sel4, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or_else(|| kernel.ipc_buffer.word(index))
    }
}

impl Sel4 {
    pub(crate) fn new(ipc_buffer: IpcBuffer) -> Self {
        Self { ipc_buffer }
    }

    pub(crate) const fn ipc_buffer(&self) -> IpcBuffer {
        self.ipc_buffer
    }

    /// Invokes `service`. The arrays' lengths are known at the call, so that all of it is unrolled there.
    #[inline(always)]
    pub(crate) fn invoke<const CAPS: usize, const WORDS: usize>(
        &self,
        label: u64,
        service: u64,
        caps: &[u64; CAPS],
        words: &[u64; WORDS],
    ) -> Result<Answer> {
        for (index, cap) in caps.iter().enumerate() {
            self.ipc_buffer.set_cap(index, *cap);
        }
        let registers = self.put_words(words);
        let info = message_info::new(label, 0, CAPS as u64, WORDS as u64);
        let received = syscall::call(service, info, registers);
        match message_info::label(received.info) {
            constant::seL4_NoError => Ok(Answer { words: received.words }),
            // If there is nothing to do (to unmap a frame that is not mapped), the kernel leaves the thread's registers as
            // they were, with the label of the invocation in the place of the error.
            code if code == label && code >= constant::seL4_NumErrors => Ok(Answer { words: received.words }),
            code => Err(error(code, received.words)),
        }
    }

    /// Puts the words that have no register into the buffer and returns the others.
    #[inline(always)]
    pub(crate) fn put_words(&self, words: &[u64]) -> [u64; REGISTER_WORDS] {
        let mut registers = [0; REGISTER_WORDS];
        for (index, word) in words.iter().enumerate() {
            match registers.get_mut(index) {
                Some(register) => *register = *word,
                None => self.ipc_buffer.set_word(index, *word),
            }
        }
        registers
    }

    /// Prepares `message` for a system call: its description and the words in registers.
    #[inline(always)]
    pub(crate) fn put_message(&self, message: &Message) -> (u64, [u64; REGISTER_WORDS]) {
        let words = message.words();
        if let Some(cap) = message.cap {
            self.ipc_buffer.set_cap(0, cap.bits());
        }
        if words.len() > REGISTER_WORDS {
            self.put_long_words(words);
        }
        let caps = u64::from(message.cap.is_some());
        let info = message_info::new(u64::from(message.label), 0, caps, words.len() as u64);
        (info, message.registers())
    }

    #[inline(never)]
    fn put_long_words(&self, words: &[u64]) {
        for (index, word) in words.iter().enumerate().skip(REGISTER_WORDS) {
            self.ipc_buffer.set_word(index, *word);
        }
    }

    /// The message that a system call left in registers and buffer.
    #[inline(always)]
    pub(crate) fn take_message(&self, received: &Received) -> Message {
        if is_short(received.info) { short_message(received) } else { self.take_long_message(received) }
    }

    #[inline(never)]
    fn take_long_message(&self, received: &Received) -> Message {
        let flat = self.take_flat_message(received);
        let mut message = Message::from_words(flat.label, flat.words());
        message.cap_received = flat.cap_received;
        message
    }
}

/// A message that is in registers as a whole.
#[inline(always)]
pub(crate) fn short_message(received: &Received) -> Message {
    let label = message_info::label(received.info) as u32;
    Message::in_registers(label, received.words, message_info::length(received.info) as usize)
}

/// Whether a message with this description is in registers as a whole.
#[inline]
pub(crate) fn is_short(info: u64) -> bool {
    message_info::length(info) as usize <= REGISTER_WORDS && message_info::extraCaps(info) == 0
}

/// The kernel's error, with its details from the first words.
#[cold]
fn error(code: u64, [first, second, ..]: [u64; REGISTER_WORDS]) -> Error {
    match code {
        constant::seL4_InvalidArgument => Error::InvalidArgument(first),
        constant::seL4_InvalidCapability => Error::InvalidCapability(first),
        constant::seL4_IllegalOperation => Error::IllegalOperation,
        constant::seL4_RangeError => Error::RangeError { min: first, max: second },
        constant::seL4_AlignmentError => Error::AlignmentError,
        constant::seL4_FailedLookup => Error::FailedLookup,
        constant::seL4_TruncatedMessage => Error::TruncatedMessage,
        constant::seL4_DeleteFirst => Error::DeleteFirst,
        constant::seL4_RevokeFirst => Error::RevokeFirst,
        constant::seL4_NotEnoughMemory => Error::NotEnoughMemory(first),
        code => Error::Unknown(code),
    }
}

/// Drops the words of a successful answer.
pub(crate) fn done<T>(result: Result<T>) -> Result<()> {
    result.map(|_| ())
}
