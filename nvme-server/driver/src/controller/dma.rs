//! Memory the controller can reach: the server's own pool, and the windows of clients.
//!
//! The pool is mapped for the processor and for the device; it holds queues, PRP lists and identify data, and is handed
//! out once, never taken back. A window is mapped for the device alone: its frames' capabilities are here, a VSpace
//! capability is not.
//!
//! On a machine without an IOMMU the device is given the frames' own addresses, which are consecutive. Nothing is mapped there, and
//! nothing can be taken from the device.

use crate::fault::DeviceFault;
use crate::queue_pair::Ring;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use blk_api::names;
use core::ops::Range;
use platform::{
    Cap, CapType, Environment, Error, Frame, IoPageTable, IoSpace, Iova, Kernel, PAGE_SIZE, Platform, Rights,
};

/// Address of the pool for the device. All that it reaches lies apart from the PCI windows of all machines and from the pages that
/// messages of interrupts are written to, up to 3 GiB and from 4 GiB on: a device takes an address of its own registers for them.
const POOL: Iova = Iova::new(0x4000_0000);
/// The end of the place of the pool.
const POOL_END: Iova = Iova::new(0xc000_0000);
/// Address of the first window; each is at a multiple of [`WINDOW_ALIGN`].
const WINDOWS: u64 = 1 << 32;
/// Bytes that one IO page table of the last level covers.
const WINDOW_ALIGN: u64 = 2 << 20;
const PAGE: u64 = PAGE_SIZE as u64;
/// Levels of IO page tables that can be missing on the way to a page.
const MAX_LEVELS: u32 = 4;

/// The function's address space.
pub struct IoSpaceMap<K> {
    kernel: K,
    /// `None` without an IOMMU.
    io_space: Option<Cap<IoSpace>>,
    tables: VecDeque<Cap<IoPageTable>>,
    next_window: u64,
}

impl<K: Kernel> IoSpaceMap<K> {
    /// The address space behind `io_space`, with the environment's run `io-table` to build it: none of them is mapped.
    pub fn new(kernel: K, io_space: Option<Cap<IoSpace>>, environment: &Environment) -> Self {
        Self { kernel, io_space, tables: all(environment, names::IO_TABLE).collect(), next_window: WINDOWS }
    }

    /// Takes pool, window and page tables out of the address space of an earlier claim, before its capability is given up. Frames go first
    /// and the table that was mapped last before the others, so each table is empty then: kernels differ in what they leave in one that is
    /// unmapped, and a table with entries must not be used again.
    pub fn release(kernel: &K, environment: &Environment) {
        for frame in all(environment, names::DMA).chain(all(environment, names::WINDOW)) {
            // An error may mean that it is not mapped, as before the first claim. If it still is, mapping it will be refused.
            let _ = kernel.frame_unmap(frame);
        }
        let tables: Vec<Cap<IoPageTable>> = all(environment, names::IO_TABLE).collect();
        for table in tables.into_iter().rev() {
            let _ = kernel.io_page_table_unmap(table);
        }
    }

    /// The new address space behind `io_space`, after the old one was deleted, with the page tables that are left.
    #[must_use]
    pub fn recreated(self, io_space: Option<Cap<IoSpace>>) -> Self {
        let Self { kernel, io_space: _, tables, next_window: _ } = self;
        Self { kernel, io_space, tables, next_window: WINDOWS }
    }

