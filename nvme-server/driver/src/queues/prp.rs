//! PRP entries and lists (NVM Express base specification 1.4, section 4.3).
//!
//! The data of a command is one range of the controller's address space. PRP1 names its first byte; a second page is
//! named by PRP2; more pages by a list, whose last entry, when one page of list does not suffice, names the next page
//! of the list.

use crate::fault::DeviceFault;
use crate::queue_pair::Ring;
use nvme_spec::DataPointer;
use nvme_spec::nvm::Range;
use platform::{Iova, Memory, PAGE_SIZE, SlotWriter};

/// Bytes of an entry.
const ENTRY: usize = 8;
/// Entries a page holds.
const PER_PAGE: u64 = (PAGE_SIZE / ENTRY) as u64;
/// The entry that names the next page of the list, where there is one: the last.
const LINK: u64 = PER_PAGE - 1;
const PAGE: u64 = PAGE_SIZE as u64;

/// List pages that a transfer of `bytes`, at any offset in its first page, can need.
#[must_use]
pub const fn list_pages(bytes: u64) -> u64 {
    // Pages touched beyond the first; all are in the list when there are more than one.
    let entries = bytes.div_ceil(PAGE);
    if entries <= 1 { 0 } else { pages_for(entries) }
}

/// Pages of a list of `entries` entries. Each but the last uses one entry for the link.
const fn pages_for(entries: u64) -> u64 {
    entries.saturating_sub(PER_PAGE).div_ceil(LINK).saturating_add(1)
}

/// The data pointer for `bytes` from `start` on, if they lie in one page or two; `None` when a list is needed.
#[inline(always)]
pub fn without_list(start: Iova, bytes: u32) -> Option<DataPointer> {
    let prp1 = start.bits();
    let offset = prp1 % PAGE;
    // Bytes from the first page's start on.
    let end = offset.wrapping_add(u64::from(bytes));
    if end <= PAGE {
        return Some(DataPointer { prp1, prp2: 0 });
    }
    let second = prp1.wrapping_sub(offset).wrapping_add(PAGE);
    (end <= 2 * PAGE).then_some(DataPointer { prp1, prp2: second })
}

/// The list pages of a queue pair: equally many for each command that it may have in flight, one command's behind another's.
pub struct PrpLists<M: Memory> {
    memory: Ring<M>,
    entries: M::Writer<u64>,
    /// Pages of one command.
    pages: u64,
}

impl<M: Memory> PrpLists<M> {
    /// Lists of `pages` pages each for `commands` commands, which lie in `memory`.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] when they do not.
    pub fn new(memory: Ring<M>, commands: u16, pages: u64) -> Result<Self, DeviceFault> {
        let entries = pages.checked_mul(PER_PAGE).and_then(|entries| entries.checked_mul(u64::from(commands)));
        let entries = entries.and_then(|entries| u32::try_from(entries).ok()).ok_or(DeviceFault::OwnMemory)?;
        Ok(Self { entries: memory.memory.writer(memory.offset, entries)?, memory, pages })
    }

    /// Writes the PRPs of the `bytes` from `start` on, for the command in place `command`. `start` is a multiple of 4.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] when the list needs more pages than there are: the splitter prevents that.
    pub fn build(&self, command: u16, start: Iova, bytes: u32) -> Result<DataPointer, DeviceFault> {
        if let Some(data) = without_list(start, bytes) {
            return Ok(data);
        }
        let in_first = PAGE.wrapping_sub(start.bits() % PAGE);
        let rest = u64::from(bytes).wrapping_sub(in_first);
        let list = self.first_page(command)?;
        self.write(command, list, start.bits().wrapping_add(in_first), rest.div_ceil(PAGE))?;
        Ok(DataPointer { prp1: start.bits(), prp2: list })
    }

    /// Writes the range of a deallocation where the command's list would be, and names it.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] without list pages.
    pub fn build_range(&self, command: u16, range: &Range) -> Result<DataPointer, DeviceFault> {
        let page = self.first_page(command)?;
        let offset = page.wrapping_sub(self.memory.iova.bits()) as usize;
        self.memory.memory.write(self.memory.offset.wrapping_add(offset), range)?;
        Ok(DataPointer::page(page))
    }

    /// Address of a command's first list page for the controller.
    fn first_page(&self, command: u16) -> Result<u64, DeviceFault> {
        let bytes = u64::from(command).wrapping_mul(self.pages).wrapping_mul(PAGE);
        Ok(self.memory.iova.checked_add(bytes).ok_or(DeviceFault::OwnMemory)?.bits())
    }

