//! Environments of components under test.

use super::Ram;
use crate::{CPtr, Environment, Memory, Name, NamedCaps, OutOfBounds, Region, RegionKind, Vaddr};
use alloc::vec::Vec;
use core::result::Result;

/// Address of the first region; each has 256 MiB to itself.
const REGIONS: u64 = 1 << 32;

/// The environment of a component under test, and the memory of its regions. Clones have the same memory.
#[derive(Clone, Debug)]
pub struct Start {
    /// The environment so far. Its CNode, its cptrs and its configuration are a test's to fill in.
    pub environment: Environment,
    memories: Vec<Ram>,
}

impl Start {
    /// A component of this name, of at most 32 bytes, that waits on cptr 3 and has nothing else.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let environment = Environment {
            component: 7,
            name: short(name),
            cnode: None,
            cnode_bits: 16,
            ipc_buffer: Vaddr::new(0x1010_0000),
            free_cptrs: 0..0,
            receive_cptr: None,
            wait: Some(CPtr::new(3)),
            caps: Vec::new(),
            regions: Vec::new(),
            config: Vec::new(),
        };
        Self { environment, memories: Vec::new() }
    }

    /// Gives it `count` capabilities of this name, from cptr `first` on.
    pub fn caps(&mut self, name: &str, first: u64, count: u32) {
        self.environment.caps.push(NamedCaps { name: short(name), first: CPtr::new(first), count });
    }

    /// Gives it `memory` as a region of this name. A region of the kind read-only cannot be written.
    pub fn memory(&mut self, name: &str, kind: RegionKind, memory: &Ram) {
        let vaddr = Vaddr::new(REGIONS.saturating_add((self.memories.len() as u64).saturating_mul(1 << 28)));
        self.environment.regions.push(Region { name: short(name), vaddr, len: memory.len() as u64, kind });
        self.memories.push(if kind == RegionKind::ReadOnly { memory.read_only() } else { memory.clone() });
    }

    /// The memory of a region.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it is none of the component's.
    pub fn at(&self, region: &Region) -> Result<Ram, OutOfBounds> {
        let mut regions = self.environment.regions.iter().zip(&self.memories);
        regions.find(|(known, _)| *known == region).map(|(_, memory)| memory.clone()).ok_or(OutOfBounds)
    }
}

#[expect(clippy::expect_used, reason = "the names are a test's")]
fn short(name: &str) -> Name {
    Name::try_from(name).expect("a short name")
}
