//! Messages without the heap, for workers, which must not allocate: all words lie in the message itself.

use crate::bindings::bitfield::seL4_MessageInfo as message_info;
use crate::invocation::Sel4;
use crate::syscall::{REGISTER_WORDS, Received};
use platform::{CPtr, MESSAGE_WORDS};

/// A message to send or a message that came.
#[derive(Clone, Debug)]
pub struct FlatMessage {
    /// The message's label.
    pub label: u32,
    /// To send: the capability to send along. Received: always `None`.
    pub cap: Option<CPtr>,
    /// Received: a capability came and lies at the receive cptr.
    pub cap_received: bool,
    words: [u64; MESSAGE_WORDS],
    len: usize,
}

impl FlatMessage {
    /// A message of words; those beyond [`MESSAGE_WORDS`] are dropped.
    #[must_use]
    pub fn new(label: u32, words: impl IntoIterator<Item = u64>) -> Self {
        let mut message = Self { label, cap: None, cap_received: false, words: [0; MESSAGE_WORDS], len: 0 };
        for (room, word) in message.words.iter_mut().zip(words) {
            *room = word;
            message.len += 1;
        }
        message
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.words.get(..self.len).unwrap_or(&self.words)
    }
}

impl Sel4 {
    /// Prepares `message` for a system call: its description and the words in registers.
    pub(crate) fn put_flat_message(&self, message: &FlatMessage) -> (u64, [u64; REGISTER_WORDS]) {
        if let Some(cap) = message.cap {
            self.ipc_buffer().set_cap(0, cap.bits());
        }
        let words = message.words();
        let caps = u64::from(message.cap.is_some());
        let info = message_info::new(u64::from(message.label), 0, caps, words.len() as u64);
        (info, self.put_words(words))
    }

    /// The message that a system call left in registers and buffer.
    pub(crate) fn take_flat_message(&self, received: &Received) -> FlatMessage {
        // Peers may send more than our messages have.
        let len = (message_info::length(received.info) as usize).min(MESSAGE_WORDS);
        let word = |index| received.words.get(index).copied().unwrap_or_else(|| self.ipc_buffer().word(index));
        let mut message = FlatMessage::new(message_info::label(received.info) as u32, (0..len).map(word));
        message.cap_received = cap_came(received.info);
        message
    }
}

/// Whether a capability came at the receive cptr. One that was unwrapped came as a badge and filled no cptr; of several,
/// one that was not unwrapped did.
fn cap_came(info: u64) -> bool {
    let came = 1u64.wrapping_shl(message_info::extraCaps(info) as u32).wrapping_sub(1);
    came & !message_info::capsUnwrapped(info) != 0
}
