//! A limit of one session: a token bucket, kept as the time at which it would be full again.
//!
//! That form (the virtual scheduling of the generic cell rate algorithm, ITU-T I.371) needs no refilling. A command
//! moves the time on; the rest of the bucket is the span from that time to now plus the burst.

use blk_api::config::RateLimit;

const NS_PER_SECOND: u64 = 1_000_000_000;
/// Fraction bits of a unit's time.
const FRACTION: u32 = 20;

/// A bucket of commands or bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bucket {
    /// Nanoseconds that one unit takes, `FRACTION` bits behind the point, rounded up.
    unit: u128,
    per_second: u64,
    /// Nanoseconds that the whole burst takes.
    burst_ns: u64,
    /// When it would be full, nanoseconds.
    full_at: u64,
}

impl Bucket {
    /// A full bucket. The caller has checked the limit.
    pub(crate) fn new(limit: RateLimit) -> Self {
        let unit = (u128::from(NS_PER_SECOND) << FRACTION).div_ceil(u128::from(limit.per_second.max(1)));
        let mut bucket = Self { unit, per_second: limit.per_second, burst_ns: 0, full_at: 0 };
        bucket.burst_ns = bucket.time_of(limit.burst);
        bucket
    }

    /// The session's bucket under another limit: used units stay used.
    pub(crate) fn with_limit(self, limit: RateLimit) -> Self {
        Self { full_at: self.full_at, ..Self::new(limit) }
    }

    /// The earliest time at which `units` may go, nanoseconds.
    #[inline]
    pub(crate) fn ready_at(&self, units: u64) -> u64 {
        self.full_at.saturating_add(self.time_of(units)).saturating_sub(self.burst_ns)
    }

    /// Units that may go at `now`.
    #[inline]
    pub(crate) fn left(&self, now: u64) -> u64 {
        let ns = now.saturating_add(self.burst_ns).saturating_sub(self.full_at.max(now));
        let whole = (ns / NS_PER_SECOND).saturating_mul(self.per_second);
        // A bucket of a higher rate is never empty for long.
        let part = (ns % NS_PER_SECOND).saturating_mul(self.per_second.min(1 << 34)) / NS_PER_SECOND;
        whole.saturating_add(part)
    }

    /// Takes `units` at `now`.
    #[inline]
    pub(crate) fn take(&mut self, units: u64, now: u64) {
        self.full_at = self.full_at.max(now).saturating_add(self.time_of(units));
    }

    #[inline]
    fn time_of(&self, units: u64) -> u64 {
        let ns = self.unit.saturating_mul(u128::from(units)) >> FRACTION;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The law of the bucket: over every interval from the first command on.
        #[test]
        fn what_passes_is_the_rate_and_one_burst(
            per_second in 1u64..10_000_000, burst in 1u64..1000,
            gaps in proptest::collection::vec(0u64..2_000_000, 1..400),
        ) {
            let mut bucket = Bucket::new(RateLimit { per_second, burst });
            let (mut now, mut passed) = (0u64, 0u64);
            for gap in gaps {
                now += gap;
                if bucket.ready_at(1) <= now {
                    bucket.take(1, now);
                    passed += 1;
                }
                let allowed = u128::from(per_second) * u128::from(now) / 1_000_000_000 + u128::from(burst);
                prop_assert!(u128::from(passed) <= allowed + 1, "{} passed, {} allowed", passed, allowed);
            }
        }
    }

    #[test]
    fn after_the_burst_one_passes_each_interval() {
        let mut bucket = Bucket::new(RateLimit { per_second: 1000, burst: 4 });
        bucket.take(4, 0);
        assert_eq!(bucket.left(0), 0);
        assert_eq!(bucket.ready_at(1), 1_000_000);
        assert_eq!(bucket.left(2_500_000), 2);
    }
}
