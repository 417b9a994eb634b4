//! Learns the latency of a class's commands while the device holds nothing of less urgent classes: the reference for
//! "near alone".

use crate::policy::{Commands, Kind};

/// Size buckets, by powers of four: without data, up to 4, 16, 64, 256 KiB, and more.
const SIZES: usize = 6;
const KINDS: usize = 3;
/// Weight of a sample in the mean, as a shift.
const GAIN_SHIFT: u32 = 4;

/// Mean latencies, nanoseconds, by kind and size; 0 where nothing is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baseline {
    means: [[u64; SIZES]; KINDS],
}

impl Baseline {
    /// Mean latency of such a command alone, nanoseconds; `None` if unknown.
    #[inline]
    pub(crate) fn of(&self, commands: &Commands) -> Option<u64> {
        let (kind, size) = place(commands);
        self.means.get(kind)?.get(size).copied().filter(|mean| *mean > 0)
    }

    /// Adds a sample. A latency beyond twice the mean counts as twice, so that one hiccup of the device moves it little.
    #[inline]
    pub(crate) fn learn(&mut self, commands: &Commands, latency: u64) {
        let (kind, size) = place(commands);
        let Some(mean) = self.means.get_mut(kind).and_then(|means| means.get_mut(size)) else { return };
        let latency = latency.clamp(1, MAX_LATENCY_NS);
        if *mean == 0 {
            *mean = latency;
            return;
        }
        let seen = latency.min(mean.saturating_mul(2));
        *mean = mean.saturating_sub(*mean >> GAIN_SHIFT).saturating_add(seen >> GAIN_SHIFT).max(1);
    }
}

/// Longer latencies count as this.
const MAX_LATENCY_NS: u64 = 60_000_000_000;

fn place(commands: &Commands) -> (usize, usize) {
    let kind = match commands.kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::Other => 2,
    };
    let size = match commands.bytes {
        0 => 0,
        1..=4096 => 1,
        4097..=16_384 => 2,
        16_385..=65_536 => 3,
        65_537..=262_144 => 4,
        _ => 5,
    };
    (kind, size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::SessionId;

    fn read(bytes: u32) -> Commands {
        Commands { session: SessionId(0), kind: Kind::Read, bytes, count: 1 }
    }

    #[test]
    fn one_hiccup_moves_it_little_and_a_slower_device_is_followed() {
        let mut baseline = Baseline::default();
        assert_eq!(baseline.of(&read(4096)), None);
        (0..100).for_each(|_| baseline.learn(&read(4096), 100_000));
        baseline.learn(&read(4096), 1_000_000_000);
        assert!(baseline.of(&read(4096)).unwrap() < 107_000);
        (0..100).for_each(|_| baseline.learn(&read(4096), 400_000));
        assert!(baseline.of(&read(4096)).unwrap() > 390_000);
    }

    #[test]
    fn sizes_and_kinds_are_apart() {
        let mut baseline = Baseline::default();
        baseline.learn(&read(131_072), 8_000_000);
        assert_eq!(baseline.of(&read(4096)), None);
        assert_eq!(baseline.of(&Commands { kind: Kind::Write, ..read(131_072) }), None);
        assert_eq!(baseline.of(&read(100_000)), Some(8_000_000));
    }
}
