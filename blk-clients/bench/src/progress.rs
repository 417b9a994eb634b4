//! Progress records of a running load: one an interval, for the run's timeline.
//!
//! Records are sent when a request ends. A load without completions therefore sends none; the next record covers the whole
//! pause. The last interval of a load with a deadline begins there, so that it covers only requests in flight. Left out: the
//! percentiles, which are the whole load's (`outcome`).

use blk_client::Reporter;
use platform::Platform;
use report::Report;

/// The current interval. Times in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
    /// Ticks of an interval; without, none are reported.
    interval: u64,
    since: u64,
    /// The next request that ends from then on ends the interval; `u64::MAX` in the last one.
    due: u64,
    /// The last interval begins then; `u64::MAX` once it did.
    deadline: u64,
    operations: u64,
    bytes: u64,
    max_ns: u64,
}

impl Progress {
    /// Starts the first interval now.
    pub(crate) fn new<P: Platform>(platform: &P, milliseconds: u64) -> Self {
        let interval = milliseconds.saturating_mul(platform.ticks_per_second()).checked_div(1000).unwrap_or(0);
        let since = platform.ticks();
        let due = since.saturating_add(interval);
        Self { interval, since, due, deadline: u64::MAX, operations: 0, bytes: 0, max_ns: 0 }
    }

    /// Sets the time at which the load makes no more requests.
    pub(crate) const fn set_deadline(&mut self, deadline: u64) {
        self.deadline = deadline;
    }

    /// Counts a request of `bytes` bytes that ended at `now` after `latency_ns`, and reports the interval if it is over.
    pub(crate) fn count<P: Platform>(&mut self, now: u64, bytes: u64, latency_ns: u64, reporter: &Reporter<P>) {
        if now >= self.deadline {
            self.report(self.deadline, reporter);
            (self.due, self.deadline) = (u64::MAX, u64::MAX);
        }
        self.operations = self.operations.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.max_ns = self.max_ns.max(latency_ns);
        if now >= self.due {
            self.report(now, reporter);
        }
    }

    /// Reports the interval, which ends at `now`, unless it is empty.
    pub(crate) fn report<P: Platform>(&mut self, now: u64, reporter: &Reporter<P>) {
        let Self { interval, since, operations, bytes, max_ns, .. } = *self;
        let due = now.saturating_add(interval);
        *self = Self { since: now, due, operations: 0, bytes: 0, max_ns: 0, ..*self };
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
