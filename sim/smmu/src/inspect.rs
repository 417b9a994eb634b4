//! The pages that a stream reaches, for checkers. Nothing is cached and no event is recorded. As for a transaction, a
//! cached structure takes precedence over the one in memory.

use platform::{Iova, Paddr};
use smmu_spec::context::Asid;
use smmu_spec::registers::Cr0;
use smmu_spec::stream::StreamConfig;
use smmu_spec::translation::{Descriptor, FIRST_LEVEL, LAST_LEVEL, shift};
use smmu_spec::{ContextDescriptor, StreamId, StreamTableEntry};

use crate::configuration::{fetch, fetch_leaf};
use crate::smmu::{PhysicalMemory, Smmu};

/// Number of descriptors in a table.
const ENTRIES: u64 = 512;

/// A page that a stream reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// Its first address for the stream.
    pub iova: Iova,
    /// Its physical address.
    pub paddr: Paddr,
    /// Whether the stream may write it.
    pub writable: bool,
}

impl Smmu {
    /// Returns the pages that an attached stream reaches, by address; none for any other, and none while the SMMU is
    /// off.
    pub fn reached(&self, memory: &mut dyn PhysicalMemory, stream: StreamId) -> Vec<Reached> {
        let mut reached = Vec::new();
        if Cr0::from_bits(self.state.cr0.acknowledged).smmu()
            && let Some(context) = self.look_at_context(memory, stream)
        {
            let asid = Asid(context.word0.asid());
            self.collect(memory, (asid, FIRST_LEVEL), context.root(), 0, &mut reached);
        }
        reached
    }

    fn look_at_context(&self, memory: &mut dyn PhysicalMemory, stream: StreamId) -> Option<ContextDescriptor> {
        if stream.0 >> self.state.strtab_cfg.streams_log2().min(31) != 0 {
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
        reached: &mut Vec<Reached>,
    ) {
        for index in 0..ENTRIES {
            let iova = base | index << shift(level);
            let cached = self.caches.descriptors.get(&(asid, level, iova >> shift(level))).copied();
            let found = cached.or_else(|| fetch::<Descriptor>(memory, table + 8 * index).ok());
            let Some(descriptor) = found.filter(|descriptor| descriptor.valid()) else { continue };
            if level == LAST_LEVEL {
                let (iova, paddr) = (Iova::new(iova), Paddr::new(descriptor.address()));
                reached.push(Reached { iova, paddr, writable: !descriptor.read_only() });
            } else {
                self.collect(memory, (asid, level + 1), descriptor.address(), iova, reached);
            }
        }
    }
}
