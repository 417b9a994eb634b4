//! Progress records of a running load: one an interval, for the run's timeline.
//!
//! Records are sent when a request ends. A load without completions therefore sends none; the next record covers the whole
//! pause. Left out: the percentiles, which are the whole load's (`outcome`).

use blk_client::Reporter;
use platform::Platform;
use report::Report;

/// The current interval. Times in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
    /// Ticks of an interval; without, none are reported.
    interval: u64,
    since: u64,
    operations: u64,
    bytes: u64,
    max_ns: u64,
}

impl Progress {
    /// Starts the first interval now.
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

    /// Reports the interval, which ends at `now`, unless it is empty.
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
