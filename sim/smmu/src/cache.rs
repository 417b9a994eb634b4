//! All table structures that the model caches, and their invalidation.
//!
//! A context descriptor stays cached until a command names it or everything. A driver cannot rely on its invalidation
//! together with the stream table entry that led to it.

use std::collections::BTreeMap;

use smmu_spec::command::{Opcode, RANGE_ALL, Reach};
use smmu_spec::context::Asid;
use smmu_spec::translation::{Descriptor, LAST_LEVEL, shift};
use smmu_spec::{Command, ContextDescriptor, L1StreamDescriptor, StreamTableEntry};

/// All caches. Only valid structures are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caches {
    /// By index in the level 1 table.
    pub(crate) leaves: BTreeMap<u32, L1StreamDescriptor>,
    pub(crate) entries: BTreeMap<u32, StreamTableEntry>,
    pub(crate) contexts: BTreeMap<u32, ContextDescriptor>,
    /// By ASID, level, and the address without the bits below this level's.
    pub(crate) descriptors: BTreeMap<(Asid, u8, u64), Descriptor>,
    /// Invalidations that take effect at the next SYNC.
    pending: Vec<Command>,
    /// Whether all configuration and all translations were invalidated since power on.
    pub(crate) is_clean: (bool, bool),
}

impl Caches {
    /// Queues an invalidation that was consumed, until the next SYNC.
    pub(crate) fn defer(&mut self, command: Command) {
        self.pending.push(command);
    }

    /// Applies the invalidations consumed before a SYNC. `split` is log2 of the streams in a level 2 table.
    pub(crate) fn sync(&mut self, split: u8) {
        for command in std::mem::take(&mut self.pending) {
            self.apply(&command, split);
        }
    }

    fn apply(&mut self, command: &Command, split: u8) {
        let (stream, asid) = (command.stream().0, command.asid());
        match command.opcode() {
            Some(Opcode::InvalidateStream) => {
                self.entries.remove(&stream);
                if command.reach() == Reach::AllLevels {
                    self.leaves.remove(&(stream >> split));
                }
            }
            Some(Opcode::InvalidateStreams) if command.range() == RANGE_ALL => {
                self.leaves.clear();
                self.entries.clear();
                self.contexts.clear();
                self.is_clean.0 = true;
            }
            Some(Opcode::InvalidateStreams) => {
                let bits = u32::from(command.range()) + 1;
                self.entries.retain(|cached, _| cached >> bits != stream >> bits);
                let bits = bits.saturating_sub(u32::from(split));
                self.leaves.retain(|cached, _| cached >> bits != (stream >> split) >> bits);
            }
            Some(Opcode::InvalidateContext) => drop(self.contexts.remove(&stream)),
            Some(Opcode::InvalidateAsid) => self.descriptors.retain(|(cached, _, _), _| *cached != asid),
            Some(Opcode::InvalidateAddress) => self.descriptors.retain(|(cached, level, address), _| {
                let is_reached = *level == LAST_LEVEL || command.reach() == Reach::AllLevels;
                *cached != asid || *address != command.address() >> shift(*level) || !is_reached
            }),
            Some(Opcode::InvalidateAll) => {
                self.descriptors.clear();
                self.is_clean.1 = true;
            }
            Some(Opcode::Sync) | None => {}
        }
    }
}
