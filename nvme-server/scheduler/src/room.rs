//! Bounds how much lower classes may have in the device at once, steered by how rarely the protected class is late.
//!
//! The mean steers the pace, and a mean hides rare cases: where one command in thirty meets a queue of many, the others make
//! up for it. So the load in the device at once has a bound of its own. Each command of the protected class earns a small
//! credit, more on a device that is late by itself; a late one costs as much as [`BORNE`] of them earn. Without credit the
//! bound is halved, and it is raised only with credit: so the late part stays near the one that is tolerated.
//!
//! The bound counts in baselines of the protected class, by the cost model. So it also corrects a model whose costs are too
//! high by a constant factor.

/// A single baseline; of a pace, the whole device.
pub(crate) const WHOLE: u64 = 1024;
/// The greatest bound; the cost model may be too high by as much.
pub(crate) const MOST: u64 = WHOLE * 1024;
/// The least bound. A command that finds no other of the lower classes in the device goes whatever the bound.
const LEAST: u64 = WHOLE / 32;
/// A command is late if it takes more than so many baselines.
const LATE: u64 = 3;
/// A single command of so many may be late, whatever the device does.
const BORNE: i64 = 128;
/// The credit that a late command costs.
const ONE: i64 = 1 << 20;
/// The greatest credit.
const MOST_CREDIT: i64 = ONE;
/// The greatest debt.
const MOST_DEBT: i64 = 4 * ONE;
/// Weight of a command in how often the device is late by itself, as a shift.
const OWN_SHIFT: u32 = 8;
/// Commands after which the bound is raised.
const PERIOD: u32 = 16;

/// The bound, and the credit that steers it.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    bound: u64,
    /// The part of the commands that were late with nothing in their way, of `ONE`.
    own: i64,
    credit: i64,
    samples: u32,
    /// Whether the bound held a command back in this period.
    pub held_back: bool,
    /// Commands submitted before this time do not count against the present bound.
    since: u64,
}

impl Room {
    pub(crate) const fn new() -> Self {
        Self { bound: MOST, own: 0, credit: 0, samples: 0, held_back: false, since: 0 }
    }

    /// The cost that may be in the device, nanoseconds, where one baseline is `ns` and the pace would let in `rate`.
    #[inline]
    pub(crate) fn of(&self, ns: u64, rate: u64) -> u64 {
        ns.saturating_mul(self.bound.min(rate.max(WHOLE))) / WHOLE
    }

    /// A command took `latency` and had nothing of the lower classes in its way.
    #[inline]
    pub(crate) fn alone(&mut self, latency: u64, baseline: u64) {
        let late = if is_late(latency, baseline) { ONE } else { 0 };
        self.own = self.own.saturating_add(late.saturating_sub(self.own) >> OWN_SHIFT);
    }

    /// A command that was submitted at `submitted_at` took `latency`, whatever was in its way. Returns whether the bound was halved.
    #[inline]
    pub(crate) fn sample(&mut self, latency: u64, baseline: u64, rate: u64, submitted_at: u64, now: u64) -> bool {
        let earned = self.own.saturating_add(ONE / BORNE);
        self.credit = self.credit.saturating_add(earned).min(MOST_CREDIT);
        if is_late(latency, baseline) {
            self.credit = self.credit.saturating_sub(ONE).max(-MOST_DEBT);
            if self.credit < 0 && submitted_at >= self.since {
                self.bound = (self.bound.min(rate.max(WHOLE)) / 2).max(LEAST);
                (self.samples, self.held_back, self.since) = (0, false, now);
                return true;
            }
        }
        self.samples = self.samples.saturating_add(1);
        if self.samples >= PERIOD {
            if self.held_back && self.credit >= 0 {
                self.bound = self.bound.saturating_add(self.bound / 8).min(MOST);
            }
            (self.samples, self.held_back) = (0, false);
        }
        false
    }

    /// Measures again how often the device is late by itself.
    pub(crate) const fn forget_own(&mut self) {
        self.own = 0;
    }

    /// Whether no more commands were late than are tolerated.
    #[inline]
    pub(crate) const fn has_credit(&self) -> bool {
        self.credit >= 0
    }
}

pub(crate) fn is_late(latency: u64, baseline: u64) -> bool {
    latency > baseline.saturating_mul(LATE)
}
