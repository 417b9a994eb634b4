//! When the mailbox is looked at again: soon after a request, at the next tick if none comes.

use blk_api::names;
use platform::{Cap, Environment, Kernel, Notification, Platform};

/// Looks without a request after which the next tick is soon enough. By the shortest alarm that is some ten milliseconds.
const LOOKS: u32 = 64;

/// The alarm, and how long it is still set.
pub(crate) struct Attention {
    alarm: Option<Cap<Notification>>,
    /// Looks that are left.
    left: u32,
}

impl Attention {
    pub(crate) fn new(environment: &Environment) -> Self {
        Self { alarm: environment.cap(names::ALARM), left: 0 }
    }

    /// Sets the alarm, if a request came lately.
    pub(crate) fn pay<P: Platform>(&mut self, platform: &P, is_new: bool) {
        self.left = if is_new { LOOKS } else { self.left.saturating_sub(1) };
        if let Some(alarm) = self.alarm.filter(|_| self.left > 0) {
            platform.kernel().signal(alarm);
        }
    }
}
