//! VSpaces: paging structures of four levels, translation through them, and the invocations that install and map.
//!
//! Neighbours: `frame` maps frames, `asid` finds the VSpace of an identifier. Left out: the structures' bytes in memory;
//! caches of translations, which the kernel empties in time; and the GiB of the kernel's device registers, into which the
//! real kernel allows mappings through an address that belongs to nobody.

use crate::access::Access;
use crate::arena::{TableId, ThreadId};
use crate::capability::{Capability, TablePlace, VmRights};
use crate::fault::{VmFault, page_fault_status};
use crate::invocation::{Found, Invocation, Outcome, Stop};
use crate::kernel::Kernel;
use crate::object::Entry;
use crate::{Arch, label};
use platform::{Cap, Error, Paddr, Result, TableLevel, TranslationTable, VSpace, Vaddr};

/// The end of user level's addresses for the project's x86_64 kernel (correction `user-top`).
pub(crate) const X86_64_USER_TOP: u64 = 0x0000_7fff_ffff_f000;
/// The end of user level's addresses for the AArch64 kernel of 5.0.0, which has separate tables of its own.
const OLD_AARCH64_USER_TOP: u64 = 1 << 48;
/// The end of these for later AArch64 kernels.
const AARCH64_USER_TOP: u64 = 1 << 47;
/// The last address of user level for later x86_64 kernels.
const X86_64_LAST: u64 = 0x0000_7fff_ffff_ffff;
/// The entry of every VSpace's root that is the x86_64 kernel's own.
const KERNEL_ENTRY: usize = 511;
const ENTRY_MASK: u64 = 511;
/// Attributes of a mapping as the kernel's interface encodes them.
const DEFAULT_ATTRIBUTES: u64 = 0;

/// The result of a walk: the frame's start, log2 of its size, the access that the mapping gives to user level, and whether
/// instructions can be fetched from it.
type Walked = (u64, u32, VmRights, bool);

impl Kernel {
    /// The physical address of `vaddr` for `thread`, if it may make this access.
    ///
    /// # Errors
    /// [`VmFault`], to be reported with [`Kernel::fault`].
    #[inline]
    pub fn translate(&self, thread: ThreadId, vaddr: Vaddr, access: Access) -> core::result::Result<Paddr, VmFault> {
        let allowed = |rights, is_executable| match access {
            Access::Read => rights != VmRights::KernelOnly,
            Access::Execute => is_executable,
            Access::Write => rights == VmRights::ReadWrite,
        };
        match self.walk_vspace(thread, vaddr.bits()) {
            Some((paddr, shift, rights, is_executable)) if allowed(rights, is_executable) => {
                Ok(Paddr::new(paddr | vaddr.bits() & ((1 << shift) - 1)))
            }
            _ => Err(VmFault { vaddr, access }),
        }
    }

    /// A number that changes whenever a valid translation may have become invalid.
    #[inline]
    #[must_use]
    pub const fn translation_generation(&self) -> u64 {
        self.translation_generation
    }

    pub(crate) fn page_fault_code(&self, thread: ThreadId, vaddr: u64, access: Access) -> u64 {
        page_fault_status(self.walk_vspace(thread, vaddr).is_some(), access)
    }

    /// The mapping of `vaddr` in the VSpace of `thread`.
    fn walk_vspace(&self, thread: ThreadId, vaddr: u64) -> Option<Walked> {
        // At user level the processor refuses addresses whose upper bits are not all equal.
        let bits = match self.arch {
            Arch::X86_64 => 47,
            Arch::Aarch64 => 48,
        };
        if vaddr >> bits != 0 {
            return None;
        }
        let root = self.thread_vspace(thread)?;
        self.walk_tables(root, vaddr)
    }

    /// The root of the VSpace that the processor would use for `thread`.
    pub(crate) fn thread_vspace(&self, thread: ThreadId) -> Option<TableId> {
        let thread = self.threads.get(thread)?;
        match self.slots[thread.first.offset(1)].cap {
            Capability::VSpace { table, asid } if asid != 0 => self.vspace_of(asid).filter(|found| *found == table),
            _ => None,
        }
    }

    pub(crate) fn walk_tables(&self, root: TableId, vaddr: u64) -> Option<Walked> {
        let mut table = root;
        for shift in [39, 30, 21, 12] {
            match self.tables[table].entries[index(vaddr, shift)] {
                Entry::Empty => return None,
                Entry::Table(next) => table = next,
                Entry::Page { paddr, rights, is_executable } => return Some((paddr, shift, rights, is_executable)),
            }
        }
        None
    }

    /// The table of `level` on the way to `vaddr`, the root for no level; `None` when one is missing.
    pub(crate) fn table_at(&self, root: TableId, vaddr: u64, level: Option<TableLevel>) -> Option<TableId> {
        let mut table = root;
        let Some(level) = level else { return Some(root) };
        for next in TableLevel::ALL.into_iter().take_while(|next| *next <= level) {
            match self.tables[table].entries[index(vaddr, shift(next.above()))] {
                Entry::Table(below) => table = below,
                Entry::Empty | Entry::Page { .. } => return None,
            }
        }
        Some(table)
    }

    pub(crate) fn entry(&mut self, table: TableId, vaddr: u64, level: Option<TableLevel>) -> &mut Entry {
        &mut self.tables[table].entries[index(vaddr, shift(level))]
    }

