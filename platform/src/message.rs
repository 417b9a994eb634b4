//! An IPC message: a label, some words, at most one capability.
//!
//! The cost of a message depends on its length: words that travel in registers lie in it, and those of a longer one on the
//! heap.

use crate::{CPtr, OutOfBounds};
use alloc::vec::Vec;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The most words of a message in our protocols.
pub const MESSAGE_WORDS: usize = 32;
/// Words that travel in registers (the kernel's fast path).
pub const REGISTER_WORDS: usize = 4;

/// A message to send or a message that came.
#[derive(Clone, Debug)]
pub struct Message {
    /// Number of the request or the answer, 20 bits. Each protocol numbers its own; answers are 0 and from
    /// [`Message::ANSWERS`] on.
    pub label: u32,
    /// Received: a capability came and lies at the environment's receive cptr.
    pub cap_received: bool,
    /// To send: the capability to send along. Received: always `None`.
    pub cap: Option<CPtr>,
    words: Words,
}

/// The words of a message.
#[derive(Clone, Debug)]
enum Words {
    /// At most as many as there are registers; those beyond `len` mean nothing.
    Few { len: usize, words: [u64; REGISTER_WORDS] },
    /// More.
    Many(Vec<u64>),
}

impl Message {
    /// The first label, after 0, that a protocol may give its answers. Those below are the kernel's errors when it cannot make
    /// the call (seL4 manual, Error Codes).
    pub const ANSWERS: u32 = 16;
    /// The kernel's answer to a call by a missing capability (`seL4_InvalidCapability`). The supervisor takes the capabilities to
    /// call a component that stays dead.
    pub const NO_CAPABILITY: u32 = 2;

    /// A message of a label alone.
    #[inline]
    #[must_use]
    pub const fn new(label: u32) -> Self {
        Self::in_registers(label, [0; REGISTER_WORDS], 0)
    }

    /// A message of the first `len` of `words`; of all four when `len` is larger.
    #[inline]
    #[must_use]
    pub const fn in_registers(label: u32, words: [u64; REGISTER_WORDS], len: usize) -> Self {
        let len = if len < REGISTER_WORDS { len } else { REGISTER_WORDS };
        Self { label, cap_received: false, cap: None, words: Words::Few { len, words } }
    }

    /// A message that carries `payload`, padded with zeros to whole words.
    ///
    /// Payloads are fixed structures of at most `MESSAGE_WORDS * 8` bytes; a larger one does not compile. Without memory for one
    /// that is longer than the registers it is cut to those, and the receiver refuses it as too short.
    #[inline]
    #[must_use]
    pub fn with<T: IntoBytes + Immutable>(label: u32, payload: &T) -> Self {
        const { assert!(size_of::<T>() <= MESSAGE_WORDS * 8, "payload exceeds a message") };
        let bytes = payload.as_bytes();
        if size_of::<T>() > REGISTER_WORDS * 8 {
            return Self::with_bytes(label, bytes);
        }
        let mut words = [0; REGISTER_WORDS];
        if let Some(room) = words.as_mut_bytes().get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
        }
        Self::in_registers(label, words, bytes.len().div_ceil(8))
    }

    #[inline(never)]
    fn with_bytes(label: u32, bytes: &[u8]) -> Self {
        let mut words = [0; MESSAGE_WORDS];
        if let Some(room) = words.as_mut_bytes().get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
        }
        Self::from_words(label, words.get(..bytes.len().div_ceil(8)).unwrap_or(&words))
    }

    /// A message of bare words; those beyond [`MESSAGE_WORDS`] are dropped, and those beyond the registers without memory for
    /// them.
    #[must_use]
    pub fn from_words(label: u32, words: &[u64]) -> Self {
        let words = words.get(..MESSAGE_WORDS).unwrap_or(words);
        let mut message = Self::new(label);
        let mut many = Vec::new();
        if words.len() > REGISTER_WORDS && many.try_reserve_exact(words.len()).is_ok() {
            many.extend_from_slice(words);
            message.words = Words::Many(many);
            return message;
        }
        let mut few = [0; REGISTER_WORDS];
        for (room, word) in few.iter_mut().zip(words) {
            *room = *word;
        }
        Self::in_registers(label, few, words.len())
    }

    /// This message with a capability to send along.
    #[must_use]
    pub const fn and_cap(mut self, cap: CPtr) -> Self {
        self.cap = Some(cap);
        self
    }

    /// The words.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64] {
        match &self.words {
            Words::Few { len, words } => words.get(..*len).unwrap_or(words),
            Words::Many(words) => words,
        }
    }

    /// The first words, for the registers. Those beyond the message's length mean nothing.
    #[inline]
    #[must_use]
    pub fn registers(&self) -> [u64; REGISTER_WORDS] {
        match &self.words {
            Words::Few { words, .. } => *words,
            Words::Many(words) => core::array::from_fn(|index| words.get(index).copied().unwrap_or_default()),
        }
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

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        let Self { label, cap_received, cap, words: _ } = self;
        (label, cap_received, cap) == (&other.label, &other.cap_received, &other.cap) && self.words() == other.words()
    }
}

impl Eq for Message {}

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

    #[test]
    fn words_are_the_same_whether_they_fit_the_registers_or_not() {
        let counted: [u64; 40] = core::array::from_fn(|index| index as u64 + 1);
        for len in 0..=counted.len() {
            let message = Message::from_words(9, &counted[..len]);
            let kept = len.min(MESSAGE_WORDS);
            assert_eq!(message.words(), &counted[..kept]);
            let registers = message.registers();
            assert_eq!(registers[..kept.min(REGISTER_WORDS)], counted[..kept.min(REGISTER_WORDS)]);
            assert_eq!(message.clone(), message);
        }
    }

    #[test]
    fn registers_beyond_the_length_are_no_part_of_a_message() {
        let message = Message::in_registers(3, [1, 2, 3, 4], 2);
        assert_eq!(message.words(), [1, 2]);
        assert_eq!(message, Message::from_words(3, &[1, 2]));
        assert_ne!(message, Message::from_words(3, &[1, 2, 3]));
        assert_eq!(Message::in_registers(3, [1, 2, 3, 4], 9).words(), [1, 2, 3, 4]);
    }

    #[test]
    fn payload_of_every_length_is_padded_to_whole_words() {
        assert_eq!(Message::with(1, &[7u8; 32]).words(), [0x0707_0707_0707_0707; 4]);
        assert_eq!(Message::with(1, &[7u8; 33]).words(), [&[0x0707_0707_0707_0707; 4][..], &[7]].concat());
        assert_eq!(Message::with(1, &[7u8; 256]).words(), [0x0707_0707_0707_0707; 32]);
    }
}