    /// Writes `count` entries for consecutive pages from `page` on. Where a page of the list does not suffice, its last entry
    /// names the next one.
    fn write(&self, command: u16, mut list: u64, mut page: u64, mut count: u64) -> Result<(), DeviceFault> {
        if pages_for(count) > self.pages {
            return Err(DeviceFault::OwnMemory);
        }
        // No more entries than the row has: they fit into 32 bits.
        let mut first = u64::from(command).wrapping_mul(self.pages).wrapping_mul(PER_PAGE) as u32;
        loop {
            let here = if count <= PER_PAGE { count } else { LINK };
            for index in first..first.wrapping_add(here as u32) {
                self.entries.write(index, &page);
                page = page.wrapping_add(PAGE);
            }
            count = count.wrapping_sub(here);
            if count == 0 {
                return Ok(());
            }
            list = list.wrapping_add(PAGE);
            self.entries.write(first.wrapping_add(LINK as u32), &list);
            first = first.wrapping_add(PER_PAGE as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use platform::fake::Ram;

    const LIST: u64 = 0x1000_0000;

    /// The command whose list is written: the lists of others lie before it and behind it.
    const COMMAND: u16 = 1;

    fn pages(count: u64) -> PrpLists<Ram> {
        let memory = Ring { memory: Ram::new(25 * PAGE_SIZE), offset: PAGE_SIZE, iova: Iova::new(LIST) };
        PrpLists::new(memory, 3, count).unwrap()
    }

    fn build(list: &PrpLists<Ram>, start: u64, bytes: u32) -> Result<DataPointer, DeviceFault> {
        list.build(COMMAND, Iova::new(start), bytes)
    }

    /// Reads the entries back as a controller does, following links.
    fn walk(list: &PrpLists<Ram>, data: DataPointer, bytes: u32) -> Vec<u64> {
        let mut found = Vec::from([data.prp1]);
        let in_first = PAGE - data.prp1 % PAGE;
        let mut left = u64::from(bytes).saturating_sub(in_first).div_ceil(PAGE);
        if left == 1 {
            found.push(data.prp2);
            return found;
        }
        let mut at = data.prp2;
        while left > 0 {
            let entry: u64 = list.memory.memory.read((at - LIST) as usize + PAGE_SIZE).unwrap();
            if at % PAGE == PAGE - 8 && left > 1 {
                at = entry;
                continue;
            }
            found.push(entry);
            at += 8;
            left -= 1;
        }
        found
    }

    fn expected(start: u64, bytes: u32) -> Vec<u64> {
        let end = start + u64::from(bytes);
        let later = (start / PAGE + 1..end.div_ceil(PAGE)).map(|page| page * PAGE);
        core::iter::once(start).chain(later).collect()
    }

    #[test]
    fn one_and_two_pages_need_no_list() {
        let list = pages(0);
        assert_eq!(build(&list, 0x5000, 4096), Ok(DataPointer { prp1: 0x5000, prp2: 0 }));
        assert_eq!(build(&list, 0x5004, 4092), Ok(DataPointer { prp1: 0x5004, prp2: 0 }));
        assert_eq!(build(&list, 0x5004, 4096), Ok(DataPointer { prp1: 0x5004, prp2: 0x6000 }));
        assert_eq!(build(&list, 0x5000, 8192), Ok(DataPointer { prp1: 0x5000, prp2: 0x6000 }));
    }

    #[test]
    fn three_pages_are_named_by_a_list() {
        let list = pages(1);
        let data = build(&list, 0x5200, 8192).unwrap();
        assert_eq!(data, DataPointer { prp1: 0x5200, prp2: LIST + PAGE });
        assert_eq!(walk(&list, data, 8192), [0x5200, 0x6000, 0x7000]);
    }

    #[test]
    fn a_full_page_of_list_has_no_link() {
        let list = pages(1);
        let bytes = 513 * 4096;
        let data = build(&list, 0x40_0000, bytes).unwrap();
        assert_eq!(walk(&list, data, bytes), expected(0x40_0000, bytes));
    }

    #[test]
    fn long_lists_are_chained_over_several_pages() {
        let list = pages(3);
        for bytes in [514 * 4096, 1023 * 4096, 1024 * 4096, 1025 * 4096, 1500 * 4096] {
            let data = build(&list, 0x40_0204, bytes).unwrap();
            assert_eq!(walk(&list, data, bytes), expected(0x40_0204, bytes));
        }
    }

    #[test]
    fn a_list_that_does_not_fit_is_an_error() {
        assert_eq!(build(&pages(1), 0, 514 * 4096), Err(DeviceFault::OwnMemory));
        assert_eq!(build(&pages(0), 0, 3 * 4096), Err(DeviceFault::OwnMemory));
    }

    proptest::proptest! {
        #[test]
        fn list_pages_suffice_for_every_offset(start in 0u64..4096, blocks in 1u32..4096) {
            let bytes = blocks * 512;
            let list = pages(list_pages(u64::from(bytes)));
            let start = (start & !3) + 0x100_0000;
            let data = build(&list, start, bytes).unwrap();
            proptest::prop_assert_eq!(walk(&list, data, bytes), expected(start, bytes));
        }
    }
}
