//! A component's environment at its start: its capabilities by name, its memory by name, its configuration.
//!
//! Written by the system's model (`capdl/`) into a read-only page; nothing in it is seL4's alone.

use crate::{AbsoluteCPtr, CNode, CPtr, Cap, CapType, Vaddr};
use alloc::vec::Vec;
use core::ops::Range;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The name of a component, capability or region.
pub type Name = heapless::String<32>;

/// A run of capabilities of one kind at consecutive cptrs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NamedCaps {
    /// The capabilities' name.
    pub name: Name,
    /// First cptr.
    pub first: CPtr,
    /// Cptrs in the run.
    pub count: u32,
}

/// Kind of the memory behind a region of the component's address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RegionKind {
    /// Memory, mapped read-write.
    ReadWrite,
    /// Memory, mapped read-only.
    ReadOnly,
    /// Device registers, mapped.
    Device,
    /// Nothing yet: paging structures are ready for device pages that a server maps later.
    Arena,
}

/// A named region of the component's address space.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Region {
    /// The region's name.
    pub name: Name,
    /// First byte.
    pub vaddr: Vaddr,
    /// Bytes.
    pub len: u64,
    /// The kind of its memory.
    pub kind: RegionKind,
}

impl Region {
    /// Whether all of the `len` bytes at `vaddr` lie inside.
    #[must_use]
    pub const fn holds(&self, vaddr: Vaddr, len: u64) -> bool {
        let Some(offset) = vaddr.bits().checked_sub(self.vaddr.bits()) else { return false };
        match offset.checked_add(len) {
            Some(end) => end <= self.len,
            None => false,
        }
    }

    /// The part of the region that starts at `offset` and has `len` bytes, unless it is not inside.
    #[must_use]
    pub fn part(&self, offset: u64, len: u64) -> Option<Self> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then_some(())?;
        Some(Self { name: self.name.clone(), vaddr: self.vaddr.checked_add(offset)?, len, kind: self.kind })
    }
}

/// The environment of a component at its start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// The component's number: its badge at the supervisor and its id in the log.
    pub component: u16,
    /// The component's name.
    pub name: Name,
    /// The capability to its own CNode, when it has one (only servers do).
    pub cnode: Option<CPtr>,
    /// log2 of the slots of its CNode; depth of its CSpace is 64 with the guard.
    pub cnode_bits: u8,
    /// Address of its IPC buffer.
    pub ipc_buffer: Vaddr,
    /// Cptrs it may fill.
    pub free_cptrs: Range<u64>,
    /// Cptr for a received capability.
    pub receive_cptr: Option<CPtr>,
    /// The object that it waits on: an endpoint with a bound notification, or a notification.
    pub wait: Option<CPtr>,
    /// The component's capabilities.
    pub caps: Vec<NamedCaps>,
    /// The component's memory.
    pub regions: Vec<Region>,
    /// The component's own configuration, in postcard; see [`Environment::config`].
    pub config: Vec<u8>,
}

impl Environment {
    /// The capability named `name`, the first of its run.
    #[must_use]
    pub fn cap<T: CapType>(&self, name: &str) -> Option<Cap<T>> {
        self.cap_at(name, 0)
    }

    /// The capability number `index` of the run named `name`.
    #[must_use]
    pub fn cap_at<T: CapType>(&self, name: &str, index: u32) -> Option<Cap<T>> {
        let run = self.caps.iter().find(|caps| caps.name == name)?;
        (index < run.count).then_some(())?;
        Some(Cap::from_bits(run.first.bits().checked_add(u64::from(index))?))
    }

    /// Number of capabilities in the run named `name`, 0 without one.
    #[must_use]
    pub fn cap_count(&self, name: &str) -> u32 {
        self.caps.iter().find(|caps| caps.name == name).map_or(0, |caps| caps.count)
    }

    /// The region named `name`.
    #[must_use]
    pub fn region(&self, name: &str) -> Option<&Region> {
        self.regions.iter().find(|region| region.name == name)
    }

    /// The component's configuration, unless it is not a `T`.
    #[must_use]
    pub fn config<T: DeserializeOwned>(&self) -> Option<T> {
        postcard::from_bytes(&self.config).ok()
    }

    /// `cptr` of the component's own CSpace, in the form for CNode invocations. `None` without a CNode of its own.
    #[must_use]
    pub fn absolute(&self, cptr: CPtr) -> Option<AbsoluteCPtr> {
        Some(AbsoluteCPtr { root: self.cnode?.cast::<CNode>(), index: cptr.bits(), depth: 64 })
    }
}

/// `ticks` of a clock with `per_second` as nanoseconds, saturating.
#[must_use]
pub fn ticks_to_ns(ticks: u64, per_second: u64) -> u64 {
    let wide = u128::from(ticks).saturating_mul(1_000_000_000);
    u64::try_from(wide.checked_div(u128::from(per_second)).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_holds_only_what_lies_between_its_ends() {
        let region = Region { name: Name::new(), vaddr: Vaddr::new(0x1000), len: 0x2000, kind: RegionKind::ReadOnly };
        assert!(region.holds(Vaddr::new(0x1000), 0x2000) && region.holds(Vaddr::new(0x2fff), 1));
        assert!(!region.holds(Vaddr::new(0xfff), 1) && !region.holds(Vaddr::new(0x2fff), 2));
        assert!(!region.holds(Vaddr::new(0x1001), u64::MAX));
    }
}
