//! PRP entries and lists (NVM Express base specification 1.4, section 4.3).
//!
//! The data of a command is one range of the controller's address space. PRP1 names its first byte; a second page is
//! named by PRP2; more pages by a list, whose last entry, when one page of list does not suffice, names the next page
//! of the list.

use crate::fault::DeviceFault;
use nvme_spec::DataPointer;
use platform::{Iova, Memory, PAGE_SIZE};

/// Bytes of an entry.
const ENTRY: usize = 8;
/// Entries a page holds.
const PER_PAGE: u64 = (PAGE_SIZE / ENTRY) as u64;
const PAGE: u64 = PAGE_SIZE as u64;

/// List pages that a transfer of `bytes`, at any offset in its first page, can need.
#[must_use]
pub const fn list_pages(bytes: u64) -> u64 {
    // Pages touched beyond the first; all are in the list when there are more than one.
    let entries = bytes.div_ceil(PAGE);
    if entries <= 1 {
        return 0;
    }
    // Every page of list but the last gives up an entry for the link.
    entries.saturating_sub(PER_PAGE).div_ceil(PER_PAGE.saturating_sub(1)).saturating_add(1)
}

/// What names `bytes` from `start` on when they lie in one page or two; `None` when a list is needed.
#[inline(always)]
pub(crate) fn without_list(start: Iova, bytes: u32) -> Option<DataPointer> {
    let prp1 = start.bits();
    let in_first = PAGE.wrapping_sub(prp1 % PAGE);
    let bytes = u64::from(bytes);
    if bytes <= in_first {
        return Some(DataPointer { prp1, prp2: 0 });
    }
    (bytes <= in_first.wrapping_add(PAGE)).then_some(DataPointer { prp1, prp2: prp1.wrapping_add(in_first) })
}

/// The pages one command may write its list into.
#[derive(Clone, Debug)]
pub struct ListPages<M> {
    /// Memory that holds them, consecutively from `offset`.
    pub memory: M,
    /// Byte offset of the first.
    pub offset: usize,
    /// Where the controller finds the first.
    pub iova: Iova,
    /// How many.
    pub pages: u64,
}

impl<M: Memory> ListPages<M> {
    /// Writes what names the `bytes` from `start` on. `start` is a multiple of 4.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] when the list needs more pages than there are: the splitter prevents that.
    pub fn build(&self, start: Iova, bytes: u32) -> Result<DataPointer, DeviceFault> {
        if let Some(data) = without_list(start, bytes) {
            return Ok(data);
        }
        let in_first = PAGE.saturating_sub(start.bits() % PAGE);
        let rest = u64::from(bytes).saturating_sub(in_first);
        self.write(start.bits().saturating_add(in_first), rest.div_ceil(PAGE))?;
        Ok(DataPointer { prp1: start.bits(), prp2: self.iova.bits() })
    }

    /// Writes `count` entries for consecutive pages from `page` on.
    fn write(&self, mut page: u64, mut count: u64) -> Result<(), DeviceFault> {
        let mut list_page: u64 = 0;
        let mut index: u64 = 0;
        while count > 0 {
            if index == PER_PAGE.saturating_sub(1) && count > 1 {
                list_page = list_page.saturating_add(1);
                self.put(list_page.saturating_sub(1), index, self.page_iova(list_page)?)?;
                index = 0;
            }
            self.put(list_page, index, page)?;
            page = page.saturating_add(PAGE);
            index = index.saturating_add(1);
            count = count.saturating_sub(1);
        }
        Ok(())
    }

    fn page_iova(&self, list_page: u64) -> Result<u64, DeviceFault> {
        if list_page >= self.pages {
            return Err(DeviceFault::OwnMemory);
        }
        let iova = self.iova.checked_add(list_page.saturating_mul(PAGE)).ok_or(DeviceFault::OwnMemory)?;
        Ok(iova.bits())
    }

