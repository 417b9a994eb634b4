//! Figures of a tenant between two readings: rates and latencies by the machine's clock.
//!
//! A new opening of the session sets the sums to 0. The earlier reading then counts as zeroes, and the rates are of the time since.

use super::sample::Sample;
use blk_api::telemetry::{READS, Session, WRITES};
use telemetry::histogram::{self, BUCKETS};

/// A tenant's figures over a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Seconds of the machine's clock.
    pub seconds: f64,
    /// Reads, then writes.
    pub directions: [Direction; 2],
    /// Both together.
    pub both: Direction,
    /// The part of the time in which the scheduling policy withheld the tenant's turn.
    pub held_back: f64,
}

/// A tenant's figures in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Direction {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Latencies that the half, 99 % and 99.9 % of the requests do not exceed, in nanoseconds; 0 without requests. They are known to
    /// 12.5 %.
    pub percentiles: [u64; 3],
    /// The longest latency in the twentieth of a second before the reading, in nanoseconds.
    pub peak: u64,
}

impl Direction {
    /// Requests a second.
    #[must_use]
    pub fn rate(&self, seconds: f64) -> f64 {
        per_second(self.requests, seconds)
    }

    /// Bytes a second.
    #[must_use]
    pub fn bandwidth(&self, seconds: f64) -> f64 {
        per_second(self.bytes, seconds)
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// The ratios of the percentiles.
const RATIOS: [f64; 3] = [0.5, 0.99, 0.999];

/// The figures of a tenant from one reading to the next. `None` before its first request was possible, or if no time has passed.
#[must_use]
pub fn between(before: &Sample, after: &Sample, tenant: &str) -> Option<Figures> {
    let (server, now) = after.tenants.get(tenant)?;
    let page = after.servers.get(server)?;
    let earlier = before.tenants.get(tenant).map(|(_, session)| session);
    let zero = Session { written_at: now.opened_at, ..Session::default() };
    let then = earlier.filter(|session| session.opened_at == now.opened_at).unwrap_or(&zero);
    let ticks = now.written_at.checked_sub(then.written_at).filter(|ticks| *ticks > 0)?;
    let ns = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(page.ticks_per_second.max(1))) as u64;
    let bytes = [
        now.sums.read_bytes.wrapping_sub(then.sums.read_bytes),
        now.sums.written_bytes.wrapping_sub(then.sums.written_bytes),
    ];
    let counts = [READS, WRITES].map(|direction| added(now, then, direction));
    let direction = |counts: &[u64; BUCKETS], bytes: u64, peak: u64| Direction {
        requests: counts.iter().sum(),
        bytes,
        percentiles: RATIOS.map(|ratio| ns(percentile(counts, ratio))),
        peak: ns(peak),
    };
    let directions = [READS, WRITES].map(|one| direction(&counts[one], bytes[one], now.peaks[one]));
    let of_both = std::array::from_fn(|bucket| counts[READS][bucket] + counts[WRITES][bucket]);
    // A client with a function writes its page itself, whatever it says there.
    let both = direction(&of_both, bytes[READS].saturating_add(bytes[WRITES]), now.peaks[READS].max(now.peaks[WRITES]));
    let held_back = now.held_back.wrapping_sub(then.held_back) as f64 / ticks as f64;
    Some(Figures { seconds: ns(ticks) as f64 / 1e9, directions, both, held_back: held_back.min(1.0) })
}

/// The counts that were added to a histogram.
fn added(now: &Session, then: &Session, direction: usize) -> [u64; BUCKETS] {
    let (now, then) = (now.latencies[direction].counts(), then.latencies[direction].counts());
    std::array::from_fn(|bucket| now[bucket].wrapping_sub(then[bucket]).into())
}

/// The value that this part of the counted values does not exceed; 0 if there are none.
fn percentile(counts: &[u64; BUCKETS], ratio: f64) -> u64 {
    let total: u64 = counts.iter().sum();
    // At least one value, and all but the largest few.
    let wanted = ((total as f64 * ratio).ceil() as u64).max(1);
    let mut sum = 0;
    let bucket = counts.iter().position(|count| {
        sum += count;
        sum >= wanted
    });
    bucket.map_or(0, |bucket| histogram::least(bucket + 1) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blk_api::telemetry::Server;

    fn sample(session: Session) -> Sample {
        let mut sample = Sample::default();
        let server = Server { ticks_per_second: 1_000, ..Server::default() };
        sample.servers.insert("nvme-server".into(), server);
        sample.tenants.insert("alice".into(), ("nvme-server".into(), session));
        sample
    }

    fn reads(written_at: u64, opened_at: u64, latencies: &[u64]) -> Session {
        let mut session = Session { written_at, opened_at, ..Session::default() };
        latencies.iter().for_each(|latency| session.latencies[READS].record(*latency, 1));
        session.sums.read_bytes = 4096 * latencies.len() as u64;
        session
    }

    #[test]
    fn figures_are_of_what_came_between() {
        let (before, after) = (reads(1_000, 500, &[1, 1, 1]), reads(3_000, 500, &[1, 1, 1, 5, 5, 5, 9]));
        let figures = between(&sample(before), &sample(after), "alice").unwrap();
        let [reads, writes] = figures.directions;
        assert_eq!((figures.seconds, reads.requests, reads.rate(figures.seconds)), (2.0, 4, 2.0));
        assert_eq!((reads.bytes, reads.bandwidth(figures.seconds)), (4 * 4096, 8192.0));
        assert_eq!(reads.percentiles, [5_000_000, 9_000_000, 9_000_000], "ticks are milliseconds here");
        assert_eq!((writes, figures.both), (Direction::default(), reads));
    }

    #[test]
    fn sums_that_began_anew_are_counted_from_zero() {
        let before = sample(reads(1_000, 500, &[1; 10]));
        let reopened = between(&before, &sample(reads(1_500, 1_400, &[2; 3])), "alice").unwrap();
        assert_eq!((reopened.directions[READS].requests, reopened.seconds), (3, 0.1));
    }

    #[test]
    fn sums_that_cannot_be_harm_no_reader() {
        let mut liar = reads(1_000, 500, &[u64::MAX; 3]);
        (liar.sums.read_bytes, liar.sums.written_bytes, liar.held_back) = (u64::MAX, u64::MAX, u64::MAX);
        (liar.peaks, liar.class) = ([u64::MAX; 2], u32::MAX);
        let figures = between(&Sample::default(), &sample(liar), "alice").unwrap();
        assert_eq!((figures.both.bytes, figures.held_back), (u64::MAX, 1.0));
    }

    #[test]
    fn without_time_or_page_there_are_no_figures() {
        let one = sample(reads(1_000, 500, &[1]));
        assert_eq!(between(&one, &one, "alice"), None);
        assert_eq!(between(&one, &one, "bob"), None);
    }
}
