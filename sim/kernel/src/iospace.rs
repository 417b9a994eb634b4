//! IOSpaces: the memory that a PCI function's DMA reaches, by its requester id, through page tables of three levels.
//!
//! The corrected kernel empties an unmapped IO page table, which has no copies; revoking works; unmapped memory is out of reach at
//! once. [`Rules`](crate::Rules) says which corrections a kernel lacks. Left out: the IOMMU's caches but for
//! contexts, which every kernel empties in time, and interrupt remapping, which no kernel uses.
//!
//! A table keeps its number while its address has a table, and a new table there takes it. An entry of a deleted table leads to its
//! old entries, to nothing after the memory was cleared, or to the new table.

use crate::access::Access;
use crate::arena::{IoTableId, ThreadId};
use crate::capability::{Capability, FrameSize, IoTablePlace, Mapping, VmRights};
use crate::fault::IoFault;
use crate::invocation::{Found, Invocation, Outcome, Stop};
use crate::kernel::Kernel;
use crate::label;
use crate::object::{IoEntry, IoTableObject, TABLE_ENTRIES};
use crate::rules::Correction;
use crate::vspace::index;
use core::ops::Range;
use platform::{Cap, Error, Frame, IoPageTable, IoSpace, Iova, Paddr, Result, Rights};

/// Levels of IO page tables, as QEMU's IOMMU has them.
pub(crate) const IO_LEVELS: u8 = 3;
const LEVEL_BITS: u32 = 9;
const PAGE_BITS: u32 = 12;
/// DMA faults that are kept: the first ones, which show the cause.
const KEPT_FAULTS: usize = 1024;

/// The end of a walk through IO page tables.
struct Reached {
    table: IoTableId,
    place: usize,
    /// Levels that were left: 0 where pages are mapped.
    left: u8,
}

impl Kernel {
    /// Translates the address of a device's DMA. Without an IOMMU an address is the physical one.
    ///
    /// # Errors
    /// [`IoFault`] for an address that is not mapped for the requester; it is kept for [`Kernel::io_faults`].
    #[inline]
    pub fn io_translate(
        &mut self,
        requester_id: u16,
        iova: u64,
        access: Access,
    ) -> core::result::Result<Paddr, IoFault> {
        if !self.has_iommu {
            return Ok(Paddr::new(iova));
        }
        let (page, offset) = (iova >> PAGE_BITS, iova & ((1 << PAGE_BITS) - 1));
        if let Some(frame) = self.io_known.frame(requester_id, page, access) {
            return Ok(Paddr::new(frame | offset));
        }
        if self.rules.context_cache == Correction::Missing {
            self.keep_context(requester_id);
        }
        if let Some(paddr) = self.io_walk(requester_id, iova, access) {
            self.io_known.learn(requester_id, page, access, paddr ^ offset);
            return Ok(Paddr::new(paddr));
        }
        let fault = IoFault { requester_id, iova, access };
        self.io_fault_count += 1;
        if self.io_faults.len() < KEPT_FAULTS {
            self.io_faults.push(fault);
        }
        Err(fault)
    }

    /// Translates an address as [`Kernel::io_translate`] does, for a checker: nothing is kept of it.
    #[must_use]
    pub fn io_peek(&self, requester_id: u16, iova: u64, access: Access) -> Option<Paddr> {
        if !self.has_iommu {
            return Some(Paddr::new(iova));
        }
        self.io_walk(requester_id, iova, access).map(Paddr::new)
    }

    /// The first DMA faults of the run.
    #[must_use]
    pub fn io_faults(&self) -> &[IoFault] {
        &self.io_faults
    }

    /// Number of all DMA faults of the run.
    #[must_use]
    pub const fn io_fault_count(&self) -> u64 {
        self.io_fault_count
    }

    fn io_walk(&self, requester_id: u16, iova: u64, access: Access) -> Option<u64> {
        // The IOMMU refuses addresses beyond its tables.
        if iova >> (PAGE_BITS + LEVEL_BITS * u32::from(IO_LEVELS)) != 0 {
            return None;
        }
        let mut table = self.io_context(requester_id)?;
        for left in (0..IO_LEVELS).rev() {
            match self.io_tables[table].entries[io_index(iova, left)] {
                // A table that was used one level higher: its entries' tables are taken for pages.
                IoEntry::Table(next) if left == 0 => {
                    return Some(self.io_tables[next].paddr | iova & ((1 << PAGE_BITS) - 1));
                }
                IoEntry::Table(next) => table = next,
                IoEntry::Page { paddr, read, write } if left == 0 => {
                    let is_allowed = if access == Access::Write { write } else { read };
                    return is_allowed.then_some(paddr | iova & ((1 << PAGE_BITS) - 1));
                }
                IoEntry::Empty | IoEntry::Page { .. } => return None,
            }
        }
        None
    }

