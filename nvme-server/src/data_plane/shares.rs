//! Shares of sessions, as the scheduling policy has them.

use super::DataPlane;
use blk_api::config::{Class, RateLimit};
use platform::Platform;
use scheduler::{Share, ShareError};

impl<P: Platform> DataPlane<P> {
    /// The class of session `index`.
    pub(crate) fn class(&self, index: usize) -> Option<Class> {
        self.schedule.class(index)
    }

    /// Changes the share of session `index`; `limits` are of commands and of bytes. Returns the share before.
    ///
    /// # Errors
    /// [`ShareError`], and nothing has changed.
    pub(crate) fn set_share(
        &mut self,
        index: usize,
        class: Class,
        weight: u16,
        limits: [Option<RateLimit>; 2],
    ) -> Result<Share, ShareError> {
        self.schedule.set_share(index, class, weight, limits, self.platform.ticks())
    }

    /// Sets the share of session `index` as it was before a change.
    pub(crate) fn restore_share(&mut self, index: usize, before: Share) {
        // It was allowed before.
        let _ = self.schedule.put_share(index, before, self.platform.ticks());
    }

    /// The time on the schedule's clock, nanoseconds.
    pub(super) fn now_ns(&self) -> u64 {
        self.schedule.ns(self.platform.ticks())
    }

    /// Leaves the weighing to the controller. No session waits yet.
    ///
    /// # Errors
    /// [`ShareError`]: the configuration has an invalid share.
    pub(crate) fn leave_weighing(&mut self) -> Result<(), ShareError> {
        self.schedule.leave_weighing(&self.config)
    }
}
