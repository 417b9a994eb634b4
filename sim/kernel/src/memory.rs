//! Physical memory: the content of RAM, page by page. A page that was never written is not stored and reads as zeros.
//!
//! Neighbours: [`crate::kernel::Kernel`] clears the memory that a retype takes into use; callers that run a component or a device
//! read and write here after they translated an address. Left out: device registers, which are no memory.

use core::fmt;
use core::ops::Range;
use platform::{PAGE_SIZE, Paddr};
use sim_page::SharedPage;

/// The bytes of one page.
pub type Page = [u8; PAGE_SIZE];

const PAGE: u64 = PAGE_SIZE as u64;

/// An access that is not wholly in RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotRam;

impl fmt::Display for NotRam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not in RAM")
    }
}

impl core::error::Error for NotRam {}

/// The machine's RAM.
#[derive(Clone, Debug)]
pub struct PhysicalMemory {
    banks: Vec<Bank>,
    /// The content of a page that was never written.
    zeros: SharedPage,
}

#[derive(Clone, Debug)]
struct Bank {
    start: u64,
    end: u64,
    pages: Vec<Option<SharedPage>>,
}

impl PhysicalMemory {
    /// RAM at `ranges`, cut to whole pages.
    #[must_use]
    pub fn new(ranges: &[Range<u64>]) -> Self {
        let bank = |range: &Range<u64>| {
            let start = range.start.next_multiple_of(PAGE);
            let end = (range.end & !(PAGE - 1)).max(start);
            Bank { start, end, pages: vec![None; ((end - start) / PAGE) as usize] }
        };
        let mut banks: Vec<Bank> = ranges.iter().map(bank).collect();
        banks.sort_by_key(|bank| core::cmp::Reverse(bank.pages.len()));
        Self { banks, zeros: SharedPage::zeroes() }
    }

    /// Whether the page of `paddr` is RAM.
    #[must_use]
    pub fn contains(&self, paddr: Paddr) -> bool {
        self.banks.iter().any(|bank| bank.holds(paddr))
    }

    /// The page that `paddr` lies in; `None` outside RAM.
    #[inline]
    #[must_use]
    pub fn page(&self, paddr: Paddr) -> Option<&Page> {
        Some(self.shared(paddr)?.bytes())
    }

    /// The page that `paddr` lies in, to keep: later writes to memory do not change the kept page.
    #[inline]
    #[must_use]
    pub fn shared(&self, paddr: Paddr) -> Option<&SharedPage> {
        let bank = self.banks.iter().find(|bank| bank.holds(paddr))?;
        Some(bank.pages.get(bank.place(paddr))?.as_ref().unwrap_or(&self.zeros))
    }

    /// The page that `paddr` lies in, to write to; `None` outside RAM.
    #[inline]
    pub fn page_mut(&mut self, paddr: Paddr) -> Option<&mut Page> {
        Some(self.slot(paddr)?.get_or_insert_with(SharedPage::zeroes).bytes_mut())
    }

    /// Gives the page of `paddr` the content of `page`, without a copy until one of them is written.
    ///
    /// # Errors
    /// [`NotRam`].
    pub fn share(&mut self, paddr: Paddr, page: &SharedPage) -> Result<(), NotRam> {
        *self.slot(paddr).ok_or(NotRam)? = Some(page.clone());
        Ok(())
    }

