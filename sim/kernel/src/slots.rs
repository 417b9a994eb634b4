//! All slots of the machine: those of CNodes, of threads and of interrupts, in one run, so that the derivation order
//! can link any two.
//!
//! Neighbours: `derivation`, which owns the links. A run of slots belongs to one object and is reused after it ends.

use crate::capability::Capability;
use core::num::NonZeroU32;
use core::ops::{Index, IndexMut};

/// The number of a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SlotId(NonZeroU32);

impl SlotId {
    /// The slot `offset` places further on.
    pub(crate) fn offset(self, offset: u32) -> Self {
        Self(self.0.saturating_add(offset))
    }

    pub(crate) const fn number(self) -> u32 {
        self.0.get()
    }
}

/// A place for a capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) cap: Capability,
    /// Neighbours in the derivation order.
    pub(crate) prev: Option<SlotId>,
    pub(crate) next: Option<SlotId>,
    /// Whether others can derive from it.
    pub(crate) is_revocable: bool,
    /// Whether the capability began a family of its own, apart from others with the same badge.
    pub(crate) is_first: bool,
}

/// The slots.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    /// Runs that ended, by log2 of their length.
    free: [Vec<SlotId>; 32],
}

impl Slots {
    pub(crate) fn new() -> Self {
        // Number 0 belongs to no object.
        Self { slots: vec![Slot::default()], free: [const { Vec::new() }; 32] }
    }

    /// A run of 2^`bits` empty slots.
    pub(crate) fn add(&mut self, bits: u8) -> SlotId {
        if let Some(first) = self.free[usize::from(bits)].pop() {
            return first;
        }
        let first = self.slots.len();
        self.slots.resize(first + (1 << bits), Slot::default());
        SlotId(NonZeroU32::new(first as u32).expect("number 0 is taken"))
    }

    /// Ends a run; all its slots are empty.
    pub(crate) fn remove(&mut self, first: SlotId, bits: u8) {
        self.free[usize::from(bits)].push(first);
    }

    /// All slots, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(number, slot)| Some((SlotId(NonZeroU32::new(number as u32)?), slot)))
    }
}

impl Index<SlotId> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, slot: SlotId) -> &Slot {
        &self.slots[slot.number() as usize]
    }
}

impl IndexMut<SlotId> for Slots {
    #[inline]
    fn index_mut(&mut self, slot: SlotId) -> &mut Slot {
        &mut self.slots[slot.number() as usize]
    }
}
