//! CNodes: the lookup of paths, and the invocations that copy, mint, move, delete, revoke and save capabilities.

use crate::arena::ThreadId;
use crate::capability::{Capability, data_word, low_bits};
use crate::fault::LookupFailure;
use crate::invocation::{Found, Invocation, Outcome, Stop};
use crate::kernel::Kernel;
use crate::rules::Ports;
use crate::slots::SlotId;
use crate::{Arch, label};
use platform::{AbsoluteCPtr, CPtr, CapData, Error, Result, Rights};

/// Bits of a path through a thread's whole CSpace.
const WORD_BITS: u8 = 64;

impl Kernel {
    /// See [`platform::Kernel::cnode_copy`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn cnode_copy(
        &mut self,
        thread: ThreadId,
        dest: AbsoluteCPtr,
        src: AbsoluteCPtr,
        rights: Rights,
    ) -> Result<()> {
        let words = [dest.index, dest.depth.into(), src.index, src.depth.into(), self.rules.grants.word(rights)];
        let caps = [src.root.cptr()];
        let invocation = Invocation { service: dest.root.cptr(), label: label::CNODE_COPY, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| {
            let (to, from) = kernel.dest_and_source(found, dest, src)?;
            let masked = kernel.slots[from].cap.masked(kernel.rules.grants.known(rights));
            kernel.copy_to(masked, from, to)
        })
    }

    /// See [`platform::Kernel::cnode_mint`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn cnode_mint(
        &mut self,
        thread: ThreadId,
        dest: AbsoluteCPtr,
        src: AbsoluteCPtr,
        rights: Rights,
        data: CapData,
    ) -> Result<()> {
        if let CapData::IoPorts(first, last) = data
            && self.rules.ports == Ports::Issued
            && self.arch == Arch::X86_64
        {
            return self.issue_ports(thread, dest, CPtr::new(src.index).cast(), (first, last));
        }
        let data = data_word(self.arch, self.rules.interface, data)?;
        let words = [dest.index, dest.depth.into(), src.index, src.depth.into(), self.rules.grants.word(rights), data];
        let caps = [src.root.cptr()];
        let invocation = Invocation { service: dest.root.cptr(), label: label::CNODE_MINT, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| {
            let (to, from) = kernel.dest_and_source(found, dest, src)?;
            let minted = kernel.slots[from].cap.masked(kernel.rules.grants.known(rights)).with_data(data, kernel.rules);
            kernel.copy_to(minted, from, to)
        })
    }

    /// See [`platform::Kernel::cnode_move`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn cnode_move(&mut self, thread: ThreadId, dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()> {
        let words = [dest.index, dest.depth.into(), src.index, src.depth.into()];
        let caps = [src.root.cptr()];
        let invocation = Invocation { service: dest.root.cptr(), label: label::CNODE_MOVE, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| {
            let (to, from) = kernel.dest_and_source(found, dest, src)?;
            kernel.move_slot(from, to);
            Ok(())
        })
    }

    /// See [`platform::Kernel::cnode_delete`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn cnode_delete(&mut self, thread: ThreadId, cptr: AbsoluteCPtr) -> Result<()> {
        self.on_slot(thread, label::CNODE_DELETE, cptr, |kernel, target| {
            kernel.delete(target);
            Ok(())
        })
    }

    /// See [`platform::Kernel::cnode_revoke`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn cnode_revoke(&mut self, thread: ThreadId, cptr: AbsoluteCPtr) -> Result<()> {
        self.on_slot(thread, label::CNODE_REVOKE, cptr, |kernel, target| {
            kernel.revoke(target);
            Ok(())
        })
    }

    /// See [`platform::Kernel::cnode_save_caller`]. Without a caller it does nothing and succeeds.
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn cnode_save_caller(&mut self, thread: ThreadId, cptr: AbsoluteCPtr) -> Result<()> {
        self.on_slot(thread, label::CNODE_SAVE_CALLER, cptr, |kernel, target| {
            kernel.ensure_empty(target)?;
            let caller = kernel.caller_slot(thread);
            if let Capability::Reply { is_master: false, .. } = kernel.slots[caller].cap {
                kernel.move_slot(caller, target);
            }
            Ok(())
        })
    }

    fn on_slot(
        &mut self,
        thread: ThreadId,
        label: u32,
        cptr: AbsoluteCPtr,
        act: impl FnOnce(&mut Self, SlotId) -> Outcome<()>,
    ) -> Result<()> {
        let words = [cptr.index, cptr.depth.into()];
        let invocation = Invocation { service: cptr.root.cptr(), label, words: &words, caps: &[] };
        self.invoke(thread, &invocation, |kernel, found| {
            let Capability::CNode { .. } = found.cap else { return Err(Stop::OtherKind) };
            let target = kernel.resolve(&found.cap, cptr.index, cptr.depth)?;
            act(kernel, target)
        })
    }

    /// The empty slot that an invocation fills and the taken one that it copies or moves from.
    fn dest_and_source(&self, found: &Found, dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Outcome<(SlotId, SlotId)> {
        let Capability::CNode { .. } = found.cap else { return Err(Stop::OtherKind) };
        let to = self.resolve(&found.cap, dest.index, dest.depth)?;
        let root = found.cap(0)?;
        self.ensure_empty(to)?;
        let from = self.resolve(&self.slots[root].cap, src.index, src.depth)?;
        if self.slots[from].cap.is_null() {
            return Err(Error::FailedLookup.into());
        }
        // The kernel checks for missing words last.
        found.all_words()?;
        Ok((to, from))
    }

    /// Derives `cap` from the slot `from` and puts the result into `to`.
    fn copy_to(&mut self, cap: Capability, from: SlotId, to: SlotId) -> Outcome<()> {
        let derived = self.derive(from, cap)?;
        if derived.is_null() {
            return Err(Error::IllegalOperation.into());
        }
        self.insert_derived(derived, from, to);
        Ok(())
    }

    /// The slot at the end of exactly `depth` bits of a path from `root`, for CNode invocations.
    pub(crate) fn resolve(&self, root: &Capability, index: u64, depth: u8) -> Result<SlotId> {
        let Capability::CNode { .. } = root else { return Err(Error::FailedLookup) };
        if !(1..=WORD_BITS).contains(&depth) {
            return Err(Error::RangeError { min: 1, max: WORD_BITS.into() });
        }
        match self.walk(root, index, depth) {
            Ok((slot, 0)) => Ok(slot),
            Ok(_) | Err(_) => Err(Error::FailedLookup),
        }
    }

    /// The slot that `cptr` names in the whole CSpace of `thread`. Bits may be left over.
    #[inline]
    pub(crate) fn lookup(&self, thread: ThreadId, cptr: CPtr) -> core::result::Result<SlotId, LookupFailure> {
        let root = &self.slots[self.cspace_slot(thread)].cap;
        self.walk(root, cptr.bits(), WORD_BITS).map(|(slot, _)| slot)
    }

    /// Follows a path of `bits` bits from `root` as far as CNodes go; returns the slot, and the number of bits left.
    fn walk(&self, root: &Capability, path: u64, bits: u8) -> core::result::Result<(SlotId, u8), LookupFailure> {
        let mut left = bits;
        let mut node = root;
        let mut reached = None;
        while let Capability::CNode { cnode, radix, guard, guard_bits } = *node {
            let found = path.checked_shr(u32::from(left.saturating_sub(guard_bits))).unwrap_or(0);
            if guard_bits > left || found & low_bits(guard_bits) != guard {
                return Err(LookupFailure::GuardMismatch { guard, bits_left: left, bits_found: guard_bits });
            }
            let level_bits = radix + guard_bits;
            if level_bits > left {
                return Err(LookupFailure::DepthMismatch { bits_found: level_bits, bits_left: left });
            }
            left -= level_bits;
            let offset = path.checked_shr(u32::from(left)).unwrap_or(0) & low_bits(radix);
            let slot = self.cnodes[cnode].first.offset(offset as u32);
            if left == 0 {
                return Ok((slot, 0));
            }
            reached = Some(slot);
            node = &self.slots[slot].cap;
        }
        reached.map(|slot| (slot, left)).ok_or(LookupFailure::InvalidRoot)
    }
}
