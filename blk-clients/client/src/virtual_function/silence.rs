//! The time in which a function with commands in flight completes nothing. A controller that lost a command is silent once it has
//! completed the others.
//!
//! The limits are those of the NVMe server ([`limit_seconds`](nvme_driver::silence::limit_seconds)). A command that is a part of a
//! request may be long, as each that moves no data is. Left out: a command that was lost while others are completed all the time.

use nvme_driver::DeviceFault;

/// A silence, if there is one.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Silence {
    /// Time at which it was noticed, in ticks.
    since: Option<u64>,
}

impl Silence {
    /// Something was completed.
    #[inline(always)]
    pub(super) const fn ends(&mut self) {
        self.since = None;
    }

    /// Notes that there is no completion at `now`, for a function that may be silent for `limit` seconds; `None` for one without
    /// commands.
    ///
    /// # Errors
    /// [`DeviceFault::TimedOut`]: it has been silent for longer.
    pub(super) fn check(&mut self, limit: Option<u64>, now: u64, ticks_per_second: u64) -> Result<(), DeviceFault> {
        let Some(limit) = limit else {
            self.ends();
            return Ok(());
        };
        let since = *self.since.get_or_insert(now);
        let is_over = now.saturating_sub(since) > ticks_per_second.saturating_mul(limit);
        if is_over { Err(DeviceFault::TimedOut) } else { Ok(()) }
    }
}
