//! Log-linear histograms: eight buckets for each power of two, so a value is known to 12.5 %.
//!
//! A bucket counts modulo 2^32. The reader takes differences of two readings, so nothing is lost as long as fewer values than that
//! lie between them.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Buckets: values below 16, and then eight for each of 29 powers of two.
pub const BUCKETS: usize = 256;
/// Bits of a value below the leading one that choose its bucket.
const FINE_BITS: u32 = 3;
/// The largest value that has a bucket of its own; larger ones are in its bucket.
const MOST: u64 = (1 << 34) - 1;

/// Counts of values by their size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Histogram {
    counts: [u32; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Histogram {
    /// Counts a value this number of times.
    #[inline]
    pub fn record(&mut self, value: u64, times: u32) {
        if let Some(count) = self.counts.get_mut(bucket(value)) {
            *count = count.wrapping_add(times);
        }
    }

    /// The counts, by bucket.
    #[must_use]
    pub const fn counts(&self) -> &[u32; BUCKETS] {
        &self.counts
    }
}

/// The bucket of a value.
#[inline]
#[must_use]
pub const fn bucket(value: u64) -> usize {
    let value = if value > MOST { MOST } else { value };
    // Values below 8 are in the buckets of their own numbers, like those from 8 to 15.
    let power = (value | 1 << FINE_BITS).ilog2().wrapping_sub(FINE_BITS);
    ((power << FINE_BITS) as u64).wrapping_add(value >> power) as usize & (BUCKETS - 1)
}

/// The least value of a bucket. For the one behind the last bucket, the least value that has no bucket of its own.
#[must_use]
pub const fn least(bucket: usize) -> u64 {
    let power = (bucket >> FINE_BITS).saturating_sub(1);
    (bucket as u64).wrapping_sub((power as u64) << FINE_BITS) << power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_values_have_buckets_of_their_own() {
        (0..16).for_each(|value| assert_eq!((bucket(value), least(value as usize)), (value as usize, value)));
        assert_eq!((bucket(16), bucket(17), bucket(18)), (16, 16, 17));
    }

    #[test]
    fn the_last_bucket_takes_all_that_is_larger() {
        assert_eq!((bucket(MOST), bucket(MOST + 1), bucket(u64::MAX)), (BUCKETS - 1, BUCKETS - 1, BUCKETS - 1));
        assert_eq!(least(BUCKETS), MOST + 1);
    }

    #[test]
    fn recorded_values_are_counted() {
        let mut histogram = Histogram::default();
        [3, 1000, 1001].into_iter().for_each(|value| histogram.record(value, 1));
        histogram.record(3, 1);
        assert_eq!((histogram.counts()[3], histogram.counts()[bucket(1000)]), (2, 2));
        assert_eq!(histogram.counts().iter().sum::<u32>(), 4);
    }

    proptest! {
        #[test]
        fn a_value_is_in_the_bucket_whose_bounds_are_around_it(value in 0..=MOST) {
            let bucket = bucket(value);
            prop_assert!(least(bucket) <= value && value < least(bucket + 1));
            prop_assert!(least(bucket + 1) - least(bucket) <= (value / 8).max(1));
        }
    }
}
