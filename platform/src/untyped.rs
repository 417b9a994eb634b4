//! Device memory: exact ranges from large device untypeds.
//!
//! A device untyped only grows upwards, so a frame in its middle is reached by splitting it in halves and keeping
//! both; a frame is made once and copied afterwards (see `docs/decisions`). Used by the root task, which divides
//! the machine's device memory, and by the PCI server, which makes BAR pages.

use crate::{AbsoluteCPtr, CNode, CPtr, Cap, Error, Frame, Kernel, ObjectType, PAGE_BITS, Paddr, Result, Untyped};
use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// A device untyped: its range and its cptr.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeviceUntyped {
    /// First byte, aligned to the size.
    pub paddr: Paddr,
    /// log2 of the bytes covered.
    pub size_bits: u8,
    /// The cptr.
    pub cptr: CPtr,
}

impl DeviceUntyped {
    fn end(&self) -> Option<u64> {
        self.paddr.bits().checked_add(1u64.checked_shl(u32::from(self.size_bits))?)
    }

    fn covers(&self, paddr: Paddr, size_bits: u8) -> bool {
        let end = 1u64.checked_shl(u32::from(size_bits)).and_then(|size| paddr.bits().checked_add(size));
        match (self.end(), end) {
            (Some(own), Some(asked)) => self.paddr <= paddr && asked <= own,
            _ => false,
        }
    }
}

/// A set of device untypeds and the frames made from them. Needs two free cptrs for every halving.
#[derive(Debug)]
pub struct DeviceUntypeds {
    cnode: Cap<CNode>,
    free_cptrs: Range<u64>,
    whole: Vec<DeviceUntyped>,
    frames: Vec<(Paddr, Cap<Frame>)>,
}

impl DeviceUntypeds {
    /// A set of `untypeds`, all in `cnode`, whose `free_cptrs` are empty.
    #[must_use]
    pub fn new(cnode: Cap<CNode>, free_cptrs: Range<u64>, untypeds: Vec<DeviceUntyped>) -> Self {
        Self { cnode, free_cptrs, whole: untypeds, frames: Vec::new() }
    }

    /// Cptrs that are still empty.
    #[must_use]
    pub const fn cptrs_left(&self) -> u64 {
        self.free_cptrs.end.saturating_sub(self.free_cptrs.start)
    }

    /// The 4 KiB frame at `paddr`: made at the first call, the same capability afterwards. Map and give away copies.
    ///
    /// # Errors
    /// [`Error::FailedLookup`] when no untyped of the set covers the page or the cptrs are used up; the kernel's own.
    pub fn frame<K: Kernel>(&mut self, kernel: &K, paddr: Paddr) -> Result<Cap<Frame>> {
        if let Some((_, frame)) = self.frames.iter().find(|(at, _)| *at == paddr) {
            return Ok(*frame);
        }
        let untyped = self.untyped(kernel, paddr, PAGE_BITS as u8)?;
        let cptr = self.free_cptrs.next().ok_or(Error::FailedLookup)?;
        let end = cptr.checked_add(1).ok_or(Error::FailedLookup)?;
        kernel.untyped_retype(untyped, ObjectType::SmallPage, 0, self.cnode, cptr..end)?;
        let frame = Cap::from_bits(cptr);
        self.frames.push((paddr, frame));
        Ok(frame)
    }

    /// Takes the untyped that covers exactly `size_bits` from `paddr` out of the set, splitting larger ones.
    ///
    /// # Errors
    /// As [`DeviceUntypeds::frame`].
    pub fn untyped<K: Kernel>(&mut self, kernel: &K, paddr: Paddr, size_bits: u8) -> Result<Cap<Untyped>> {
        let index = self.whole.iter().position(|u| u.covers(paddr, size_bits)).ok_or(Error::FailedLookup)?;
        let mut untyped = self.whole.swap_remove(index);
        while untyped.size_bits > size_bits {
            let (low, high) = self.halve(kernel, untyped)?;
            let (inside, other) = if high.paddr <= paddr { (high, low) } else { (low, high) };
            self.whole.push(other);
            untyped = inside;
        }
        Ok(untyped.cptr.cast())
    }

    /// `cptr` in the form for CNode invocations.
    #[must_use]
    pub fn absolute(&self, cptr: CPtr) -> AbsoluteCPtr {
        AbsoluteCPtr { root: self.cnode, index: cptr.bits(), depth: 64 }
    }

    fn halve<K: Kernel>(&mut self, kernel: &K, untyped: DeviceUntyped) -> Result<(DeviceUntyped, DeviceUntyped)> {
        let size_bits = untyped.size_bits.checked_sub(1).ok_or(Error::FailedLookup)?;
        let first = self.free_cptrs.next().ok_or(Error::FailedLookup)?;
        let second = self.free_cptrs.next().ok_or(Error::FailedLookup)?;
        let end = second.checked_add(1).ok_or(Error::FailedLookup)?;
        kernel.untyped_retype(untyped.cptr.cast(), ObjectType::Untyped, size_bits, self.cnode, first..end)?;
        let half = 1u64.checked_shl(u32::from(size_bits)).ok_or(Error::FailedLookup)?;
        let upper = untyped.paddr.checked_add(half).ok_or(Error::FailedLookup)?;
        Ok((
            DeviceUntyped { paddr: untyped.paddr, size_bits, cptr: CPtr::new(first) },
            DeviceUntyped { paddr: upper, size_bits, cptr: CPtr::new(second) },
        ))
    }
}
