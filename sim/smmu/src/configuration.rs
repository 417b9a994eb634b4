//! Finding a stream's context descriptor: stream table, entry, descriptor (sections 3.3, 5.1, 5.2, 5.4).
//!
//! A cached structure is used regardless of memory. Memory is read all the same, to detect a driver that replaced a
//! cached structure by another valid one.

use platform::Paddr;
use smmu_spec::context::CdWord1;
use smmu_spec::registers::{STRTAB_ADDRESS, output_bits};
use smmu_spec::stream::{SteWord1, StreamConfig};
use smmu_spec::{ContextDescriptor, EventKind, L1StreamDescriptor, StreamId, StreamTableEntry};
use zerocopy::FromBytes;

use crate::registers::OAS;
use crate::smmu::{Abort, PhysicalMemory, Refusal, Smmu};
use crate::violation::Violation;

/// The fields of an entry's second word that a driver of this SMMU sets.
const STE_WORD1: SteWord1 = SteWord1::new()
    .with_s1_dss(3)
    .with_s1_inner(3)
    .with_s1_outer(3)
    .with_s1_shareability(3)
    .with_merge_events(true)
    .with_shareability(3);
/// Reserved bits of an entry's first word.
const STE_WORD0_RESERVED: u64 = 0x7f << 52;

impl Smmu {
    /// Returns the context descriptor of a stream, or `None` when its transactions bypass.
    pub(crate) fn context(
        &mut self,
        memory: &mut dyn PhysicalMemory,
        stream: StreamId,
    ) -> Result<Option<ContextDescriptor>, Refusal> {
        let entry = self.entry(memory, stream)?;
        match entry.word0.config() {
            StreamConfig::Stage1 => {}
            StreamConfig::Bypass => {
                self.violation(Violation::Bypass(stream));
                return Ok(None);
            }
            StreamConfig::Abort => return Err(Refusal::Aborted),
            _ => return Err(self.illegal(stream, EventKind::BadSte)),
        }
        let fetched = fetch::<ContextDescriptor>(memory, entry.context());
        if let Some(cached) = self.caches.contexts.get(&stream.0).copied() {
            if fetched.is_ok_and(|now| now.word0.valid() && now != cached) {
                self.violation(Violation::StreamChanged(stream));
            }
            return Ok(Some(cached));
        }
        let context = fetched.map_err(|Abort| Refusal::Event(EventKind::CdFetch))?;
        if !context.word0.valid() {
            return Err(Refusal::Event(EventKind::BadCd));
        }
        if !is_legal(&context) {
            return Err(self.illegal(stream, EventKind::BadCd));
        }
        let asid = context.word0.asid();
        if self.caches.contexts.values().any(|other| other.word0.asid() == asid && other.root() != context.root()) {
            self.violation(Violation::SharedAsid(smmu_spec::context::Asid(asid)));
        }
        self.caches.contexts.insert(stream.0, context);
        Ok(Some(context))
    }

    fn entry(&mut self, memory: &mut dyn PhysicalMemory, stream: StreamId) -> Result<StreamTableEntry, Refusal> {
        if stream.0 >> self.state.strtab_cfg.streams_log2().min(31) != 0 {
            return Err(Refusal::Event(EventKind::BadStream));
        }
        let split = self.state.strtab_cfg.split();
        let now = fetch_leaf(memory, self.state.strtab_base, stream.0 >> split);
        let leaf = self.caches.leaves.get(&(stream.0 >> split)).copied();
        if let (Some(cached), Ok(now)) = (leaf, now)
            && now.span() != 0
            && now != cached
        {
            self.violation(Violation::StreamChanged(stream));
        }
        let leaf = match leaf {
            Some(cached) => Ok(cached),
            None => {
                now.map_err(|Abort| Refusal::Event(EventKind::SteFetch)).and_then(|now| self.check_leaf(stream, now))
            }
        };
        let fetched = leaf.and_then(|leaf| {
            let at = leaf.address() + (u64::from(stream.0 & ((1 << split) - 1)) << 6);
            fetch::<StreamTableEntry>(memory, at).map_err(|Abort| Refusal::Event(EventKind::SteFetch))
        });
        if let Some(cached) = self.caches.entries.get(&stream.0).copied() {
            if fetched.is_ok_and(|now| now.word0.valid() && now != cached) {
                self.violation(Violation::StreamChanged(stream));
            }
            return Ok(cached);
        }
        let entry = fetched?;
        if !entry.word0.valid() {
            return Err(Refusal::Event(EventKind::BadSte));
        }
        let reserved = entry.word0.into_bits() & STE_WORD0_RESERVED != 0
            || entry.word1.into_bits() & !STE_WORD1.into_bits() != 0
            || entry.rest != [0; 6]
            || entry.word0.s1_format() != 0
            || entry.word0.s1_cd_max() != 0;
        if reserved {
            return Err(self.illegal(stream, EventKind::BadSte));
        }
        self.caches.entries.insert(stream.0, entry);
        Ok(entry)
    }

    fn check_leaf(&mut self, stream: StreamId, leaf: L1StreamDescriptor) -> Result<L1StreamDescriptor, Refusal> {
        let split = self.state.strtab_cfg.split();
        if leaf.span() == 0 {
            return Err(Refusal::Event(EventKind::BadStream));
        }
        // Smaller level 2 tables are not modelled.
        let is_whole = leaf == L1StreamDescriptor::table(leaf.address(), split);
        if !is_whole || leaf.address() & ((64 << split) - 1) != 0 {
            return Err(self.illegal(stream, EventKind::BadStream));
        }
        self.caches.leaves.insert(stream.0 >> split, leaf);
        Ok(leaf)
    }

    fn illegal(&mut self, stream: StreamId, kind: EventKind) -> Refusal {
        self.violation(Violation::Structure(stream));
        Refusal::Event(kind)
    }
}

fn is_legal(context: &ContextDescriptor) -> bool {
    let word0 = context.word0;
    let starts_at_level_1 = (25..=33).contains(&word0.t0sz());
    let unsupported = word0.tg0() != 0
        || word0.disable0()
        || !word0.disable1()
        || word0.upper_range() != 0
        || word0.big_endian()
        || word0.access_fault_disable()
        || word0.top_byte_ignore() != 0
        || word0.hardware_access()
        || word0.hardware_dirty()
        || word0.stall();
    let root = CdWord1::new().with_ttb0(u64::MAX >> 16);
    starts_at_level_1
        && !unsupported
        && word0.aarch64()
        && word0.abort()
        && word0.record()
        && word0.ips() <= OAS
        && context.word1.into_bits() & !root.into_bits() == 0
        && context.root() & 0xfff == 0
        && context.root() >> output_bits(OAS) == 0
        && context.ttb1 == 0
        && context.rest == [0; 4]
}

/// Reads the descriptor in place `index` of the level 1 stream table.
pub(crate) fn fetch_leaf(memory: &mut dyn PhysicalMemory, base: u64, index: u32) -> Result<L1StreamDescriptor, Abort> {
    fetch(memory, (base & STRTAB_ADDRESS) + u64::from(index) * 8)
}

/// Reads a structure from memory.
pub(crate) fn fetch<T: FromBytes>(memory: &mut dyn PhysicalMemory, at: u64) -> Result<T, Abort> {
    let mut bytes = [0; 64];
    let bytes = &mut bytes[..size_of::<T>()];
    memory.read(Paddr::new(at), bytes)?;
    T::read_from_bytes(bytes).map_err(|_| Abort)
}
