//! The component's side of the mailbox: each request is taken once, and answered with its number.

use alloc::vec;
use control_api::mailbox::{self, ANSWERS, HEADER_BYTES, Header, Letter, REQUESTS};
use control_api::{Answer, Request};
use platform::{Memory, OutOfBounds};

/// The mailbox.
pub(crate) struct Inbox<M> {
    memory: M,
    /// The last request that was taken.
    last: u32,
}

/// A request.
pub(crate) struct Received {
    pub(crate) number: u32,
    /// The request; `None` if the letter is damaged.
    pub(crate) request: Option<Request>,
}

impl<M: Memory> Inbox<M> {
    pub(crate) const fn new(memory: M) -> Self {
        Self { memory, last: 0 }
    }

    /// The request that was not taken yet, if there is one. The build machine may write at any moment, so the letter is copied, and
    /// counts only if its number is the same afterwards.
    ///
    /// # Errors
    /// The mailbox is too short.
    pub(crate) fn receive(&mut self) -> Result<Option<Received>, OutOfBounds> {
        let number = self.memory.load_acquire_u32(REQUESTS)?;
        if number == 0 || number == self.last {
            return Ok(None);
        }
        let header: Header = self.memory.read(REQUESTS)?;
        let mut bytes = vec![0; mailbox::len(&header).unwrap_or(0)];
        self.memory.read_bytes(REQUESTS.saturating_add(HEADER_BYTES), &mut bytes)?;
        if self.memory.load_acquire_u32(REQUESTS)? != number || header.number != number {
            // The next letter is being written.
            return Ok(None);
        }
        self.last = number;
        Ok(Some(Received { number, request: Letter { header, bytes }.open() }))
    }

    /// Writes the answer to the request with this number.
    ///
    /// # Errors
    /// The mailbox is too short.
    pub(crate) fn answer(&self, number: u32, answer: &Answer) -> Result<(), OutOfBounds> {
        let Letter { header, bytes } = Letter::new(number, answer).ok_or(OutOfBounds)?;
        self.memory.write_bytes(ANSWERS.saturating_add(HEADER_BYTES), &bytes)?;
        // All but the number.
        self.memory.write(ANSWERS, &Header { number: self.memory.load_acquire_u32(ANSWERS)?, ..header })?;
        self.memory.store_release_u32(ANSWERS, number)
    }
}