    /// The top page table by which a requester's DMA is translated.
    pub(crate) fn io_context(&self, requester_id: u16) -> Option<IoTableId> {
        let kept = self.io_contexts.binary_search_by_key(&requester_id, |context| context.0);
        kept.map_or_else(|_| self.io_root(requester_id), |place| Some(self.io_contexts[place].1))
    }

    /// Puts the requester's top table, if it has one, into the context cache, where it stays.
    fn keep_context(&mut self, requester_id: u16) {
        if let Err(place) = self.io_contexts.binary_search_by_key(&requester_id, |context| context.0)
            && let Some(root) = self.io_root(requester_id)
        {
            self.io_contexts.insert(place, (requester_id, root));
        }
    }

    /// Makes a table at `paddr`, with the number of the deleted one there.
    pub(crate) fn make_io_table(&mut self, paddr: u64) -> IoTableId {
        let new = IoTableObject::new(paddr);
        match self.io_deleted.remove(&paddr) {
            Some(table) => {
                *self.io_table_mut(table) = new;
                table
            }
            None => self.io_tables.add(new),
        }
    }

    /// Empties the deleted tables in memory that is cleared.
    pub(crate) fn clear_io_tables(&mut self, memory: Range<u64>) {
        let tables: Vec<_> = self.io_deleted.range(memory).map(|(_, table)| *table).collect();
        for table in tables {
            *self.io_table_mut(table).entries = [IoEntry::Empty; TABLE_ENTRIES];
        }
    }

    /// The top page table of a requester.
    fn io_root(&self, requester_id: u16) -> Option<IoTableId> {
        let place = self.io_roots.binary_search_by_key(&requester_id, |root| root.0).ok()?;
        Some(self.io_roots[place].1)
    }

    fn set_io_root(&mut self, requester_id: u16, table: IoTableId) {
        if let Err(place) = self.io_roots.binary_search_by_key(&requester_id, |root| root.0) {
            self.io_known.forget();
            self.io_roots.insert(place, (requester_id, table));
        }
    }

    /// Returns a table whose entries change, and drops all cached walks.
    fn io_table_mut(&mut self, table: IoTableId) -> &mut IoTableObject {
        self.io_known.forget();
        &mut self.io_tables[table]
    }

    fn remove_io_root(&mut self, requester_id: u16) {
        self.io_known.forget();
        self.io_roots.retain(|root| root.0 != requester_id);
    }

    /// Follows the way to `iova` as far as tables go, at most `levels` of them.
    fn io_reach(&self, root: IoTableId, iova: u64, levels: u8) -> Reached {
        let (mut table, mut left) = (root, levels.saturating_sub(1));
        let mut shift_level = IO_LEVELS - 1;
        loop {
            let place = io_index(iova, shift_level);
            match self.io_tables[table].entries[place] {
                IoEntry::Table(next) if left > 0 => table = next,
                _ => return Reached { table, place, left },
            }
            left -= 1;
            shift_level -= 1;
        }
    }