    /// See [`platform::Kernel::translation_table_map`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn translation_table_map(
        &mut self,
        thread: ThreadId,
        table: Cap<TranslationTable>,
        level: TableLevel,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
    ) -> Result<()> {
        let label = match level {
            TableLevel::One => label::PDPT_MAP,
            TableLevel::Two => label::PAGE_DIRECTORY_MAP,
            TableLevel::Three => label::PAGE_TABLE_MAP,
        };
        let (words, caps) = ([vaddr.bits(), DEFAULT_ATTRIBUTES], [vspace.cptr()]);
        let invocation = Invocation { service: table.cptr(), label, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| kernel.install_table(found, level, vaddr.bits()))
    }

    fn install_table(&mut self, found: &Found, level: TableLevel, vaddr: u64) -> Outcome<()> {
        let Capability::Table { level: own, table, place } = found.cap else { return Err(Stop::OtherKind) };
        if own != level && !self.has_one_kind_of_table() {
            return Err(Stop::OtherKind);
        }
        let vspace = found.cap(0)?;
        if place.is_some() {
            return Err(Error::InvalidCapability(0).into());
        }
        let (root, asid) = self.mappable(&self.slots[vspace].cap)?;
        if vaddr & !((1 << shift(level.above())) - 1) >= self.user_end() {
            return Err(Error::InvalidArgument(0).into());
        }
        if level == TableLevel::Three || self.arch == Arch::Aarch64 || self.is_current() {
            self.ensure_vspace(root, asid)?;
        }
        let is_missing = |level: &TableLevel| self.table_at(root, vaddr, Some(*level)).is_none();
        let level = match self.has_one_kind_of_table() {
            true => TableLevel::ALL.into_iter().find(is_missing).ok_or(Error::DeleteFirst)?,
            false => level,
        };
        let above = level.above();
        let vaddr = vaddr & !((1 << shift(above)) - 1);
        let parent = self.table_at(root, vaddr, above).ok_or(Error::FailedLookup)?;
        let entry = self.entry(parent, vaddr, above);
        if *entry != Entry::Empty {
            return Err(Error::DeleteFirst.into());
        }
        *entry = Entry::Table(table);
        self.slots[found.slot].cap = Capability::Table { level, table, place: Some(TablePlace { asid, vaddr }) };
        Ok(())
    }

    /// Whether a table can be of any level: the first that lacks one, on the way to the address at which it is mapped.
    pub(crate) fn has_one_kind_of_table(&self) -> bool {
        self.arch == Arch::Aarch64 && self.is_current()
    }

    /// The VSpace of the capability that is passed with a mapping.
    pub(crate) fn mappable(&self, vspace: &Capability) -> Result<(TableId, u16)> {
        match *vspace {
            Capability::VSpace { table, asid } if asid != 0 => Ok((table, asid)),
            _ => Err(Error::InvalidCapability(1)),
        }
    }

    /// # Errors
    /// [`Error::FailedLookup`] when the identifier names no VSpace any more, [`Error::InvalidCapability`] when it names
    /// another VSpace.
    pub(crate) fn ensure_vspace(&self, root: TableId, asid: u16) -> Result<()> {
        match self.vspace_of(asid) {
            None => Err(Error::FailedLookup),
            Some(found) if found != root => Err(Error::InvalidCapability(1)),
            Some(_) => Ok(()),
        }
    }

    /// The first address that is not user level's.
    fn user_end(&self) -> u64 {
        match self.arch {
            Arch::X86_64 => X86_64_USER_TOP,
            Arch::Aarch64 if self.is_current() => AARCH64_USER_TOP,
            Arch::Aarch64 => OLD_AARCH64_USER_TOP,
        }
    }

    /// Whether `len` bytes from `vaddr` go beyond user level's addresses. On x86_64 the sum of 5.0.0 wraps, and so lets the
    /// last page of all through to the checks that follow.
    pub(crate) fn is_beyond_user(&self, vaddr: u64, len: u64) -> bool {
        match self.arch {
            Arch::X86_64 if self.is_current() => vaddr > X86_64_LAST || vaddr + len > X86_64_LAST,
            Arch::X86_64 => vaddr.wrapping_add(len) > X86_64_USER_TOP,
            Arch::Aarch64 => vaddr.wrapping_add(len).wrapping_sub(1) >= self.user_end(),
        }
    }

    /// Whether the way to `vaddr` goes through the x86_64 kernel's own structures, which are full.
    pub(crate) fn is_kernels(&self, vaddr: u64) -> bool {
        self.arch == Arch::X86_64 && index(vaddr, shift(None)) == KERNEL_ENTRY
    }

    /// Removes a structure from the one above it, if it is still there.
    pub(crate) fn uninstall_table(&mut self, level: TableLevel, table: TableId, place: TablePlace) {
        let above = level.above();
        let Some(root) = self.vspace_of(place.asid) else { return };
        let Some(parent) = self.table_at(root, place.vaddr, above) else { return };
        let entry = self.entry(parent, place.vaddr, above);
        if *entry == Entry::Table(table) {
            *entry = Entry::Empty;
            self.translation_generation += 1;
        }
    }
}

/// The lowest bit of an address that chooses the entry in a table of this level, the root for none.
pub(crate) const fn shift(level: Option<TableLevel>) -> u32 {
    match level {
        None => 39,
        Some(level) => level.entry_bits() as u32,
    }
}

/// The index of the entry for `vaddr` in a structure whose entries start at bit `shift`.
#[inline]
pub(crate) const fn index(vaddr: u64, shift: u32) -> usize {
    (vaddr >> shift & ENTRY_MASK) as usize
}
