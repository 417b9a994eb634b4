//! An IPC message: a label, some words, at most one capability.

use crate::{CPtr, OutOfBounds};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Words a message of ours can carry. Four travel in registers (the kernel's fast path).
pub const MESSAGE_WORDS: usize = 32;

/// A message to send or a message that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What is asked or answered: 20 bits, each protocol numbers its own; answers 0 and from [`Message::ANSWERS`] on.
    pub label: u32,
    /// To send: the capability that goes along. Received: always `None`.
    pub cap: Option<CPtr>,
    /// Received: a capability came and lies in the environment's receive slot.
    pub cap_received: bool,
    words: [u64; MESSAGE_WORDS],
    len: usize,
}

impl Message {
    /// The first label, after 0, that a protocol may give its answers. Those below are the kernel's: it could not make the
    /// call, and says why (seL4 manual, Error Codes).
    pub const ANSWERS: u32 = 16;
    /// The kernel's answer to a call by a capability that is not there (`seL4_InvalidCapability`). The supervisor takes the
    /// capabilities to call a component that stays dead.
    pub const NO_CAPABILITY: u32 = 2;

    /// A message of a label alone.
    #[must_use]
    pub const fn new(label: u32) -> Self {
        Self { label, cap: None, cap_received: false, words: [0; MESSAGE_WORDS], len: 0 }
    }

    /// A message that carries `payload`, padded with zeros to whole words.
    ///
    /// Payloads are fixed structures of at most `MESSAGE_WORDS * 8` bytes; a larger one does not compile.
    #[must_use]
    pub fn with<T: IntoBytes + Immutable>(label: u32, payload: &T) -> Self {
        const { assert!(size_of::<T>() <= MESSAGE_WORDS * 8, "payload exceeds a message") };
        let mut message = Self::new(label);
        let bytes = payload.as_bytes();
        if let Some(room) = message.words.as_mut_bytes().get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
        }
        message.len = bytes.len().div_ceil(8);
        message
    }

    /// A message of bare words; those beyond [`MESSAGE_WORDS`] are dropped.
    #[must_use]
    pub fn from_words(label: u32, words: &[u64]) -> Self {
        let mut message = Self::new(label);
        for (room, word) in message.words.iter_mut().zip(words) {
            *room = *word;
        }
        message.len = words.len().min(MESSAGE_WORDS);
        message
    }

    /// The same message with a capability to send along.
    #[must_use]
    pub const fn and_cap(mut self, cap: CPtr) -> Self {
        self.cap = Some(cap);
        self
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.words.get(..self.len).unwrap_or_default()
    }

    /// The payload as a `T`. A short message is refused, a longer one is cut.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the message has fewer bytes than a `T`.
    pub fn payload<T: FromBytes>(&self) -> Result<T, OutOfBounds> {
        let bytes = self.words().as_bytes();
        let cut = bytes.get(..size_of::<T>()).ok_or(OutOfBounds)?;
        T::read_from_bytes(cut).map_err(|_| OutOfBounds)
    }
}

impl Default for Message {
    fn default() -> Self {
        Self::new(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_survives_the_way_there_and_back() {
        let message = Message::with(7, &[1u32, 2, 3]);
        assert_eq!(message.words(), [1 | 2 << 32, 3]);
        assert_eq!(message.payload::<[u32; 3]>(), Ok([1, 2, 3]));
    }

    #[test]
    fn short_message_is_refused() {
        let message = Message::from_words(1, &[5]);
        assert_eq!(message.payload::<[u64; 2]>(), Err(OutOfBounds));
        assert_eq!(message.payload::<u32>(), Ok(5));
    }
}
