//! What a load says of itself while it works: one record an interval, for the run's timeline.
//!
//! It is notified when a request ends, so a load that nobody answers says nothing, and then how long that was. Left out: the
//! percentiles, which are the whole load's (`outcome`).

use blk_client::Reporter;
use platform::Platform;
use report::Report;

/// The interval under way. Times in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
    /// Ticks of an interval; none are reported without.
    interval: u64,
    since: u64,
    operations: u64,
    bytes: u64,
    max_ns: u64,
}

impl Progress {
    /// A load that begins now.
    pub(crate) fn new<P: Platform>(platform: &P, milliseconds: u64) -> Self {
        let interval = milliseconds.saturating_mul(platform.ticks_per_second()).checked_div(1000).unwrap_or(0);
        Self { interval, since: platform.ticks(), operations: 0, bytes: 0, max_ns: 0 }
    }

    /// Counts a request of `bytes` bytes that ended at `now` after `latency_ns`, and reports the interval if it is over.
    pub(crate) fn count<P: Platform>(&mut self, now: u64, bytes: u64, latency_ns: u64, reporter: &Reporter<P>) {
        self.operations = self.operations.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.max_ns = self.max_ns.max(latency_ns);
        if now.saturating_sub(self.since) >= self.interval {
            self.report(now, reporter);
        }
    }

    /// Tells of the interval, which ends at `now`; not of an empty one.
    pub(crate) fn report<P: Platform>(&mut self, now: u64, reporter: &Reporter<P>) {
        let Self { interval, since, operations, bytes, max_ns } = *self;
        *self = Self { interval, since: now, operations: 0, bytes: 0, max_ns: 0 };
        if interval > 0 && operations > 0 {
            let (since_ns, until_ns) = (reporter.ns_of(since), reporter.ns_of(now));
            let tenant = reporter.tenant();
            reporter.send(&Report::Progress(report::Progress {
                tenant,
                since_ns,
                until_ns,
                operations,
                bytes,
                max_ns,
            }));
        }
    }
}