    /// See [`platform::Kernel::io_page_table_map`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn io_page_table_map(
        &mut self,
        thread: ThreadId,
        table: Cap<IoPageTable>,
        io_space: Cap<IoSpace>,
        iova: Iova,
    ) -> Result<()> {
        let (words, caps) = ([iova.bits()], [io_space.cptr()]);
        let (service, label) = (table.cptr(), label::IO_PAGE_TABLE_MAP);
        let invocation = Invocation { service, label, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| kernel.install_io_table(found, iova.bits()))
    }

    fn install_io_table(&mut self, found: &Found, iova: u64) -> Outcome<()> {
        let Capability::IoTable { table, place } = found.cap else { return Err(Stop::OtherKind) };
        let io_space = found.cap(0)?;
        if place.is_some() {
            return Err(Error::InvalidCapability(0).into());
        }
        let requester_id = self.requester(io_space)?;
        let iova = iova & !((1 << (PAGE_BITS + LEVEL_BITS)) - 1);
        let place = match self.io_root(requester_id) {
            None => {
                self.set_io_root(requester_id, table);
                IoTablePlace { requester_id, level: 0, iova: 0 }
            }
            Some(root) => {
                let reached = self.io_reach(root, iova, IO_LEVELS);
                let paddr = self.io_tables[table].paddr;
                let entry = &mut self.io_table_mut(reached.table).entries[reached.place];
                if *entry != IoEntry::Empty {
                    return Err(Error::DeleteFirst.into());
                }
                *entry = match reached.left {
                    // When all levels are there, the kernel maps one more table as a page, which the device can reach.
                    0 => IoEntry::Page { paddr, read: true, write: true },
                    _ => IoEntry::Table(table),
                };
                IoTablePlace { requester_id, level: IO_LEVELS - reached.left, iova }
            }
        };
        self.slots[found.slot].cap = Capability::IoTable { table, place: Some(place) };
        Ok(())
    }

    /// The requester id of the IOSpace in `slot`, if it takes mappings; the master, with id 0, does not.
    fn requester(&self, slot: crate::slots::SlotId) -> Result<u16> {
        match self.slots[slot].cap {
            Capability::IoSpace { requester_id, .. } if requester_id != 0 => Ok(requester_id),
            _ => Err(Error::InvalidCapability(0)),
        }
    }

    /// See [`platform::Kernel::io_page_table_unmap`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn io_page_table_unmap(&mut self, thread: ThreadId, table: Cap<IoPageTable>) -> Result<()> {
        let (service, label) = (table.cptr(), label::IO_PAGE_TABLE_UNMAP);
        let invocation = Invocation { service, label, words: &[], caps: &[] };
        self.invoke(thread, &invocation, |kernel, found| {
            let Capability::IoTable { table, place } = found.cap else { return Err(Stop::OtherKind) };
            let is_corrected = kernel.rules.io_page_table == Correction::Made;
            if is_corrected && !kernel.is_final(found.slot) {
                return Err(Error::RevokeFirst.into());
            }
            if let Some(place) = place {
                kernel.uninstall_io_table(table, place);
            }
            if is_corrected {
                *kernel.io_table_mut(table).entries = [IoEntry::Empty; TABLE_ENTRIES];
            }
            kernel.slots[found.slot].cap = Capability::IoTable { table, place: None };
            Ok(())
        })
    }

    /// Removes an IO page table from the one above it, if it is still there.
    pub(crate) fn uninstall_io_table(&mut self, table: IoTableId, place: IoTablePlace) {
        let Some(root) = self.io_root(place.requester_id) else { return };
        if place.level == 0 {
            if root == table {
                self.remove_io_root(place.requester_id);
            }
            return;
        }
        let reached = self.io_reach(root, place.iova, place.level);
        let paddr = self.io_tables[table].paddr;
        let entry = &mut self.io_table_mut(reached.table).entries[reached.place];
        let is_own = match *entry {
            IoEntry::Table(installed) => installed == table,
            IoEntry::Page { paddr: mapped, .. } => mapped == paddr,
            IoEntry::Empty => false,
        };
        if reached.left == 0 && is_own {
            *entry = IoEntry::Empty;
        }
    }

    /// Ends a requester's address space after its last capability.
    pub(crate) fn end_io_space(&mut self, requester_id: u16) {
        self.remove_io_root(requester_id);
    }

    /// See [`platform::Kernel::frame_map_io`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn frame_map_io(
        &mut self,
        thread: ThreadId,
        frame: Cap<Frame>,
        io_space: Cap<IoSpace>,
        rights: Rights,
        iova: Iova,
    ) -> Result<()> {
        let (words, caps) = ([self.rules.grants.word(rights), iova.bits()], [io_space.cptr()]);
        let (service, label) = (frame.cptr(), label::PAGE_MAP_IO);
        let invocation = Invocation { service, label, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| kernel.map_io_page(found, rights, iova.bits()))
    }

    fn map_io_page(&mut self, found: &Found, rights: Rights, iova: u64) -> Outcome<()> {
        let Capability::Frame { paddr, size, rights: own, is_device, mapping } = found.cap else {
            return Err(Stop::OtherKind);
        };
        let io_space = found.cap(0)?;
        if size != FrameSize::Small || mapping != Mapping::None {
            return Err(Error::InvalidCapability(0).into());
        }
        let requester_id = self.requester(io_space)?;
        let iova = iova & !((1 << PAGE_BITS) - 1);
        let root = self.io_root(requester_id).ok_or(Error::FailedLookup)?;
        let reached = self.io_reach(root, iova, IO_LEVELS);
        if reached.left != 0 {
            return Err(Error::FailedLookup.into());
        }
        let entry = &mut self.io_table_mut(reached.table).entries[reached.place];
        if *entry != IoEntry::Empty {
            return Err(Error::DeleteFirst.into());
        }
        let read = rights.read && own != VmRights::KernelOnly;
        let write = rights.write && own == VmRights::ReadWrite;
        if !read && !write {
            return Err(Error::InvalidArgument(0).into());
        }
        *entry = IoEntry::Page { paddr, read, write };
        let mapping = Mapping::IoSpace { requester_id, iova };
        self.slots[found.slot].cap = Capability::Frame { paddr, size, rights: own, is_device, mapping };
        Ok(())
    }

    /// Removes a frame's mapping, if this frame is still the one that is mapped there.
    pub(crate) fn unmap_io_page(&mut self, requester_id: u16, iova: u64, paddr: u64) {
        let Some(root) = self.io_root(requester_id) else { return };
        let reached = self.io_reach(root, iova, IO_LEVELS);
        let entry = &mut self.io_table_mut(reached.table).entries[reached.place];
        if let IoEntry::Page { paddr: mapped, .. } = *entry
            && reached.left == 0
            && mapped == paddr
        {
            *entry = IoEntry::Empty;
        }
    }
}

/// The entry for `iova` in a table with `left` levels below it. Addresses beyond the tables wrap, as in the kernel.
const fn io_index(iova: u64, left: u8) -> usize {
    index(iova, PAGE_BITS + LEVEL_BITS * left as u32)
}