    /// Copies bytes out; they may cross pages.
    ///
    /// # Errors
    /// [`NotRam`]; then some of `bytes` may have been filled.
    #[inline]
    pub fn read(&self, paddr: Paddr, bytes: &mut [u8]) -> Result<(), NotRam> {
        let mut at = paddr.bits();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (offset, len) = part(at, rest.len());
            let (head, tail) = rest.split_at_mut(len);
            let page = self.page(Paddr::new(at)).ok_or(NotRam)?;
            head.copy_from_slice(&page[offset..offset + len]);
            rest = tail;
            at = at.wrapping_add(len as u64);
        }
        Ok(())
    }

    /// Copies bytes in; they may cross pages.
    ///
    /// # Errors
    /// [`NotRam`]; then some of `bytes` may have been written.
    #[inline]
    pub fn write(&mut self, paddr: Paddr, bytes: &[u8]) -> Result<(), NotRam> {
        let mut at = paddr.bits();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (offset, len) = part(at, rest.len());
            let (head, tail) = rest.split_at(len);
            let page = self.slot(Paddr::new(at)).ok_or(NotRam)?;
            page.get_or_insert_with(SharedPage::zeroes).write(offset, head);
            rest = tail;
            at = at.wrapping_add(len as u64);
        }
        Ok(())
    }

    /// Bytes of RAM that were written, in whole pages.
    #[must_use]
    pub fn touched_bytes(&self) -> u64 {
        let pages = self.banks.iter().flat_map(|bank| &bank.pages);
        pages.filter(|page| page.is_some()).count() as u64 * PAGE
    }

    /// Zeroes the RAM in `range`.
    pub(crate) fn clear(&mut self, range: Range<u64>) {
        for bank in &mut self.banks {
            let (start, end) = (range.start.max(bank.start), range.end.min(bank.end));
            let mut at = start;
            while at < end {
                let len = (PAGE - at % PAGE).min(end - at);
                let page = &mut bank.pages[((at - bank.start) / PAGE) as usize];
                if len == PAGE {
                    *page = None;
                } else if let Some(page) = page {
                    let offset = (at % PAGE) as usize;
                    page.bytes_mut()[offset..offset + len as usize].fill(0);
                }
                at += len;
            }
        }
    }

    /// The place that stores the page of `paddr`.
    #[inline]
    fn slot(&mut self, paddr: Paddr) -> Option<&mut Option<SharedPage>> {
        let bank = self.banks.iter_mut().find(|bank| bank.holds(paddr))?;
        let place = bank.place(paddr);
        bank.pages.get_mut(place)
    }
}

impl Bank {
    #[inline]
    const fn holds(&self, paddr: Paddr) -> bool {
        self.start <= paddr.bits() && paddr.bits() < self.end
    }

    /// The number of the page of `paddr`, which lies in this bank.
    #[inline]
    const fn place(&self, paddr: Paddr) -> usize {
        ((paddr.bits() - self.start) / PAGE) as usize
    }
}

/// The offset of `paddr` in its page and how many of `len` bytes from there are in it.
#[inline]
fn part(paddr: u64, len: usize) -> (usize, usize) {
    let offset = (paddr % PAGE) as usize;
    (offset, len.min(PAGE_SIZE - offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_across_pages() {
        let mut memory = PhysicalMemory::new(&[0x1000..0x4000, 0x8000..0x9000]);
        memory.write(Paddr::new(0x1ffe), &[1, 2, 3, 4]).unwrap();
        let mut bytes = [9; 6];
        memory.read(Paddr::new(0x1ffd), &mut bytes).unwrap();
        assert_eq!(bytes, [0, 1, 2, 3, 4, 0]);
        assert_eq!(memory.touched_bytes(), 0x2000);
    }

    #[test]
    fn nothing_is_there_outside_ram() {
        let mut memory = PhysicalMemory::new(&[0x1000..0x2000, 0x8000..0x9000]);
        assert_eq!(memory.read(Paddr::new(0xfff), &mut [0; 2]), Err(NotRam));
        assert_eq!(memory.write(Paddr::new(0x1fff), &[0; 2]), Err(NotRam));
        assert_eq!(memory.read(Paddr::new(u64::MAX), &mut [0; 2]), Err(NotRam));
    }

    #[test]
    fn a_shared_page_keeps_its_content() {
        let mut memory = PhysicalMemory::new(&[0..0x2000, 0x8000..0x9000]);
        memory.write(Paddr::new(0), &[1]).unwrap();
        let kept = memory.shared(Paddr::new(0)).unwrap().clone();
        memory.share(Paddr::new(0x1234), &kept).unwrap();
        memory.write(Paddr::new(0), &[2]).unwrap();
        memory.write(Paddr::new(0x1001), &[3]).unwrap();
        assert_eq!(kept.bytes()[..2], [1, 0]);
        assert_eq!(memory.page(Paddr::new(0)).unwrap()[..2], [2, 0]);
        assert_eq!(memory.page(Paddr::new(0x1000)).unwrap()[..2], [1, 3]);
        assert_eq!(memory.share(Paddr::new(0x2000), &kept), Err(NotRam));
    }

    #[test]
    fn clearing_takes_parts_of_pages() {
        let mut memory = PhysicalMemory::new(&[0..0x3000, 0x8000..0x9000]);
        memory.write(Paddr::new(0), &[7; 0x3000]).unwrap();
        memory.clear(0xff0..0x2010);
        assert_eq!(memory.page(Paddr::new(0)).unwrap()[0xfee..0xff2], [7, 7, 0, 0]);
        assert_eq!(memory.page(Paddr::new(0x1000)).unwrap(), &[0; PAGE_SIZE]);
        assert_eq!(memory.page(Paddr::new(0x2000)).unwrap()[0xf..0x12], [0, 7, 7]);
    }
}
