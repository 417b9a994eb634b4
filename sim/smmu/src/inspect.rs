//! The pages that a stream reaches, for checkers. Nothing is cached and no event is recorded. As for a transaction, a
//! cached structure takes precedence over the one in memory.

use platform::{Iova, PAGE_SIZE, Paddr};
use smmu_spec::context::Asid;
use smmu_spec::registers::Cr0;
use smmu_spec::stream::StreamConfig;
use smmu_spec::translation::{Descriptor, FIRST_LEVEL, LAST_LEVEL, index, shift};
use smmu_spec::{ContextDescriptor, StreamId, StreamTableEntry};

use crate::configuration::{fetch, fetch_leaf};
use crate::smmu::{PhysicalMemory, Smmu};

/// Number of descriptors in a table.
const ENTRIES: u64 = 512;

/// A page that a stream reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// The page's first address for the stream.
    pub iova: Iova,
    /// The page's physical address.
    pub paddr: Paddr,
    /// Whether the stream may write it.
    pub writable: bool,
}

impl Smmu {
    /// Returns the pages that an attached stream reaches, by address; none for any other, and none while the SMMU is
    /// off.
    pub fn reached(&self, memory: &mut dyn PhysicalMemory, stream: StreamId) -> Vec<Reached> {
        let mut reached = Vec::new();
        if let Some(context) = self.look_at_context(memory, stream) {
            let asid = Asid(context.word0.asid());
            self.collect(memory, (asid, FIRST_LEVEL), context.root(), 0, &mut reached);
        }
        reached
    }

    /// Returns the page that an attached stream reaches at an address, if it reaches one: that of [`Self::reached`].
    pub fn reached_at(&self, memory: &mut dyn PhysicalMemory, stream: StreamId, iova: Iova) -> Option<Reached> {
        let context = self.look_at_context(memory, stream)?;
        if iova.bits() >> shift(FIRST_LEVEL) >= ENTRIES {
            return None;
        }
        let asid = Asid(context.word0.asid());
        let mut table = context.root();
        for level in FIRST_LEVEL..LAST_LEVEL {
            table = self.look_at_descriptor(memory, (asid, level), table, iova.bits())?.address();
        }
        let page = self.look_at_descriptor(memory, (asid, LAST_LEVEL), table, iova.bits())?;
        Some(reached(iova.bits(), page))
    }

    /// The context of an attached stream; none while the SMMU is off.
    fn look_at_context(&self, memory: &mut dyn PhysicalMemory, stream: StreamId) -> Option<ContextDescriptor> {
        let is_on = Cr0::from_bits(self.state.cr0.acknowledged).smmu();
        if !is_on || stream.0 >> self.state.strtab_cfg.streams_log2().min(31) != 0 {
            return None;
        }
        let split = self.state.strtab_cfg.split();
        let leaf = match self.caches.leaves.get(&(stream.0 >> split)) {
            Some(cached) => *cached,
            None => {
                let leaf = fetch_leaf(memory, self.state.strtab_base, stream.0 >> split).ok()?;
                (leaf.span() != 0).then_some(leaf)?
            }
        };
        let at = leaf.address() + (u64::from(stream.0 & ((1 << split) - 1)) << 6);
        let entry = self.caches.entries.get(&stream.0).copied();
        let entry: StreamTableEntry = entry.or_else(|| fetch(memory, at).ok())?;
        if !entry.word0.valid() || entry.word0.config() != StreamConfig::Stage1 {
            return None;
        }
        let context = self.caches.contexts.get(&stream.0).copied();
        let context: ContextDescriptor = context.or_else(|| fetch(memory, entry.context()).ok())?;
        context.word0.valid().then_some(context)
    }

    /// Collects the pages below a table that begins at address `base`.
    fn collect(
        &self,
        memory: &mut dyn PhysicalMemory,
        (asid, level): (Asid, u8),
        table: u64,
        base: u64,
        all: &mut Vec<Reached>,
    ) {
        for index in 0..ENTRIES {
            let iova = base | index << shift(level);
            let Some(descriptor) = self.look_at_descriptor(memory, (asid, level), table, iova) else { continue };
            if level == LAST_LEVEL {
                all.push(reached(iova, descriptor));
            } else {
                self.collect(memory, (asid, level + 1), descriptor.address(), iova, all);
            }
        }
    }

    /// The valid descriptor of an address in a table.
    fn look_at_descriptor(
        &self,
        memory: &mut dyn PhysicalMemory,
        (asid, level): (Asid, u8),
        table: u64,
        iova: u64,
    ) -> Option<Descriptor> {
        let cached = self.caches.descriptors.get(&(asid, level, iova >> shift(level))).copied();
        let found = cached.or_else(|| fetch(memory, table + index(iova, level) as u64 * 8).ok());
        found.filter(Descriptor::valid)
    }
}

/// The page that `descriptor` maps at an address.
fn reached(iova: u64, descriptor: Descriptor) -> Reached {
    let iova = Iova::new(iova & !(PAGE_SIZE as u64 - 1));
    Reached { iova, paddr: Paddr::new(descriptor.address()), writable: !descriptor.read_only() }
}
