//! Leases of the window: page-granular ranges that stay taken as long as a holder or a request in flight needs them.
//!
//! A lease is identified by its first page. It has a count: one for every [`WindowRange`] and one for every request in
//! flight. The pages are free when it falls to zero. Leasing searches for the first fit, at set-up; requests only count.

use alloc::rc::Rc;
use alloc::vec::Vec;
use blk_api::client_heap;
use blk_api::request::{MAX_SEGMENTS, Segment};
use core::cell::Cell;
use core::fmt;
use platform::{Memory, OutOfBounds, PAGE_BITS, PAGE_SIZE};

/// A session's window. Clones are the same window.
#[derive(Debug)]
pub struct Window<M> {
    shared: Rc<Shared<M>>,
}

#[derive(Debug)]
struct Shared<M> {
    memory: M,
    pages: Vec<Page>,
}

/// The first page of no lease.
const FREE: u32 = u32::MAX;

/// The state of a page.
#[derive(Debug)]
struct Page {
    /// The first page of its lease, or [`FREE`].
    first: Cell<u32>,
    /// Of a first page, the number of holders.
    holders: Cell<u32>,
}

const _: () = assert!(size_of::<Page>() <= client_heap::A_PAGE);

impl Page {
    const fn free() -> Self {
        Self { first: Cell::new(FREE), holders: Cell::new(0) }
    }

    const fn is_free(&self) -> bool {
        self.first.get() == FREE
    }
}

impl<M> Clone for Window<M> {
    fn clone(&self) -> Self {
        Self { shared: Rc::clone(&self.shared) }
    }
}

impl<M: Memory> Window<M> {
    /// Makes a window of the first `bytes` bytes of `memory`, in whole pages, below 4 GiB, nothing leased.
    pub(crate) fn new(memory: M, bytes: u64) -> Self {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX) as usize;
        let bytes = bytes.min(memory.len());
        // The exact size, because a growing vector holds the old and the new table.
        let pages = (0..bytes >> PAGE_BITS).map(|_| Page::free()).collect();
        Self { shared: Rc::new(Shared { memory, pages }) }
    }

    /// The memory itself, leased or not: for tests and attackers.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.shared.memory
    }

    /// Maximum number of bytes that can be leased.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.pages.len() << PAGE_BITS
    }

    /// Whether the window has no pages to lease.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.pages.is_empty()
    }

    /// Bytes that are not leased now.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.shared.pages.iter().filter(|page| page.is_free()).count() << PAGE_BITS
    }

    /// Leases `bytes` bytes (rounded up to whole pages) in one piece; `None` when there is no such piece, or for
    /// 0 bytes.
    #[must_use]
    pub fn lease(&self, bytes: usize) -> Option<WindowRange<M>> {
        let wanted = bytes.div_ceil(PAGE_SIZE);
        if wanted == 0 {
            return None;
        }
        let pages = &self.shared.pages;
        let free = |run: &[Page]| run.iter().all(Page::is_free);
        let first = pages.windows(wanted).position(free)?;
        let run = pages.get(first..first.checked_add(wanted)?)?;
        let head = run.first()?;
        let first = u32::try_from(first).ok()?;
        let range = WindowRange { window: self.clone(), first, len: bytes };
        head.holders.set(1);
        run.iter().for_each(|page| page.first.set(first));
        Some(range)
    }

    /// Adds a holder to the leases of `parts` and writes their places into `segments`. Returns their bytes. Returns `None` and
    /// holds nothing for too many parts, or parts of another window.
    #[inline]
    pub(crate) fn hold(&self, parts: &[Part<'_, M>], segments: &mut [Segment; MAX_SEGMENTS]) -> Option<u64> {
        let is_ours = |part: &Part<'_, M>| Rc::ptr_eq(&part.range.window.shared, &self.shared);
        if parts.len() > MAX_SEGMENTS || !parts.iter().all(is_ours) {
            return None;
        }
        let mut bytes = 0u64;
        for (part, segment) in parts.iter().zip(segments.iter_mut()) {
            *segment = part.segment();
            bytes = bytes.wrapping_add(u64::from(segment.len));
            if part.len > 0 {
                self.add_holder(part.range.first);
            }
        }
        Some(bytes)
    }

    /// Removes a holder from the leases of the segments that [`Window::hold`] wrote: the leases still exist.
    #[inline]
    pub(crate) fn let_go(&self, segments: &[Segment]) {
        for segment in segments.iter().filter(|segment| segment.len > 0) {
            let page = self.shared.pages.get(segment.offset as usize >> PAGE_BITS);
            page.into_iter().for_each(|page| self.remove_holder(page.first.get()));
        }
    }

    /// Adds a holder.
    fn add_holder(&self, first: u32) {
        if let Some(head) = self.shared.pages.get(first as usize) {
            // Holders are slots and handles. Memory for so many that the count overflows does not exist.
            head.holders.set(head.holders.get().saturating_add(1));
        }
    }

    /// Removes a holder; the last one frees the pages.
    fn remove_holder(&self, first: u32) {
        let Some(head) = self.shared.pages.get(first as usize) else { return };
        let left = head.holders.get().saturating_sub(1);
        head.holders.set(left);
        if left == 0 {
            self.free(first);
        }
    }

    #[cold]
    fn free(&self, first: u32) {
        let pages = self.shared.pages.iter().skip(first as usize);
        pages.take_while(|page| page.first.get() == first).for_each(|page| page.first.set(FREE));
    }
}

