//! Frames: map, unmap, get the physical address.
//!
//! Neighbours: `vspace` for the structures above frames, `iospace` for mappings that devices use.

use crate::arena::ThreadId;
use crate::capability::{Capability, FrameSize, Mapping, VmRights};
use crate::invocation::{Found, Invocation, Outcome, Stop};
use crate::kernel::Kernel;
use crate::object::Entry;
use crate::rules::Interface;
use crate::{Arch, label};
use platform::{CacheAttributes, Cap, Error, Frame, Paddr, Result, Rights, TableLevel, VSpace, Vaddr};

impl Kernel {
    /// See [`platform::Kernel::frame_map`]. The model has no caches; the attributes decide only what AArch64 can execute.
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn frame_map(
        &mut self,
        thread: ThreadId,
        frame: Cap<Frame>,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
        rights: Rights,
        attributes: CacheAttributes,
    ) -> Result<()> {
        let words = [vaddr.bits(), self.rules.grants.word(rights), attributes_word(attributes)];
        let (service, caps) = (frame.cptr(), [vspace.cptr()]);
        let invocation = Invocation { service, label: label::PAGE_MAP, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| kernel.map_page(found, vaddr.bits(), rights, attributes))
    }

    /// See [`platform::Kernel::frame_unmap`]. Succeeds without effect on a frame that is not mapped.
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn frame_unmap(&mut self, thread: ThreadId, frame: Cap<Frame>) -> Result<()> {
        let invocation = Invocation { service: frame.cptr(), label: label::PAGE_UNMAP, words: &[], caps: &[] };
        self.invoke(thread, &invocation, |kernel, found| {
            let Capability::Frame { paddr, size, mapping, .. } = found.cap else { return Err(Stop::OtherKind) };
            match mapping {
                Mapping::None => return Ok(()),
                Mapping::VSpace { asid, vaddr } => kernel.unmap_page(size, asid, vaddr, paddr),
                Mapping::IoSpace { requester_id, iova } => kernel.unmap_io_page(requester_id, iova, paddr),
            }
            if let Capability::Frame { mapping, .. } = &mut kernel.slots[found.slot].cap {
                *mapping = Mapping::None;
            }
            Ok(())
        })
    }

    /// See [`platform::Kernel::frame_get_address`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn frame_get_address(&mut self, thread: ThreadId, frame: Cap<Frame>) -> Result<Paddr> {
        let invocation = Invocation { service: frame.cptr(), label: label::PAGE_GET_ADDRESS, words: &[], caps: &[] };
        self.invoke(thread, &invocation, |_, found| match found.cap {
            Capability::Frame { paddr, .. } => Ok(Paddr::new(paddr)),
            _ => Err(Stop::OtherKind),
        })
    }

    fn map_page(&mut self, found: &Found, vaddr: u64, rights: Rights, attributes: CacheAttributes) -> Outcome<()> {
        let Capability::Frame { paddr, size, rights: own, is_device, mapping } = found.cap else {
            return Err(Stop::OtherKind);
        };
        let vspace = found.cap(0)?;
        if mapping != Mapping::None && !self.is_current() {
            return Err(Error::InvalidCapability(0).into());
        }
        let (root, asid) = self.mappable(&self.slots[vspace].cap)?;
        let len = 1 << size.bits();
        let is_aligned = vaddr & (len - 1) == 0;
        let aligned = if is_aligned { Ok(()) } else { Err(Error::AlignmentError) };
        let place = self.check_place(mapping, asid, vaddr, len);
        match (self.arch, self.rules.interface) {
            (Arch::Aarch64, _) => self.ensure_vspace(root, asid).and(aligned).and(place)?,
            (Arch::X86_64, Interface::Old) => self.ensure_vspace(root, asid).and(place).and(aligned)?,
            (Arch::X86_64, Interface::Current) => place.and(self.ensure_vspace(root, asid)).and(aligned)?,
        }
        let level = level_of(size);
        if size == FrameSize::Large && self.is_kernels(vaddr) {
            return Err(Error::DeleteFirst.into());
        }
        let table = self.table_at(root, vaddr, level).ok_or(Error::FailedLookup)?;
        let masked = own.masked(rights);
        let is_executable = match self.arch {
            Arch::X86_64 => masked != VmRights::KernelOnly,
            // The platform requests execute-never for writable mappings; a page without rights can still be executed
            // (Arm DDI 0487, section D5.4.4).
            Arch::Aarch64 => attributes == CacheAttributes::WriteBack && !rights.write,
        };
        let before = *self.entry(table, vaddr, level);
        match before {
            Entry::Empty => {}
            // A later kernel replaces what is mapped there.
            Entry::Page { .. } if self.is_current() => self.translation_generation += 1,
            Entry::Table(_) if self.has_one_kind_of_table() => return Err(Error::FailedLookup.into()),
            Entry::Page { .. } | Entry::Table(_) => return Err(Error::DeleteFirst.into()),
        }
        *self.entry(table, vaddr, level) = Entry::Page { paddr, rights: masked, is_executable };
        let mapping = Mapping::VSpace { asid, vaddr };
        self.slots[found.slot].cap = Capability::Frame { paddr, size, rights: own, is_device, mapping };
        Ok(())
    }

    /// Checks the address of a mapping: of user level for a frame that is mapped nowhere, else the one that it has.
    fn check_place(&self, mapping: Mapping, asid: u16, vaddr: u64, len: u64) -> Result<()> {
        match mapping {
            Mapping::None if self.is_beyond_user(vaddr, len) => Err(Error::InvalidArgument(0)),
            Mapping::VSpace { asid: own, .. } | Mapping::IoSpace { requester_id: own, .. } if own != asid => {
                Err(Error::InvalidCapability(1))
            }
            Mapping::IoSpace { .. } => Err(Error::IllegalOperation),
            Mapping::VSpace { vaddr: own, .. } if own != vaddr => Err(Error::InvalidArgument(0)),
            Mapping::None | Mapping::VSpace { .. } => Ok(()),
        }
    }

    /// Removes a frame's mapping, if this frame is still the one that is mapped there.
    pub(crate) fn unmap_page(&mut self, size: FrameSize, asid: u16, vaddr: u64, paddr: u64) {
        let level = level_of(size);
        let Some(root) = self.vspace_of(asid) else { return };
        let Some(table) = self.table_at(root, vaddr, level) else { return };
        let entry = self.entry(table, vaddr, level);
        match *entry {
            Entry::Page { paddr: mapped, .. } if mapped == paddr => *entry = Entry::Empty,
            Entry::Page { .. } | Entry::Table(_) | Entry::Empty => return,
        }
        self.translation_generation += 1;
    }
}

/// The structure whose entries are frames of this size.
const fn level_of(size: FrameSize) -> Option<TableLevel> {
    match size {
        FrameSize::Small => Some(TableLevel::Three),
        FrameSize::Large => Some(TableLevel::Two),
    }
}

/// Attributes as the kernel's interface encodes them.
const fn attributes_word(attributes: CacheAttributes) -> u64 {
    match attributes {
        CacheAttributes::WriteBack => 0,
        CacheAttributes::Uncached => 3,
    }
}
