//! The PRP walker: from the two entries of a command to pieces of the host's memory (section 4.3).
//!
//! The first entry may start anywhere in its page, at a multiple of four bytes. Everything else starts on page
//! boundaries: one more page by the second entry, or a list that the second entry points to. A list may start anywhere
//! in its page, at a multiple of eight. Its last place in a page points to the next list page when more than one entry
//! is still to come.

use nvme_spec::{DataPointer, StatusCode};

use crate::host::Host;
use crate::violation::ViolationKind;

/// A piece of the host's memory that is contiguous for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
}

/// A refusal: the status, and the driver's violation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) kind: ViolationKind,
}

/// The command that the data belong to, for refusals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) sq: u16,
    pub(crate) cid: u16,
}

/// Finder of the pieces of transfers. Its buffers are reused from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Walker {
    pieces: Vec<Piece>,
    list: Vec<u8>,
}

impl Walker {
    /// The pieces found last.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Finds the pieces of `bytes` bytes at `data`, with memory pages of `1 << page_bits` bytes.
    ///
    /// # Errors
    /// Invalid offsets, and list pages that cannot be read. The second value of success is an entry that is not 0
    /// though it is unused.
    pub(crate) fn walk(
        &mut self,
        data: DataPointer,
        bytes: u64,
        page_bits: u32,
        owner: Owner,
        host: &mut dyn Host,
    ) -> Result<Option<u64>, Refusal> {
        self.pieces.clear();
        if bytes == 0 {
            return Ok([data.prp1, data.prp2].into_iter().find(|&entry| entry != 0));
        }
        let page = 1_u64 << page_bits;
        aligned(data.prp1, 4, owner)?;
        let first = (page - data.prp1 % page).min(bytes);
        self.push(data.prp1, first);
        let rest = bytes - first;
        if rest == 0 {
            return Ok((data.prp2 != 0).then_some(data.prp2));
        }
        if rest <= page {
            aligned(data.prp2, page, owner)?;
            self.push(data.prp2, rest);
            return Ok(None);
        }
        self.walk_list(data.prp2, rest, page, owner, host)?;
        Ok(None)
    }

    /// Finds the pages that a list names, for a queue: `count` pages of `page` bytes.
    ///
    /// # Errors
    /// As for [`walk`](Self::walk).
    pub(crate) fn pages(
        &mut self,
        list: u64,
        count: u64,
        page_bits: u32,
        host: &mut dyn Host,
    ) -> Result<Vec<u64>, Refusal> {
        self.pieces.clear();
        let page = 1_u64 << page_bits;
        self.walk_list(list, count * page, page, Owner { sq: 0, cid: 0 }, host)?;
        let pages =
            |piece: &Piece| (piece.address..).step_by(page as usize).take((u64::from(piece.bytes) / page) as usize);
        Ok(self.pieces.iter().flat_map(pages).collect())
    }

    fn walk_list(
        &mut self,
        mut list: u64,
        mut rest: u64,
        page: u64,
        owner: Owner,
        host: &mut dyn Host,
    ) -> Result<(), Refusal> {
        aligned(list, 8, owner)?;
        while rest > 0 {
            let places = (page - list % page) / 8;
            let needed = rest.div_ceil(page);
            let chained = needed > places;
            let taken = needed.min(places);
            self.read_list(list, taken, host)?;
            let entries = if chained { taken - 1 } else { taken };
            for index in 0..entries {
                let entry = self.entry(index);
                aligned(entry, page, owner)?;
                let bytes = rest.min(page);
                self.push(entry, bytes);
                rest -= bytes;
            }
            if chained {
                list = self.entry(entries);
                aligned(list, page, owner)?;
            }
        }
        Ok(())
    }

    fn read_list(&mut self, list: u64, entries: u64, host: &mut dyn Host) -> Result<(), Refusal> {
        self.list.resize(entries as usize * 8, 0);
        host.read(list, &mut self.list).map_err(|_| Refusal {
            status: StatusCode::DataTransferError,
            kind: ViolationKind::DmaBlocked { address: list },
        })
    }

    fn entry(&self, index: u64) -> u64 {
        let at = index as usize * 8;
        let bytes = self.list.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    }

    /// Adds a piece, merged with the one before where they adjoin.
    fn push(&mut self, address: u64, bytes: u64) {
        let bytes = bytes as u32;
        if let Some(last) = self.pieces.last_mut()
            && last.address.checked_add(u64::from(last.bytes)) == Some(address)
            && let Some(sum) = last.bytes.checked_add(bytes)
        {
            last.bytes = sum;
            return;
        }
        self.pieces.push(Piece { address, bytes });
    }
}

fn aligned(entry: u64, to: u64, owner: Owner) -> Result<(), Refusal> {
    if entry.is_multiple_of(to) {
        return Ok(());
    }
    let kind = ViolationKind::PrpOffset { sq: owner.sq, cid: owner.cid, entry };
    Err(Refusal { status: StatusCode::PrpOffset, kind })
}

#[cfg(test)]
#[path = "prp_tests.rs"]
mod tests;
