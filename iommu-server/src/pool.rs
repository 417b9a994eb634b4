//! Pages of DMA memory for tables and queues, each with the role it has at the moment.
//!
//! Roles are kept privately: a descriptor read back from a table leads on only to a page whose role fits, so that a table
//! that was overwritten never makes the server write elsewhere.

use crate::error::Error;
use alloc::vec::Vec;
use platform::{Memory, PAGE_SIZE, Paddr};

const WORDS: usize = PAGE_SIZE / size_of::<u64>();
/// Physical addresses of tables have at most this many bits (VMSAv8-64 with the 4 KiB granule).
const ADDRESS_BITS: u32 = 48;

/// A page of the pool, by its place in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Page(u16);

/// The level 1 stream table.
pub(crate) const STREAM_TABLE: Page = Page(0);
/// The command queue.
pub(crate) const COMMAND_QUEUE: Page = Page(1);
/// The event queue.
pub(crate) const EVENT_QUEUE: Page = Page(2);
/// The context descriptors of all address spaces.
pub(crate) const CONTEXTS: Page = Page(3);
/// Pages with a fixed use, at the pool's start.
const FIXED: usize = 4;

/// The use of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Free,
    Fixed,
    /// A level 2 stream table.
    Streams,
    /// A translation table of the address space in slot `owner`, with `used` valid descriptors.
    Table {
        owner: u8,
        level: u8,
        used: u16,
    },
    /// Out of the tables, but maybe still cached by the SMMU.
    Limbo,
}

/// Pages of DMA memory: mapped one after the other in one region, physically anywhere.
#[derive(Debug)]
pub struct Pool<M> {
    memory: M,
    pages: Vec<(Paddr, Role)>,
    /// Pages by address, for lookups.
    by_address: Vec<(Paddr, Page)>,
    free: Vec<Page>,
}

impl<M: Memory> Pool<M> {
    /// The pool of `pages`, of which page n is mapped at n x 4096 in `memory`. Four pages have a fixed use. Each attached
    /// stream takes one, the streams of eight devices share one, and an address space takes one for each GiB and each
    /// 2 MiB that it has pages in. For a restart that takes over a live SMMU, the pages must come in the same order each
    /// time.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] when `memory` is too short, [`Error::NoPages`] when there are fewer than the fixed ones or
    /// more than 65536, [`Error::Address`] for a page that is not aligned, beyond 48 bits or there twice.
    pub fn new(memory: M, pages: &[Paddr]) -> Result<Self, Error> {
        let bytes = pages.len().checked_mul(PAGE_SIZE).ok_or(Error::OutOfBounds)?;
        if memory.len() < bytes {
            return Err(Error::OutOfBounds);
        }
        if pages.len() < FIXED {
            return Err(Error::NoPages);
        }
        let mut by_address = Vec::with_capacity(pages.len());
        for (index, paddr) in pages.iter().enumerate() {
            if paddr.page_offset() != 0 || paddr.bits() >> ADDRESS_BITS != 0 {
                return Err(Error::Address);
            }
            by_address.push((*paddr, Page(u16::try_from(index).map_err(|_| Error::NoPages)?)));
        }
        by_address.sort_unstable();
        if by_address.is_sorted_by(|(one, _), (next, _)| one < next) {
            let roles = pages.iter().map(|paddr| (*paddr, Role::Fixed)).collect();
            let mut pool = Self { memory, pages: roles, by_address, free: Vec::new() };
            pool.forget();
            Ok(pool)
        } else {
            Err(Error::Address)
        }
    }

    /// Frees all pages but the fixed ones.
    fn forget(&mut self) {
        self.free.clear();
        for (_, page) in &self.by_address {
            if let Some((_, role)) = self.pages.get_mut(usize::from(page.0)).filter(|_| usize::from(page.0) >= FIXED) {
                *role = Role::Free;
                self.free.push(*page);
            }
        }
    }

    /// Free pages.
    pub(crate) fn free_pages(&self) -> usize {
        self.free.len()
    }

    /// Takes a free page and fills it with zeroes.
    pub(crate) fn take(&mut self, role: Role) -> Result<Page, Error> {
        let page = self.free.pop().ok_or(Error::NoPages)?;
        self.zero(page)?;
        self.set_role(page, role);
        Ok(page)
    }

    /// Frees a page, which the SMMU must not have cached.
    pub(crate) fn give_back(&mut self, page: Page) {
        self.set_role(page, Role::Free);
        self.free.push(page);
    }

    /// Number of translation tables of the address space in slot `of`.
    pub(crate) fn tables(&self, of: u8) -> usize {
        self.pages.iter().filter(|(_, role)| matches!(role, Role::Table { owner, .. } if *owner == of)).count()
    }

    pub(crate) fn role(&self, page: Page) -> Role {
        self.pages.get(usize::from(page.0)).map_or(Role::Limbo, |(_, role)| *role)
    }

    pub(crate) fn set_role(&mut self, page: Page, new: Role) {
        if let Some((_, role)) = self.pages.get_mut(usize::from(page.0)) {
            *role = new;
        }
    }

    /// All pages of a role that `wanted` accepts.
    pub(crate) fn pages_with(&self, wanted: impl Fn(Role) -> bool) -> Vec<Page> {
        self.by_address.iter().map(|(_, page)| *page).filter(|page| wanted(self.role(*page))).collect()
    }

    pub(crate) fn paddr(&self, page: Page) -> Result<u64, Error> {
        self.pages.get(usize::from(page.0)).map(|(paddr, _)| paddr.bits()).ok_or(Error::OutOfBounds)
    }

    /// The page at an address, if it is one of the pool's.
    pub(crate) fn find(&self, address: u64) -> Option<Page> {
        let at = self.by_address.binary_search_by_key(&Paddr::new(address), |(paddr, _)| *paddr).ok()?;
        self.by_address.get(at).map(|(_, page)| *page)
    }

    /// Reads the `word`th 64-bit word of a page.
    pub(crate) fn read(&self, page: Page, word: usize) -> Result<u64, Error> {
        Ok(self.memory.read(Self::offset(page, word)?)?)
    }

    /// Writes the `word`th 64-bit word of a page, whole.
    pub(crate) fn write(&self, page: Page, word: usize, value: u64) -> Result<(), Error> {
        Ok(self.memory.write(Self::offset(page, word)?, &value)?)
    }

    /// Makes earlier writes visible before later ones.
    pub(crate) fn fence(&self) {
        self.memory.fence();
    }

    /// Fills a page with zeroes, which are invalid in every use of a page.
    pub(crate) fn zero(&self, page: Page) -> Result<(), Error> {
        for word in 0..WORDS {
            self.write(page, word, 0)?;
        }
        self.fence();
        Ok(())
    }

    /// Fills all pages with zeroes, the stream table first.
    pub(crate) fn zero_all(&self) -> Result<(), Error> {
        self.zero(STREAM_TABLE)?;
        for (_, page) in &self.by_address {
            self.zero(*page)?;
        }
        Ok(())
    }

    fn offset(page: Page, word: usize) -> Result<usize, Error> {
        if word >= WORDS {
            return Err(Error::OutOfBounds);
        }
        let start = usize::from(page.0).checked_mul(PAGE_SIZE).ok_or(Error::OutOfBounds)?;
        let bytes = word.checked_mul(size_of::<u64>()).ok_or(Error::OutOfBounds)?;
        start.checked_add(bytes).ok_or(Error::OutOfBounds)
    }
}
