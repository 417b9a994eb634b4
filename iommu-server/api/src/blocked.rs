//! The page in which the server records blocked transactions by function, for the supervisor, which reads it at ticks.
//!
//! The page is a ring of [`Blocked`], behind the number of records ever written. A reader that is too late loses the oldest.
//! A server that is restarted finds the page empty and counts from 0.

use platform::{Memory, OutOfBounds, PAGE_SIZE};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Offset of the number of records.
const COUNT: usize = 0;
/// Offset of the first record.
const FIRST: usize = 64;
/// Records that the page has room for.
pub const RECORDS: u32 = ((PAGE_SIZE - FIRST) / size_of::<Blocked>()) as u32;

/// Transactions of one function that were blocked between two ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Blocked {
    /// The function: bus << 8 | device << 3 | function.
    pub requester_id: u16,
    /// [`WRITE`] and [`HAS_ADDRESS`], for the first of them.
    pub flags: u16,
    /// Number of transactions, at least 1.
    pub times: u32,
    /// The first one's address, where it has one.
    pub address: u64,
}

/// A write, not a read.
pub const WRITE: u16 = 1;
/// The SMMU reported the address.
pub const HAS_ADDRESS: u16 = 2;

/// The server's end.
#[derive(Debug)]
pub struct Writer<M> {
    page: M,
    written: u32,
}

impl<M: Memory> Writer<M> {
    /// Creates a writer at an empty page.
    pub const fn new(page: M) -> Self {
        Self { page, written: 0 }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the region is less than a page, or read-only.
    pub fn add(&mut self, blocked: &Blocked) -> Result<(), OutOfBounds> {
        self.page.write(place(self.written)?, blocked)?;
        self.written = self.written.wrapping_add(1);
        self.page.store_release_u32(COUNT, self.written)
    }
}

/// The supervisor's end.
#[derive(Debug)]
pub struct Reader<M> {
    page: M,
    read: u32,
}

impl<M: Memory> Reader<M> {
    /// Creates a reader at a page of which nothing was read.
    pub const fn new(page: M) -> Self {
        Self { page, read: 0 }
    }

    /// Takes the next record, `None` when there is none.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the region is less than a page.
    pub fn take(&mut self) -> Result<Option<Blocked>, OutOfBounds> {
        let written = self.page.load_acquire_u32(COUNT)?;
        if written == self.read {
            return Ok(None);
        }
        if written.wrapping_sub(self.read) > RECORDS {
            self.read = written.saturating_sub(RECORDS);
        }
        let blocked = self.page.read(place(self.read)?)?;
        self.read = self.read.wrapping_add(1);
        Ok(Some(blocked))
    }

    /// Restarts at an empty page, because the server was restarted.
    pub const fn begin_again(&mut self) {
        self.read = 0;
    }
}

fn place(record: u32) -> Result<usize, OutOfBounds> {
    let index = (record % RECORDS) as usize;
    index.checked_mul(size_of::<Blocked>()).and_then(|offset| offset.checked_add(FIRST)).ok_or(OutOfBounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use platform::fake::Ram;

    fn blocked(times: u32) -> Blocked {
        Blocked { requester_id: 0x0100, flags: WRITE | HAS_ADDRESS, times, address: 0x4000_0000 }
    }

    fn all(reader: &mut Reader<Ram>) -> Vec<u32> {
        core::iter::from_fn(|| reader.take().unwrap()).map(|blocked| blocked.times).collect()
    }

    #[test]
    fn every_record_is_read_once_and_in_order() {
        let page = Ram::new(PAGE_SIZE);
        let (mut writer, mut reader) = (Writer::new(page.clone()), Reader::new(page));
        assert_eq!(reader.take(), Ok(None));
        for round in 0..300 {
            for times in 0..round % 4 {
                writer.add(&blocked(round * 4 + times)).unwrap();
            }
            assert_eq!(all(&mut reader), (0..round % 4).map(|times| round * 4 + times).collect::<Vec<_>>());
        }
    }

    #[test]
    fn who_reads_too_late_has_the_last_ones() {
        let page = Ram::new(PAGE_SIZE);
        let (mut writer, mut reader) = (Writer::new(page.clone()), Reader::new(page));
        (0..2 * RECORDS).for_each(|times| writer.add(&blocked(times)).unwrap());
        assert_eq!(all(&mut reader), (RECORDS..2 * RECORDS).collect::<Vec<_>>());
    }

    #[test]
    fn a_new_servers_records_are_read_from_the_first() {
        let page = Ram::new(PAGE_SIZE);
        let mut reader = Reader::new(page.clone());
        Writer::new(page.clone()).add(&blocked(1)).unwrap();
        assert_eq!(all(&mut reader), [1]);
        Memory::write(&page, 0, &[0u64; 512]).unwrap();
        reader.begin_again();
        Writer::new(page).add(&blocked(2)).unwrap();
        assert_eq!(all(&mut reader), [2]);
    }

    #[test]
    fn impossible_count_ends_at_the_last_record() {
        let page = Ram::new(PAGE_SIZE);
        let mut reader = Reader::new(page.clone());
        page.store_release_u32(COUNT, u32::MAX).unwrap();
        assert_eq!(all(&mut reader).len(), RECORDS as usize);
        assert_eq!(Reader::new(Ram::new(8)).take(), Ok(None));
    }
}
