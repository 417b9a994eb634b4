//! Steps that have a law of their own.

use super::world::{SLOTS, World};
use core::ops::Range;
use platform::*;
use sim_kernel::{Capability, Delivery, Mapping, ThreadId};

impl World {
    /// New memory is empty, whatever used it before.
    pub(super) fn retype(
        &mut self,
        actor: ThreadId,
        from: u8,
        what: (ObjectType, u8),
        (to, count): (u8, u8),
    ) -> Result<()> {
        let start = self.empty(to).bits();
        let slots: Range<u64> = start..(start + u64::from(count)).min(self.first + SLOTS);
        let from = self.pick(from, |cap| matches!(cap, Capability::Untyped { .. }));
        if self.is_trap(actor, from) {
            return Err(Error::InvalidCapability(0));
        }
        let (cnode, (kind, bits)) = (self.machine.root.cnode, what);
        self.machine.kernel.untyped_retype(actor, from.cast(), kind, bits, cnode, slots.clone())?;
        // Another kind of capability takes the message for its own: nothing was made.
        let Some(Capability::Untyped { .. }) = self.held(from) else { return Ok(()) };
        for slot in slots {
            if let Some(Capability::Frame { paddr, .. }) = self.held(CPtr::new(slot)) {
                let memory = self.machine.kernel.memory_mut();
                let page = memory.page_mut(Paddr::new(paddr)).expect("frames are RAM here");
                assert!(page.iter().all(|byte| *byte == 0), "a frame at {paddr:#x} shows what was there before");
                page.fill(0xaa);
            }
        }
        Ok(())
    }

    pub(super) fn mint(&mut self, actor: ThreadId, slots: (u8, u8), mask: Rights, data: CapData) -> Result<()> {
        self.copy(actor, slots, mask, Some(data))
    }

    /// Copies never gain rights.
    pub(super) fn copy(
        &mut self,
        actor: ThreadId,
        (to, from): (u8, u8),
        mask: Rights,
        data: Option<CapData>,
    ) -> Result<()> {
        let from = match data {
            Some(CapData::IoSpace { .. }) => self.pick(from, |cap| matches!(cap, Capability::IoSpace { .. })),
            Some(CapData::IoPorts(..)) => {
                self.pick(from, |cap| matches!(cap, Capability::IoPortControl | Capability::IoPorts { .. }))
            }
            _ => self.taken(from),
        };
        let is_range = matches!(data, Some(CapData::IoPorts(..)));
        if is_range && self.is_trap(actor, from) {
            return Err(Error::InvalidCapability(0));
        }
        let (before, to) = (self.held(from), self.empty(to));
        // The kernel would stop the machine.
        if let Some(Capability::Table { level: TableLevel::One, .. }) = before {
            return Err(Error::IllegalOperation);
        }
        let (dest, src) = (self.machine.at(to), self.machine.at(from));
        match data {
            None => self.machine.kernel.cnode_copy(actor, dest, src, mask)?,
            Some(data) => self.machine.kernel.cnode_mint(actor, dest, src, mask, data)?,
        }
        let (before, after) = (before.expect("it was copied"), self.held(to).expect("it was copied"));
        // Where ports are issued, another kind of capability takes the message for its own: nothing was made.
        if is_range && after.is_null() {
            return Ok(());
        }
        if let Capability::Endpoint { badge, .. } = after {
            self.badges.insert(badge);
        }
        assert!(is_within(&after, &before), "{after:?} came of {before:?}");
        Ok(())
    }

    /// Revoking leaves no descendant, and the revoked capability stays.
    pub(super) fn revoke(&mut self, actor: ThreadId, slot: u8) -> Result<()> {
        let slot = match slot.is_multiple_of(2) {
            true => self.pick(slot, |cap| matches!(cap, Capability::Untyped { size_bits: ..=14, .. })),
            false => self.taken(slot),
        };
        let before = self.held(slot);
        self.machine.kernel.cnode_revoke(actor, self.machine.at(slot))?;
        let left = self.machine.kernel.descendants(self.machine.me, slot);
        assert_eq!(left, [], "derive from {before:?}");
        assert_eq!(before.map(|cap| cap.is_null()), self.held(slot).map(|cap| cap.is_null()));
        Ok(())
    }

    /// A deleted capability's slot is empty.
    pub(super) fn delete(&mut self, actor: ThreadId, slot: u8) -> Result<()> {
        let slot = self.taken(slot);
        self.machine.kernel.cnode_delete(actor, self.machine.at(slot))?;
        assert_eq!(self.held(slot), Some(Capability::Null));
        Ok(())
    }

    /// A capability that was unmapped maps its object nowhere.
    pub(super) fn unmap(&mut self, actor: ThreadId, slot: u8) -> Result<()> {
        let frame = self.frame(slot, true);
        if self.is_trap(actor, frame) {
            return Err(Error::InvalidCapability(0));
        }
        let before = self.held(frame);
        self.machine.kernel.frame_unmap(actor, frame.cast())?;
        let kernel = &self.machine.kernel;
        let Some(Capability::Frame { paddr, mapping, .. }) = before else { return Ok(()) };
        match mapping {
            Mapping::None => {}
            Mapping::IoSpace { requester_id, iova } => {
                let pages = kernel.io_space(requester_id);
                assert!(
                    !pages.iter().any(|page| (page.iova, page.paddr) == (iova, paddr)),
                    "{iova:#x} is still mapped"
                );
            }
            Mapping::VSpace { vaddr, asid } => {
                for thread in kernel.threads().filter(|thread| kernel.vspace_asid(*thread) == Some(asid)) {
                    let is_mapped = kernel.vspace(thread).iter().any(|page| (page.vaddr, page.paddr) == (vaddr, paddr));
                    assert!(!is_mapped, "{vaddr:#x} is still mapped");
                }
            }
        }
        Ok(())
    }

    /// Only badges that were minted arrive.
    pub(super) fn check_delivery(&mut self, actor: ThreadId) {
        if let Some(Delivery::Message(badge, _)) = self.machine.kernel.take(actor) {
            assert!(self.badges.contains(&badge.0), "nobody minted {badge:?}");
        }
    }
}

/// Whether `after` gives no right that `before` does not.
fn is_within(after: &Capability, before: &Capability) -> bool {
    let implies = |new: bool, old: bool| !new || old;
    match (after, before) {
        (Capability::Endpoint { rights: new, .. }, Capability::Endpoint { rights: old, .. })
        | (Capability::Notification { rights: new, .. }, Capability::Notification { rights: old, .. }) => {
            implies(new.read, old.read)
                && implies(new.write, old.write)
                && implies(new.grant, old.grant)
                && implies(new.grant_reply, old.grant_reply)
        }
        (Capability::Frame { rights: new, mapping, .. }, Capability::Frame { rights: old, .. }) => {
            new <= old && *mapping == Mapping::None
        }
        (Capability::IoPorts { first, last }, Capability::IoPorts { first: low, last: high }) => {
            low <= first && last <= high
        }
        (Capability::IoPorts { .. }, Capability::IoPortControl) => true,
        (after, before) => core::mem::discriminant(after) == core::mem::discriminant(before),
    }
}
