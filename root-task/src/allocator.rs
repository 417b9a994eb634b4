//! Makes objects from untypeds, so that no memory is lost to alignment.
//!
//! All sizes are powers of two, and untypeds are aligned to theirs. If larger objects are made before smaller ones, every
//! free part stays aligned for all later objects. So objects fit whenever the sum of their bytes fits.
//!
//! Untypeds are opened from the smallest that has room, because the kernel clears the whole of an untyped at its first
//! retype. In a machine with much memory the large ones stay closed, and boot does not wait for unused memory.

use crate::boot::bytes;
use crate::{BootInfo, BuildError};
use alloc::vec::Vec;
use core::ops::Range;
use platform::{CNode, Cap, Kernel, ObjectType, Untyped};

/// `count` objects that are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The objects' type.
    pub object_type: ObjectType,
    /// Size argument of retype, for types without a fixed size.
    pub size_bits: u8,
    /// The number of objects; they lie at consecutive cptrs.
    pub count: u64,
    /// Whether the objects are consecutive in memory, too.
    pub contiguous: bool,
}

#[derive(Debug)]
struct Block {
    cptr: Cap<Untyped>,
    bytes: u64,
    /// Bytes from the start that are used, or lost to alignment.
    used: u64,
}

impl Block {
    const fn is_open(&self) -> bool {
        self.used != 0
    }

    /// Objects of 2^`bits` bytes that still fit.
    fn room(&self, bits: u8) -> u64 {
        let start = self.used.checked_next_multiple_of(bytes(bits)).unwrap_or(u64::MAX);
        self.bytes.saturating_sub(start).checked_shr(u32::from(bits)).unwrap_or(0)
    }

    fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.used)
    }
}

/// The machine's ordinary memory and the root task's free cptrs.
#[derive(Debug)]
pub struct Allocator {
    cnode: Cap<CNode>,
    cptrs: Range<u64>,
    /// Ascending in size.
    blocks: Vec<Block>,
    object_bits: fn(ObjectType, u8) -> u8,
    retype_limit: u64,
}

impl Allocator {
    /// Creates the allocator over all ordinary memory and free cptrs of `boot`.
    #[must_use]
    pub fn new(boot: &BootInfo) -> Self {
        let ordinary = boot.untypeds.iter().filter(|untyped| !untyped.is_device);
        let block = |u: &crate::UntypedInfo| Block { cptr: u.cptr, bytes: bytes(u.size_bits), used: 0 };
        let mut blocks: Vec<Block> = ordinary.map(block).collect();
        blocks.sort_by_key(|block| block.bytes);
        Self {
            cnode: boot.cnode,
            cptrs: boot.free_cptrs.clone(),
            blocks,
            object_bits: boot.object_bits,
            retype_limit: boot.retype_limit.max(1),
        }
    }