    fn put(&self, list_page: u64, index: u64, value: u64) -> Result<(), DeviceFault> {
        if list_page >= self.pages {
            return Err(DeviceFault::OwnMemory);
        }
        let entry = list_page.saturating_mul(PER_PAGE).saturating_add(index).saturating_mul(ENTRY as u64);
        let offset = self.offset.saturating_add(usize::try_from(entry).map_err(|_| DeviceFault::OwnMemory)?);
        Ok(self.memory.write(offset, &value)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use platform::fake::Ram;

    const LIST: u64 = 0x1000_0000;

    fn pages(count: u64) -> ListPages<Ram> {
        ListPages { memory: Ram::new(8 * PAGE_SIZE), offset: PAGE_SIZE, iova: Iova::new(LIST), pages: count }
    }

    /// Reads the entries back as a controller does, following links.
    fn walk(list: &ListPages<Ram>, data: DataPointer, bytes: u32) -> Vec<u64> {
        let mut found = Vec::from([data.prp1]);
        let in_first = PAGE - data.prp1 % PAGE;
        let mut left = u64::from(bytes).saturating_sub(in_first).div_ceil(PAGE);
        if left == 1 {
            found.push(data.prp2);
            return found;
        }
        let mut at = data.prp2;
        while left > 0 {
            let entry: u64 = list.memory.read((at - LIST) as usize + PAGE_SIZE).unwrap();
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
        assert_eq!(list.build(Iova::new(0x5000), 4096), Ok(DataPointer { prp1: 0x5000, prp2: 0 }));
        assert_eq!(list.build(Iova::new(0x5004), 4092), Ok(DataPointer { prp1: 0x5004, prp2: 0 }));
        assert_eq!(list.build(Iova::new(0x5004), 4096), Ok(DataPointer { prp1: 0x5004, prp2: 0x6000 }));
        assert_eq!(list.build(Iova::new(0x5000), 8192), Ok(DataPointer { prp1: 0x5000, prp2: 0x6000 }));
    }

    #[test]
    fn three_pages_are_named_by_a_list() {
        let list = pages(1);
        let data = list.build(Iova::new(0x5200), 8192).unwrap();
        assert_eq!(data, DataPointer { prp1: 0x5200, prp2: LIST });
        assert_eq!(walk(&list, data, 8192), [0x5200, 0x6000, 0x7000]);
    }

    #[test]
    fn a_full_page_of_list_has_no_link() {
        let list = pages(1);
        let bytes = 513 * 4096;
        let data = list.build(Iova::new(0x40_0000), bytes).unwrap();
        assert_eq!(walk(&list, data, bytes), expected(0x40_0000, bytes));
    }

    #[test]
    fn long_lists_are_chained_over_several_pages() {
        let list = pages(3);
        for bytes in [514 * 4096, 1023 * 4096, 1024 * 4096, 1025 * 4096, 1500 * 4096] {
            let data = list.build(Iova::new(0x40_0204), bytes).unwrap();
            assert_eq!(walk(&list, data, bytes), expected(0x40_0204, bytes));
        }
    }

    #[test]
    fn a_list_that_does_not_fit_is_an_error() {
        assert_eq!(pages(1).build(Iova::new(0), 514 * 4096), Err(DeviceFault::OwnMemory));
        assert_eq!(pages(0).build(Iova::new(0), 3 * 4096), Err(DeviceFault::OwnMemory));
    }

    proptest::proptest! {
        #[test]
        fn list_pages_suffice_for_every_offset(start in 0u64..4096, blocks in 1u32..4096) {
            let bytes = blocks * 512;
            let list = pages(list_pages(u64::from(bytes)));
            let start = (start & !3) + 0x100_0000;
            let data = list.build(Iova::new(start), bytes).unwrap();
            proptest::prop_assert_eq!(walk(&list, data, bytes), expected(start, bytes));
        }
    }
}
