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

#[cfg(test)]
mod tests {
    use super::*;
    use platform::PAGE_SIZE;
    use platform::fake::Ram;
    use zerocopy::IntoBytes;

    /// As the build machine writes a request.
    fn send(ram: &Ram, number: u32, request: &Request) {
        let Letter { header, bytes } = Letter::new(number, request).unwrap();
        ram.write_bytes(REQUESTS + HEADER_BYTES, &bytes).unwrap();
        ram.write_bytes(REQUESTS, header.as_bytes()).unwrap();
    }

    fn inbox() -> (Ram, Inbox<Ram>) {
        let ram = Ram::new(mailbox::PAGES * PAGE_SIZE);
        (ram.clone(), Inbox::new(ram))
    }

    #[test]
    fn a_request_is_taken_once_and_its_answer_has_its_number() {
        let (ram, mut inbox) = inbox();
        assert!(inbox.receive().unwrap().is_none());
        for number in [1, 2, u32::MAX] {
            send(&ram, number, &Request::Kill(7));
            let received = inbox.receive().unwrap().unwrap();
            assert_eq!((received.number, received.request), (number, Some(Request::Kill(7))));
            assert!(inbox.receive().unwrap().is_none());
            inbox.answer(number, &Answer::Done { took_ns: 5 }).unwrap();
            assert_eq!(ram.load_acquire_u32(ANSWERS), Ok(number));
        }
    }

    #[test]
    fn a_million_letters_of_garbage_are_no_request() {
        let (ram, mut inbox) = inbox();
        let (mut state, mut damaged) = (1u64, 0);
        let mut words = [0u64; 16];
        for _ in 0..1_000_000 {
            for word in &mut words {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *word = state >> 8;
            }
            // Half of them have a version and a length that there can be.
            if state >> 63 == 0 {
                words[1] = u64::from(mailbox::VERSION) | (state >> 32 & 0x7f) << 16;
            }
            ram.write_bytes(REQUESTS, words.as_bytes()).unwrap();
            if let Some(Received { number, request }) = inbox.receive().unwrap() {
                assert!(number != 0 && request.is_none());
                damaged += 1;
            }
        }
        assert!(damaged > 990_000, "{damaged} were looked at");
    }

    #[test]
    fn a_mailbox_of_one_page_is_refused() {
        assert!(Inbox::new(Ram::new(PAGE_SIZE)).receive().is_err());
    }
}
