//! Detects work that a device hides: of writes, zeroes and discards that completed into its write cache and keep the media busy.
//!
//! Neither the load in the device nor the rate of completions shows such work. The latency of the protected class does: a device that
//! hides nothing delays a command behind another by no more than the other takes itself. So a late command whose delay is longer than
//! all latencies of the lower classes' recent writes was delayed by work that is not in flight any more.

use crate::policy::{Commands, Kind};
use crate::room::is_late;

/// How long a device may work on a command after its completion, nanoseconds. A write cache of 1 MiB empties in half of that at the rate
/// of flash; one that holds more is seen by the delays.
const LINGER_NS: u64 = 5_000_000;
/// How long a device counts as one that hides work after it was seen, nanoseconds.
const REMEMBERED_NS: u64 = 1_000_000_000;
/// A delay is longer than the lower classes' commands if it is so many times as long: a few of them may be in the way.
const TIMES: u64 = 2;
/// The part of the longest latency that is forgotten with each command, as a shift.
const FORGETS_SHIFT: u32 = 7;

/// The signs of hidden work of the classes below one.
#[derive(Clone, Debug, Default)]
pub(crate) struct HiddenWork {
    /// The longest latency of a lower class's write, zeroes or discard, nanoseconds, slowly forgotten.
    longest: u64,
    /// Until when the device may work on those that completed.
    lingers_until: u64,
    /// Until when it counts as one that hides work.
    there_until: u64,
}

impl HiddenWork {
    /// A command of a lower class that was submitted at `submitted_at` completed.
    #[inline]
    pub(crate) fn completed(&mut self, commands: &Commands, submitted_at: u64, now: u64) {
        // A flush has no bytes, and is done when it completes.
        if commands.kind != Kind::Read && commands.bytes > 0 {
            let latency = now.saturating_sub(submitted_at);
            self.longest = self.longest.saturating_sub(self.longest >> FORGETS_SHIFT).max(latency);
            self.lingers_until = now.saturating_add(LINGER_NS);
        }
    }

    /// A command of the protected class took `latency` and takes `alone` alone. Returns whether this is the first sign of hidden work.
    #[inline]
    pub(crate) fn delays(&mut self, latency: u64, alone: u64, submitted_at: u64, now: u64) -> bool {
        let is_sign = submitted_at < self.lingers_until
            && is_late(latency, alone)
            && latency.saturating_sub(alone) > self.longest.saturating_mul(TIMES);
        let is_first = is_sign && !self.is_there(now);
        if is_sign {
            self.there_until = now.saturating_add(REMEMBERED_NS);
        }
        is_first
    }

    /// Whether the device is one that hides work.
    #[inline]
    pub(crate) const fn is_there(&self, now: u64) -> bool {
        now < self.there_until
    }

    /// Until when a device may work on the lower classes' commands that completed, if it is one that hides work.
    #[inline]
    pub(crate) const fn lingers_until(&self) -> u64 {
        self.lingers_until
    }

    /// When the work that it may hide is done; 0 if it hides none.
    #[inline]
    pub(crate) const fn ends(&self) -> u64 {
        if self.lingers_until < self.there_until { self.lingers_until } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::SessionId;

    fn lower(kind: Kind, bytes: u32) -> Commands {
        Commands { session: SessionId(1), kind, bytes, count: 1 }
    }

    /// Whether a delay of `latency` beside such a command of `took` is a sign.
    fn is_sign(kind: Kind, bytes: u32, took: u64, latency: u64) -> bool {
        let mut hidden = HiddenWork::default();
        hidden.completed(&lower(kind, bytes), 0, took);
        hidden.delays(latency, 50_000, took + 1000, took + 1000 + latency)
    }

    #[test]
    fn delay_longer_than_the_write_before_it_is_a_sign() {
        assert!(is_sign(Kind::Write, 4096, 3_000, 350_000));
        assert!(is_sign(Kind::Other, 4096, 3_000, 350_000));
        assert!(!is_sign(Kind::Write, 4096, 300_000, 350_000), "the write itself was in the way");
        assert!(!is_sign(Kind::Write, 4096, 3_000, 140_000), "it is not late");
        assert!(!is_sign(Kind::Read, 4096, 3_000, 350_000), "reads leave nothing behind");
        assert!(!is_sign(Kind::Other, 0, 3_000, 350_000), "flushes leave nothing behind");
    }

    #[test]
    fn device_that_shows_no_signs_any_more_hides_nothing() {
        let mut hidden = HiddenWork::default();
        hidden.completed(&lower(Kind::Write, 4096), 0, 3_000);
        assert!(hidden.delays(350_000, 50_000, 4_000, 354_000));
        assert!(!hidden.delays(350_000, 50_000, 5_000, 355_000), "it is known");
        assert_eq!(hidden.ends(), 3_000 + LINGER_NS);
        assert!(hidden.is_there(355_000 + REMEMBERED_NS - 1) && !hidden.is_there(355_000 + REMEMBERED_NS));
        hidden.completed(&lower(Kind::Write, 4096), 3 * REMEMBERED_NS, 3 * REMEMBERED_NS + 3_000);
        assert_eq!(hidden.ends(), 0);
    }
}