    /// Bytes that are not used for objects.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.blocks.iter().fold(0, |sum, block| sum.saturating_add(block.left()))
    }

    /// Takes `count` consecutive empty cptrs.
    ///
    /// # Errors
    /// [`BuildError::NoCptrs`].
    pub fn cptrs(&mut self, count: u64) -> Result<Range<u64>, BuildError> {
        let first = self.cptrs.start;
        match first.checked_add(count) {
            Some(end) if end <= self.cptrs.end => {
                self.cptrs.start = end;
                Ok(first..end)
            }
            _ => Err(BuildError::NoCptrs { asked: count, available: self.cptrs.end.saturating_sub(first) }),
        }
    }

    /// Makes all of `demands`, the large before the small; returns the cptrs of each, in the order of `demands`.
    ///
    /// # Errors
    /// [`BuildError::NoMemory`] before anything is made if it cannot all be made, [`BuildError::NoCptrs`], and the
    /// kernel's refusals.
    pub fn make_all<K: Kernel>(&mut self, kernel: &K, demands: &[Demand]) -> Result<Vec<Range<u64>>, BuildError> {
        let asked = demands.iter().fold(0u64, |sum, demand| sum.saturating_add(self.demanded(demand)));
        if asked > self.left() {
            return Err(BuildError::NoMemory { asked, available: self.left() });
        }
        let mut order: Vec<(usize, &Demand)> = demands.iter().enumerate().collect();
        order.sort_by_key(|(_, demand)| core::cmp::Reverse(self.bits(demand)));
        let mut made: Vec<Range<u64>> = demands.iter().map(|_| 0..0).collect();
        for (index, demand) in order {
            let cptrs = self.make(kernel, demand)?;
            if let Some(place) = made.get_mut(index) {
                *place = cptrs;
            }
        }
        Ok(made)
    }

    fn make<K: Kernel>(&mut self, kernel: &K, demand: &Demand) -> Result<Range<u64>, BuildError> {
        let bits = self.bits(demand);
        let cptrs = self.cptrs(demand.count)?;
        let mut next = cptrs.start;
        let mut chosen = None;
        while next < cptrs.end {
            let rest = cptrs.end.saturating_sub(next);
            let (left, available) = (rest.saturating_mul(bytes(bits)), self.available(bits));
            let found = match chosen.filter(|_| demand.contiguous) {
                None => self.choose(bits, if demand.contiguous { rest } else { 1 }),
                same => same,
            };
            chosen = found;
            let cnode = self.cnode;
            let block = found.and_then(|index| self.blocks.get_mut(index));
            let block = block.ok_or(BuildError::NoMemory { asked: left, available })?;
            let count = rest.min(self.retype_limit).min(block.room(bits));
            let end = next.saturating_add(count);
            retype(kernel, block.cptr, (demand.object_type, demand.size_bits), cnode, next..end)?;
            let start = block.used.checked_next_multiple_of(bytes(bits)).unwrap_or(u64::MAX);
            block.used = start.saturating_add(count.saturating_mul(bytes(bits)));
            next = end;
        }
        Ok(cptrs)
    }

    /// Makes objects of a fixed size from an untyped that has room for them.
    pub(crate) fn fill<K: Kernel>(
        &self,
        kernel: &K,
        untyped: Cap<Untyped>,
        object_type: ObjectType,
        cptrs: Range<u64>,
    ) -> Result<(), BuildError> {
        let mut next = cptrs.start;
        while next < cptrs.end {
            let end = next.saturating_add(self.retype_limit).min(cptrs.end);
            retype(kernel, untyped, (object_type, 0), self.cnode, next..end)?;
            next = end;
        }
        Ok(())
    }

    /// The block for the next `together` objects: one that is open already, the fullest first, then the smallest that is not.
    fn choose(&self, bits: u8, together: u64) -> Option<usize> {
        let fitting = self.blocks.iter().enumerate().filter(|(_, block)| block.room(bits) >= together);
        fitting.min_by_key(|(_, block)| (!block.is_open(), block.left())).map(|(index, _)| index)
    }

    fn bits(&self, demand: &Demand) -> u8 {
        (self.object_bits)(demand.object_type, demand.size_bits)
    }

    fn demanded(&self, demand: &Demand) -> u64 {
        demand.count.saturating_mul(bytes(self.bits(demand)))
    }

    /// Bytes in blocks where an object of 2^`bits` bytes fits.
    fn available(&self, bits: u8) -> u64 {
        let room = |block: &Block| block.room(bits).saturating_mul(bytes(bits));
        self.blocks.iter().fold(0, |sum, block| sum.saturating_add(room(block)))
    }
}

fn retype<K: Kernel>(
    kernel: &K,
    untyped: Cap<Untyped>,
    (object_type, size_bits): (ObjectType, u8),
    cnode: Cap<CNode>,
    cptrs: Range<u64>,
) -> Result<(), BuildError> {
    let made = kernel.untyped_retype(untyped, object_type, size_bits, cnode, cptrs);
    made.map_err(BuildError::refused("retype memory into", type_name(object_type)))
}

const fn type_name(object_type: ObjectType) -> &'static str {
    match object_type {
        ObjectType::Untyped => "untypeds",
        ObjectType::Endpoint => "endpoints",
        ObjectType::Notification => "notifications",
        ObjectType::CNode => "CNodes",
        ObjectType::Tcb => "TCBs",
        ObjectType::VSpace => "VSpace roots",
        ObjectType::TranslationTable(_) => "paging structures",
        ObjectType::SmallPage | ObjectType::LargePage => "frames",
        ObjectType::IoPageTable => "IO page tables",
    }
}

#[cfg(test)]
mod tests;