    /// Maps a frame at `iova` with those of `rights` that the capability has, with page tables as needed. Without an IOMMU the
    /// frame must have that address already.
    ///
    /// # Errors
    /// The kernel's, and [`Error::NotEnoughMemory`] when the page tables are used up; [`Error::InvalidArgument`] for a frame that lies
    /// elsewhere, without an IOMMU.
    pub fn map(&mut self, frame: Cap<Frame>, rights: Rights, iova: Iova) -> platform::Result<()> {
        let Some(io_space) = self.io_space else {
            let is_there = self.kernel.frame_get_address(frame)?.bits() == iova.bits();
            return if is_there { Ok(()) } else { Err(Error::InvalidArgument(0)) };
        };
        for _ in 0..=MAX_LEVELS {
            match self.kernel.frame_map_io(frame, io_space, rights, iova) {
                Err(Error::FailedLookup) => {
                    let table = self.tables.pop_front().ok_or(Error::NotEnoughMemory(0))?;
                    if let Err(error) = self.kernel.io_page_table_map(table, io_space, iova) {
                        self.tables.push_front(table);
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
        Err(Error::FailedLookup)
    }

    /// Ends it: the function is given back, and the device reaches nothing.
    pub fn end(&mut self) {
        self.io_space = None;
    }

    /// Number of unused page tables.
    pub fn tables_left(&self) -> u32 {
        u32::try_from(self.tables.len()).unwrap_or(u32::MAX)
    }

    /// Reserves addresses for a window of `bytes`, which begins with the frame `first`, that no other window has.
    pub fn reserve_window(&mut self, first: Cap<Frame>, bytes: u64) -> Option<Iova> {
        if self.io_space.is_none() {
            return self.place_of(first);
        }
        let start = self.next_window;
        self.next_window = start.checked_add(bytes)?.checked_next_multiple_of(WINDOW_ALIGN)?;
        Some(Iova::new(start))
    }

    /// Address of a frame for the device, without an IOMMU.
    fn place_of(&self, frame: Cap<Frame>) -> Option<Iova> {
        self.kernel.frame_get_address(frame).ok().map(|paddr| Iova::new(paddr.bits()))
    }

    /// Address for the device of the pool, whose first frame is `first`.
    fn pool(&self, first: Cap<Frame>) -> Option<Iova> {
        if self.io_space.is_some() { Some(POOL) } else { self.place_of(first) }
    }

    /// Maps these pages of a window. After an error some of them may be mapped.
    pub fn map_pages(&mut self, window: &Window, pages: Range<u32>) -> platform::Result<()> {
        for page in pages {
            match (window.frame(page), window.iova.checked_add(u64::from(page).saturating_mul(PAGE))) {
                (Some(frame), Some(iova)) => self.map(frame, Rights::READ_WRITE, iova)?,
                _ => return Err(Error::RangeError { min: 0, max: u64::from(window.pages) }),
            }
        }
        Ok(())
    }

    /// Takes these pages of a window from the device, mapped or not. Nothing may be in flight.
    pub fn unmap_pages(&self, window: &Window, pages: Range<u32>) {
        let Some(io_space) = self.io_space else { return };
        let place = |page| {
            let iova = window.iova.checked_add(u64::from(page).saturating_mul(PAGE))?;
            Some((window.frame(page)?, iova))
        };
        for (frame, iova) in pages.filter_map(place) {
            if let Err(error) = self.kernel.frame_unmap_io(frame, io_space, iova) {
                platform::log::error!("a page of a window stays mapped: {}", error);
            }
        }
    }
}

/// The environment's run of capabilities with this name.
fn all<'a, T: CapType>(environment: &'a Environment, name: &'a str) -> impl Iterator<Item = Cap<T>> + 'a {
    (0..environment.cap_count(name)).filter_map(move |index| environment.cap_at(name, index))
}

/// A client's window as the device sees it.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The window's first frame, the others at the cptrs behind.
    pub first: Cap<Frame>,
    /// Number of pages.
    pub pages: u32,
    /// The window's address for the device.
    pub iova: Iova,
}

impl Window {
    fn frame(&self, page: u32) -> Option<Cap<Frame>> {
        Some(Cap::from_bits(self.first.bits().checked_add(u64::from(page))?))
    }
}

/// The server's own memory.
pub struct DmaPool<P: Platform> {
    memory: P::Memory,
    /// Its first address for the device.
    iova: Iova,
    next_page: u64,
    pages: u64,
}

impl<P: Platform> DmaPool<P> {
    /// Maps the environment's frames `dma` for the device; the region `dma` is the same memory.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] when the environment lacks them, or they cannot be mapped.
    pub fn new(
        platform: &P,
        environment: &Environment,
        space: &mut IoSpaceMap<P::Kernel>,
    ) -> Result<Self, DeviceFault> {
        let region = environment.region(names::DMA).ok_or(DeviceFault::OwnMemory)?;
        let pages = u64::from(environment.cap_count(names::DMA));
        let most = POOL_END.bits().saturating_sub(POOL.bits());
        if region.len < pages.saturating_mul(PAGE) || region.len > most {
            return Err(DeviceFault::OwnMemory);
        }
        let first =
            environment.cap_at(names::DMA, 0).and_then(|first| space.pool(first)).ok_or(DeviceFault::OwnMemory)?;
        for page in 0..environment.cap_count(names::DMA) {
            let frame = environment.cap_at(names::DMA, page).ok_or(DeviceFault::OwnMemory)?;
            let iova = first.checked_add(u64::from(page).saturating_mul(PAGE)).ok_or(DeviceFault::OwnMemory)?;
            space.map(frame, Rights::READ_WRITE, iova).map_err(|_| DeviceFault::OwnMemory)?;
        }
        Ok(Self { memory: platform.memory(region)?, iova: first, next_page: 0, pages })
    }

    /// The next `pages` pages, consecutive.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] when the specification gave the server too few.
    pub fn take(&mut self, pages: u64) -> Result<Ring<P::Memory>, DeviceFault> {
        let first = self.next_page;
        let end = first.checked_add(pages).filter(|end| *end <= self.pages).ok_or(DeviceFault::OwnMemory)?;
        self.next_page = end;
        let offset = first.saturating_mul(PAGE);
        Ok(Ring {
            memory: self.memory.clone(),
            offset: usize::try_from(offset).map_err(|_| DeviceFault::OwnMemory)?,
            iova: self.iova.checked_add(offset).ok_or(DeviceFault::OwnMemory)?,
        })
    }

    /// Number of pages that were not handed out.
    pub fn left(&self) -> u32 {
        u32::try_from(self.pages.saturating_sub(self.next_page)).unwrap_or(u32::MAX)
    }

    /// Mark of the pages handed out so far, for [`DmaPool::rewind`].
    pub fn mark(&self) -> u64 {
        self.next_page
    }

    /// Takes back the pages handed out since `mark`, which must not be used any more.
    pub fn rewind(&mut self, mark: u64) {
        self.next_page = self.next_page.min(mark);
    }

    /// Pages for `bytes`.
    pub fn take_bytes(&mut self, bytes: u64) -> Result<Ring<P::Memory>, DeviceFault> {
        self.take(bytes.div_ceil(PAGE))
    }
}
