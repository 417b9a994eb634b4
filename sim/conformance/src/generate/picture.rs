//! Random numbers, and the generator's picture of the slots: the kind of capability that each may hold.
//!
//! Kinds that are dangerous in the wrong place have ranges of slots of their own, and capabilities do not leave their range.
//! So an error in the picture has no bad effect. An invocation never goes to an endpoint (it would be a call without a
//! reply). A second-level paging structure is never copied (this kernel stops the machine). A thread without a program never
//! runs.

use crate::op::Slot;
use core::cell::Cell;
use core::ops::Range;

/// A generator of numbers (SplitMix64).
pub(super) struct Random(Cell<u64>);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Cell::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x6a09_e667_f3bc_c908))
    }

    fn next(&self) -> u64 {
        let mut mixed = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(mixed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(super) fn below(&self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// A number of the range.
    pub(super) fn of(&self, range: Range<u16>) -> u16 {
        range.start + self.below(u64::from(range.end - range.start)) as u16
    }

    /// True in `percent` of a hundred cases.
    pub(super) fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Draws a member of the list.
    pub(super) fn one<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Capabilities of all kinds without a range of their own.
pub(super) const MIXED: Range<u16> = 12..56;
/// TCBs that never run.
pub(super) const THREADS: Range<u16> = 56..60;
/// Second-level paging structures.
pub(super) const PDPTS: Range<u16> = 60..64;
/// Notifications.
pub(super) const NOTIFICATIONS: Range<u16> = 64..72;
/// Endpoints, and capabilities that came in messages.
pub(super) const ENDPOINTS: Range<u16> = 72..84;
/// Reply capabilities.
pub(super) const ANSWERS: Range<u16> = 84..88;
/// Device memory.
pub(super) const DEVICES: Range<u16> = 88..94;
/// Made first and kept: two endpoints, and a notification with two badged capabilities to it.
pub(super) const KEPT_ENDPOINTS: [Slot; 2] = [Slot(110), Slot(111)];
pub(super) const KEPT_NOTIFICATION: Slot = Slot(112);
pub(super) const KEPT_SIGNALS: [Slot; 2] = [Slot(113), Slot(114)];

/// The kind of capability that the generator expects in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Untyped,
    CNode,
    VSpace,
    PageDirectory,
    PageTable,
    SmallPage,
    LargePage,
    IoPageTable,
    Pool,
    IoSpace,
    Handler,
    Ports,
}

/// The capabilities in [`MIXED`], as far as known.
#[derive(Default)]
pub(super) struct Picture(Vec<(u16, Kind)>);

impl Picture {
    pub(super) fn put(&mut self, slot: u16, kind: Kind) {
        self.clear(slot);
        self.0.push((slot, kind));
    }

    pub(super) fn clear(&mut self, slot: u16) {
        self.0.retain(|(one, _)| *one != slot);
    }

    pub(super) fn kind(&self, slot: u16) -> Option<Kind> {
        self.0.iter().find(|(one, _)| *one == slot).map(|(_, kind)| *kind)
    }

    /// A slot for one of this kind; with some chance any other.
    pub(super) fn pick(&self, random: &Random, kind: Kind) -> Slot {
        let of_kind: Vec<u16> = self.0.iter().filter(|(_, one)| *one == kind).map(|(slot, _)| *slot).collect();
        if of_kind.is_empty() || random.percent(8) {
            return Slot(random.of(MIXED));
        }
        // The latest are the most likely to be still there.
        let from = of_kind.len().saturating_sub(4);
        Slot(random.one(&of_kind[from..]))
    }

    /// A slot that is empty; with some chance any.
    pub(super) fn pick_empty(&self, random: &Random) -> u16 {
        let empty: Vec<u16> = MIXED.filter(|slot| self.kind(*slot).is_none()).collect();
        if empty.is_empty() || random.percent(6) { random.of(MIXED) } else { random.one(&empty) }
    }
}
