//! Buffers of the data path. They grow to the largest transfer and stay, so the usual transfer allocates nothing.

use sim_page::{PAGE_BYTES, SharedPage};

use crate::host::Host;
use crate::prp::{Piece, Refusal, Walker};

/// Buffers of the data path.
#[derive(Debug, Default)]
pub(crate) struct Data {
    pub(crate) walker: Walker,
    /// Lent out by [`Data::take`].
    buffer: Vec<u8>,
    /// A second one, for comparing.
    second: Vec<u8>,
    /// Empty, but with its capacity; lent out by [`Data::take_pages`].
    pages: Vec<SharedPage>,
}

impl Data {
    /// Lends the buffer with `bytes` bytes of unspecified content.
    pub(crate) fn take(&mut self, bytes: u64) -> Vec<u8> {
        resized(std::mem::take(&mut self.buffer), bytes)
    }

    /// Lends the second buffer.
    pub(crate) fn take_second(&mut self, bytes: u64) -> Vec<u8> {
        resized(std::mem::take(&mut self.second), bytes)
    }

    /// Finds the pages that a PRP list names.
    ///
    /// # Errors
    /// Those of the walker.
    pub(crate) fn list(
        &mut self,
        list: u64,
        count: u64,
        page_bits: u32,
        host: &mut dyn Host,
    ) -> Result<Vec<u64>, Refusal> {
        self.walker.pages(list, count, page_bits, host)
    }

    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    pub(crate) fn give_second(&mut self, buffer: Vec<u8>) {
        self.second = buffer;
    }

    /// Lends an empty list of pages.
    pub(crate) fn take_pages(&mut self) -> Vec<SharedPage> {
        std::mem::take(&mut self.pages)
    }

    /// Takes the list back and releases its pages. If the list kept them, the next write to one of them would copy it.
    pub(crate) fn give_pages(&mut self, mut pages: Vec<SharedPage>) {
        pages.clear();
        self.pages = pages;
    }

    /// Whether the data found last are whole pages.
    pub(crate) fn is_in_whole_pages(&self) -> bool {
        let whole = |piece: &Piece| (piece.address | u64::from(piece.bytes)).is_multiple_of(PAGE_BYTES as u64);
        self.walker.pieces().iter().all(whole)
    }
}

fn resized(mut buffer: Vec<u8>, bytes: u64) -> Vec<u8> {
    buffer.resize(usize::try_from(bytes).unwrap_or(usize::MAX), 0);
    buffer
}
