//! How much the device is given at once: what keeps it busy, and not more.
//!
//! A device that holds everything serves in its own order, so no order of ours means anything; one that holds too
//! little is idle in between. The window is the depth of SFQ(D) (Jin, Chase, Kaur, SIGMETRICS 2004) and K2 (Miemietz
//! and others, RTSS 2019), counted in the device's time and not in commands, so that large commands fill it as they
//! fill the device.

use crate::cost::CostModel;
use crate::policy::Commands;
use crate::roster::Load;

/// The least time of work that the device holds before somebody has to wait, nanoseconds.
const LEAST_NS: u64 = 100_000;
/// The most.
const MOST_NS: u64 = 64_000_000;
/// Commands that are always let in: less would leave a device idle between two of them.
const LEAST_COMMANDS: u64 = 2;
/// Commands in the device from which on it counts as busy even if nobody has to wait.
const BUSY_COMMANDS: u64 = 8;

/// The window, with the cost model that it is counted in.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// What commands cost.
    pub cost: CostModel,
    /// The least latency seen, nanoseconds: what a command takes in a device that does nothing else.
    least_latency: u64,
    /// Somebody was turned away since the last command was given.
    full: bool,
}

impl Window {
    pub(crate) const fn new() -> Self {
        Self { cost: CostModel::new(), least_latency: MOST_NS, full: false }
    }

    /// Whether one more may join `held`.
    #[inline]
    pub(crate) fn admits(&mut self, held: Load) -> bool {
        let admits = held.commands < LEAST_COMMANDS || self.cost.of(held) < self.size_ns();
        self.full |= !admits;
        admits
    }

    /// What the device serves while one command takes its way is what fills it (the bandwidth-delay product, as in
    /// BBR); four times as much keeps it filled while completions are on their way and are taken in batches.
    #[inline]
    fn size_ns(&self) -> u64 {
        self.least_latency.saturating_mul(4).clamp(LEAST_NS, MOST_NS)
    }

    /// A command was given.
    #[inline]
    pub(crate) const fn submitted(&mut self) {
        self.full = false;
    }

    /// A command that took `latency` came back and left the device with `held`.
    #[inline]
    pub(crate) fn completed(&mut self, commands: &Commands, held: Load, latency: u64, now: u64) {
        self.least_latency = self.least_latency.min(latency);
        if self.full || held.commands >= BUSY_COMMANDS {
            self.cost.completed_under_load(commands, now);
        } else {
            self.cost.completed_idle();
        }
    }

    /// The device holds nothing any more, and may be another afterwards.
    pub(crate) const fn reset(&mut self) {
        (self.full, self.least_latency) = (false, MOST_NS);
        self.cost.completed_idle();
    }
}
