//! Selection of the SQ from which the next command is fetched (section 4.13).
//!
//! The admin SQ comes before all others and is not handled here. Round robin treats I/O SQs alike. Weighted round robin
//! takes urgent SQs strictly before the rest, and the high, medium and low classes by credits: in each round a class
//! may have as many commands as its weight. Within a class SQs take turns of at most a burst.

use nvme_spec::admin::QueuePriority;
use nvme_spec::feature::ArbitrationWeights;
use nvme_spec::registers::Arbitration;

/// The selector among the I/O SQs that have commands.
#[derive(Debug)]
pub(crate) struct Arbiter {
    /// By class: urgent, high, medium, low. Round robin uses only the first.
    rings: [Ring; 4],
    /// Commands that high, medium and low may still have in this round.
    credits: [u32; 3],
}

impl Arbiter {
    /// Creates an arbiter for SQs with numbers up to `last`.
    pub(crate) fn new(last: u16) -> Self {
        Self { rings: std::array::from_fn(|_| Ring::new(last)), credits: [0; 3] }
    }

    /// Marks an SQ as having commands. `by` is the mechanism selected in CC.AMS.
    pub(crate) fn set_ready(&mut self, sq: u16, priority: QueuePriority, by: Arbitration) {
        let class = match by {
            Arbitration::WeightedUrgent => priority as usize,
            _ => 0,
        };
        if let Some(ring) = self.rings.get_mut(class) {
            ring.insert(sq);
        }
    }

    /// Marks an SQ as empty or deleted.
    pub(crate) fn set_idle(&mut self, sq: u16) {
        for ring in &mut self.rings {
            ring.remove(sq);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.rings.iter().all(Ring::is_empty)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.rings.iter_mut().for_each(Ring::clear);
        self.credits = [0; 3];
    }

    /// Selects the SQ from which one command is fetched now.
    pub(crate) fn pick(&mut self, weights: ArbitrationWeights) -> Option<u16> {
        let burst = burst(weights);
        let [urgent, classes @ ..] = &mut self.rings;
        if !urgent.is_empty() {
            return urgent.pick(burst);
        }
        if classes.iter().all(Ring::is_empty) {
            return None;
        }
        let has_turn = |(ring, credits): (&Ring, &u32)| !ring.is_empty() && *credits > 0;
        if !classes.iter().zip(&self.credits).any(has_turn) {
            self.credits = [weights.high_z(), weights.medium_z(), weights.low_z()].map(|z| u32::from(z) + 1);
        }
        let (ring, credits) =
            classes.iter_mut().zip(&mut self.credits).find(|(ring, credits)| !ring.is_empty() && **credits > 0)?;
        *credits -= 1;
        ring.pick(burst)
    }
}

/// AB: commands from an SQ in one turn.
const fn burst(weights: ArbitrationWeights) -> u32 {
    match weights.burst() {
        ArbitrationWeights::NO_LIMIT => u32::MAX,
        exponent => 1 << exponent,
    }
}

/// SQs that take turns.
#[derive(Debug)]
struct Ring {
    ready: Vec<u64>,
    count: u32,
    /// The SQ whose turn it is, and the number of its commands in this turn.
    current: u16,
    taken: u32,
}

impl Ring {
    fn new(last: u16) -> Self {
        Self { ready: vec![0; usize::from(last) / 64 + 1], count: 0, current: 0, taken: 0 }
    }

    const fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn word(&mut self, sq: u16) -> Option<&mut u64> {
        self.ready.get_mut(usize::from(sq / 64))
    }

    fn insert(&mut self, sq: u16) {
        let bit = 1 << (sq % 64);
        if let Some(word) = self.word(sq)
            && *word & bit == 0
        {
            *word |= bit;
            self.count += 1;
        }
    }

    fn remove(&mut self, sq: u16) {
        let bit = 1 << (sq % 64);
        if let Some(word) = self.word(sq)
            && *word & bit != 0
        {
            *word &= !bit;
            self.count -= 1;
        }
    }

    fn contains(&self, sq: u16) -> bool {
        self.ready.get(usize::from(sq / 64)).is_some_and(|word| word & (1 << (sq % 64)) != 0)
    }

    fn pick(&mut self, burst: u32) -> Option<u16> {
        if !self.contains(self.current) || self.taken >= burst {
            self.current = self.after(self.current)?;
            self.taken = 0;
        }
        self.taken = self.taken.saturating_add(1);
        Some(self.current)
    }

    /// Returns the first SQ above `sq`, wrapping around.
    fn after(&self, sq: u16) -> Option<u16> {
        let words = self.ready.len();
        let start = usize::from(sq / 64);
        let beyond = u64::MAX.checked_shl(u32::from(sq % 64) + 1).unwrap_or(0);
        (0..=words).find_map(|step| {
            let index = (start + step) % words;
            let mask = match step {
                0 => beyond,
                _ => u64::MAX,
            };
            let word = self.ready.get(index)? & mask;
            let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
            u16::try_from(index * 64 + bit).ok()
        })
    }

    fn clear(&mut self) {
        self.ready.fill(0);
        self.count = 0;
        self.current = 0;
        self.taken = 0;
    }
}

#[cfg(test)]
#[path = "arbitration_tests.rs"]
mod tests;
