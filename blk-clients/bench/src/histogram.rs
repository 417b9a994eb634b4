//! Latencies counted in buckets whose width grows with the value: small memory, bounded relative error.
//!
//! Values below 64 have a bucket each; above, every power of two is divided into 64 buckets. A percentile is the
//! upper end of its bucket: at least the true value, and at most 1/64 above it.

use alloc::boxed::Box;
use alloc::vec;

const SUB_BITS: u32 = 6;
const SUB_BUCKETS: u64 = 1 << SUB_BITS;
/// A group of exact values and one for each further power of two of 64 bits.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;

/// Counts of values.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u32]>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), total: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        if let Some(count) = self.counts.get_mut(bucket(value)) {
            *count = count.saturating_add(1);
        }
        self.total = self.total.saturating_add(1);
        self.max = self.max.max(value);
    }

    /// Values counted.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The largest value, exactly; 0 without values.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The value that `permille` thousandths of all values do not exceed; 0 without values.
    #[must_use]
    pub fn percentile(&self, permille: u32) -> u64 {
        let rank = u128::from(self.total).saturating_mul(u128::from(permille.min(1000))).div_ceil(1000).max(1);
        let mut seen = 0u128;
        for (index, count) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(u128::from(*count));
            if seen >= rank {
                return highest(index).min(self.max);
            }
        }
        self.max
    }
}

/// The bucket of a value.
const fn bucket(value: u64) -> usize {
    if value < SUB_BUCKETS {
        return value as usize;
    }
    // The highest bit is at least SUB_BITS: `group` counts from 1, and `value >> (group - 1)` has SUB_BITS + 1 bits.
    let group = value.ilog2().wrapping_sub(SUB_BITS).wrapping_add(1);
    let sub = (value >> group.wrapping_sub(1)) & (SUB_BUCKETS.wrapping_sub(1));
    ((group as usize) << SUB_BITS) | sub as usize
}

/// The highest value of a bucket.
const fn highest(bucket: usize) -> u64 {
    let (group, sub) = ((bucket >> SUB_BITS) as u32, (bucket as u64) & SUB_BUCKETS.wrapping_sub(1));
    if group == 0 {
        return sub;
    }
    let shift = group.wrapping_sub(1);
    let lowest = (SUB_BUCKETS | sub) << shift;
    lowest | (1u64 << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn empty_histogram_has_zero_percentiles() {
        assert_eq!(Histogram::default().percentile(500), 0);
    }

    #[test]
    fn buckets_meet_without_gap_and_reach_the_largest_value() {
        for index in 1..BUCKETS {
            assert_eq!(bucket(highest(index - 1) + 1), index);
        }
        assert_eq!(highest(BUCKETS - 1), u64::MAX);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn percentile_is_at_most_one_sixty_fourth_above_the_truth(
            mut values in prop::collection::vec(prop_oneof![0u64..1000, 0u64..1 << 40, any::<u64>()], 1..300),
            permille in 1u32..=1000,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.record(*value));
            values.sort_unstable();
            let rank = (values.len() * permille as usize).div_ceil(1000);
            let truth = values[rank - 1];
            let reported = histogram.percentile(permille);
            prop_assert!(reported >= truth);
            prop_assert!(reported - truth <= truth / 64, "{} for {}", reported, truth);
            prop_assert_eq!(histogram.percentile(1000), *values.last().unwrap());
        }

        #[test]
        fn percentiles_rise(values in prop::collection::vec(any::<u64>(), 1..100)) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.record(*value));
            let reported: Vec<u64> = (0..=1000).map(|permille| histogram.percentile(permille)).collect();
            prop_assert!(reported.is_sorted());
        }
    }
}
