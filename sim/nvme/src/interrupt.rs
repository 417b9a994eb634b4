//! Interrupts: a vector for each CQ, masks, coalescing, the pin (sections 3.1.3, 3.1.4, 5.21.1.8, 5.21.1.9, 7.5).
//!
//! A vector below 32 whose mask bit is set sends its message once the bit is cleared. The pin is asserted while a
//! vector that is not masked has been raised and has completions that no head doorbell has taken.

use crate::host::{Host, Level};
use crate::settings::Settings;

/// Nanoseconds of a unit of the aggregation time.
const TIME_UNIT_NS: u64 = 100_000;

#[derive(Clone, Copy, Debug, Default)]
struct Vector {
    /// Completions posted and not taken, of all CQs on this vector.
    unconsumed: u32,
    /// Completions held back by coalescing.
    aggregated: u32,
    /// Latest time at which those held back are reported.
    deadline_ns: Option<u64>,
    /// Raised while masked.
    held: bool,
    /// Raised, and not all taken since.
    asserted: bool,
}

/// All vectors and the pin.
#[derive(Debug)]
pub(crate) struct Interrupts {
    vectors: Vec<Vector>,
    mask: u32,
    pin: Level,
    /// Whether there is a pin.
    has_pin: bool,
    deadline_ns: Option<u64>,
    /// Vectors that are asserted.
    asserted: u32,
    raised: u64,
}

impl Interrupts {
    pub(crate) fn new(vectors: u16) -> Self {
        let vectors = vec![Vector::default(); usize::from(vectors.max(1))];
        Self { vectors, mask: 0, pin: Level::Deasserted, has_pin: true, deadline_ns: None, asserted: 0, raised: 0 }
    }

    /// Removes the pin: a virtual function has none.
    pub(crate) const fn remove_pin(&mut self) {
        self.has_pin = false;
    }

    pub(crate) const fn mask(&self) -> u32 {
        self.mask
    }

    /// Vectors raised so far.
    pub(crate) const fn raised(&self) -> u64 {
        self.raised
    }

    /// Time at which coalescing ends for a vector next.
    pub(crate) const fn next_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    /// Clears pending interrupts and masks. The pin stays as it is until [`update_pin`](Self::update_pin).
    pub(crate) fn reset(&mut self) {
        let Self { vectors, mask, pin: _, has_pin: _, deadline_ns, asserted, raised: _ } = self;
        vectors.fill(Vector::default());
        *mask = 0;
        *deadline_ns = None;
        *asserted = 0;
    }

    /// Marks the pin as low after a reset of the function; the machine knows.
    pub(crate) fn pin_was_reset(&mut self) {
        self.pin = Level::Deasserted;
    }

    /// Counts a completion that was posted to a CQ on `vector`. The admin CQ, `cq` 0, is never coalesced.
    pub(crate) fn posted(&mut self, vector: u16, cq: u16, settings: &Settings, now_ns: u64, host: &mut dyn Host) {
        let wait = settings.coalescing;
        let index = usize::from(vector);
        let coalesced = cq != 0
            && wait.threshold_z > 0
            && wait.time_100us > 0
            && !settings.uncoalesced.get(index).copied().unwrap_or(false);
        let Some(state) = self.vectors.get_mut(index) else { return };
        state.unconsumed += 1;
        if !coalesced {
            return self.raise(vector, host);
        }
        state.aggregated += 1;
        if state.aggregated > u32::from(wait.threshold_z) {
            return self.raise(vector, host);
        }
        let deadline = now_ns.saturating_add(u64::from(wait.time_100us) * TIME_UNIT_NS);
        let deadline = *state.deadline_ns.get_or_insert(deadline);
        self.deadline_ns = Some(self.deadline_ns.map_or(deadline, |other| other.min(deadline)));
    }

    /// Counts a completion that was posted and whose interrupt is lost.
    pub(crate) fn posted_silently(&mut self, vector: u16) {
        if let Some(state) = self.vectors.get_mut(usize::from(vector)) {
            state.unconsumed += 1;
        }
    }

    /// Counts completions that the driver took from a CQ on `vector`.
    pub(crate) fn consumed(&mut self, vector: u16, count: u32, host: &mut dyn Host) {
        let Some(state) = self.vectors.get_mut(usize::from(vector)) else { return };
        state.unconsumed = state.unconsumed.saturating_sub(count);
        if state.unconsumed == 0 && state.asserted {
            state.asserted = false;
            self.asserted -= 1;
            self.update_pin(host);
        }
    }

    /// Raises the interrupts whose coalescing ends by now.
    pub(crate) fn advance(&mut self, now_ns: u64, host: &mut dyn Host) {
        for vector in 0..self.vectors.len() {
            if self.vectors[vector].deadline_ns.is_some_and(|deadline| deadline <= now_ns) {
                self.raise(vector as u16, host);
            }
        }
        self.deadline_ns = self.vectors.iter().filter_map(|vector| vector.deadline_ns).min();
    }

    /// Raises a vector, whatever the reason.
    pub(crate) fn raise(&mut self, vector: u16, host: &mut dyn Host) {
        let masked = self.is_masked(vector);
        let Some(state) = self.vectors.get_mut(usize::from(vector)) else { return };
        state.aggregated = 0;
        if state.deadline_ns.take().is_some() {
            self.deadline_ns = self.vectors.iter().filter_map(|vector| vector.deadline_ns).min();
        }
        let Some(state) = self.vectors.get_mut(usize::from(vector)) else { return };
        if state.unconsumed > 0 && !state.asserted {
            state.asserted = true;
            self.asserted += 1;
        }
        state.held = masked;
        if !masked {
            self.raised += 1;
            host.interrupt(vector);
        }
        self.update_pin(host);
    }

    /// INTMS: masks the vectors whose bits are set.
    pub(crate) fn set_mask(&mut self, bits: u32, host: &mut dyn Host) {
        self.mask |= bits;
        self.update_pin(host);
    }

    /// INTMC: unmasks the vectors whose bits are set, and sends the messages that they held.
    pub(crate) fn clear_mask(&mut self, bits: u32, host: &mut dyn Host) {
        self.mask &= !bits;
        for vector in 0..self.vectors.len().min(32) {
            if bits & (1 << vector) != 0 && std::mem::take(&mut self.vectors[vector].held) {
                self.raised += 1;
                host.interrupt(vector as u16);
            }
        }
        self.update_pin(host);
    }

    fn is_masked(&self, vector: u16) -> bool {
        vector < 32 && self.mask & (1 << vector) != 0
    }

    /// Sets the pin as the vectors require.
    pub(crate) fn update_pin(&mut self, host: &mut dyn Host) {
        let unmasked = |(vector, state): (u16, &Vector)| state.asserted && !self.is_masked(vector);
        let wanted = self.has_pin && self.asserted > 0 && (self.mask == 0 || (0..).zip(&self.vectors).any(unmasked));
        let level = if wanted { Level::Asserted } else { Level::Deasserted };
        if level != self.pin {
            self.pin = level;
            host.pin(level);
        }
    }
}