/// A leased range of the window. Clones hold the same lease.
pub struct WindowRange<M: Memory> {
    window: Window<M>,
    first: u32,
    len: usize,
}

impl<M: Memory> WindowRange<M> {
    /// Bytes asked for.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Always false: a lease has bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes from the window's start.
    #[must_use]
    pub const fn offset(&self) -> usize {
        (self.first as usize) << PAGE_BITS
    }

    /// Returns `len` bytes of the range from `offset` on; `None` if they are not inside.
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Option<Part<'_, M>> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then_some(Part { range: self, offset, len })
    }

    /// Returns the whole range as a part.
    #[must_use]
    pub const fn whole(&self) -> Part<'_, M> {
        Part { range: self, offset: 0, len: self.len }
    }

    fn memory_offset(&self, offset: usize, len: usize) -> Result<usize, OutOfBounds> {
        let end = offset.checked_add(len).ok_or(OutOfBounds)?;
        if end > self.len {
            return Err(OutOfBounds);
        }
        self.offset().checked_add(offset).ok_or(OutOfBounds)
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`OutOfBounds`] when they do not lie inside the range.
    pub fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        self.window.memory().read_bytes(self.memory_offset(offset, bytes.len())?, bytes)
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// As [`WindowRange::read_bytes`].
    pub fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        self.window.memory().write_bytes(self.memory_offset(offset, bytes.len())?, bytes)
    }
}

impl<M: Memory> Clone for WindowRange<M> {
    fn clone(&self) -> Self {
        self.window.add_holder(self.first);
        Self { window: self.window.clone(), first: self.first, len: self.len }
    }
}

impl<M: Memory> Drop for WindowRange<M> {
    fn drop(&mut self) {
        self.window.remove_holder(self.first);
    }
}

impl<M: Memory> fmt::Debug for WindowRange<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WindowRange({:#x}, {} bytes)", self.offset(), self.len)
    }
}

/// Part of a leased range, for a request to name.
#[derive(Debug)]
pub struct Part<'a, M: Memory> {
    range: &'a WindowRange<M>,
    offset: usize,
    len: usize,
}

impl<M: Memory> Clone for Part<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Memory> Copy for Part<'_, M> {}

impl<M: Memory> Part<'_, M> {
    /// Converts the part to an entry's segment. A window ends below 4 GiB, so no bits are lost.
    const fn segment(&self) -> Segment {
        let offset = self.range.offset().wrapping_add(self.offset);
        Segment { offset: offset as u32, len: self.len as u32 }
    }
}
