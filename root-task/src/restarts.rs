//! Counts a component's restarts, and decides whether it may be restarted once more.

use alloc::vec::Vec;
use capdl_spec::RestartPolicy;

/// A component's restarts.
#[derive(Debug)]
pub(crate) struct Restarts {
    policy: Option<RestartPolicy>,
    /// Times of the faults after which it was restarted, milliseconds, as far as they still count.
    recent_ms: Vec<u64>,
    times: u16,
}

impl Restarts {
    /// Creates the count, with no restart so far. Without a restart policy there never is one.
    pub(crate) const fn new(policy: Option<RestartPolicy>) -> Self {
        Self { policy, recent_ms: Vec::new(), times: 0 }
    }

    /// Whether the component may be restarted after a fault of its own at `now_ms`; counts the fault if so.
    pub(crate) fn take(&mut self, now_ms: u64) -> bool {
        let Some(RestartPolicy { times, within_ms }) = self.policy else { return false };
        self.recent_ms.retain(|then| now_ms.saturating_sub(*then) < u64::from(within_ms));
        if self.recent_ms.len() >= usize::from(times) {
            return false;
        }
        self.recent_ms.push(now_ms);
        true
    }

    /// Whether the component may be restarted at all, however it ended.
    pub(crate) fn has_any(&self) -> bool {
        self.policy.is_some_and(|policy| policy.times > 0)
    }

    /// Counts a restart.
    pub(crate) const fn count(&mut self) {
        self.times = self.times.saturating_add(1);
    }

    /// Number of restarts.
    pub(crate) const fn times(&self) -> u16 {
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_that_keeps_dying_is_stopped() {
        let mut restarts = Restarts::new(Some(RestartPolicy { times: 2, within_ms: 100 }));
        assert!(restarts.take(0) && restarts.take(50) && !restarts.take(99));
        assert!(restarts.take(100), "the first does not count any more");
        assert!(!restarts.take(149) && restarts.take(150));
        assert_eq!(restarts.times(), 0);
        restarts.count();
        assert_eq!(restarts.times(), 1);
    }

    #[test]
    fn without_a_restart_policy_the_first_death_is_the_last() {
        assert!(!Restarts::new(None).take(0));
        assert!(!Restarts::new(Some(RestartPolicy { times: 0, within_ms: 100 })).take(0));
    }

    #[test]
    fn who_ends_with_another_is_started_again_if_it_ever_is() {
        assert!(Restarts::new(Some(RestartPolicy { times: 1, within_ms: 100 })).has_any());
        assert!(!Restarts::new(Some(RestartPolicy { times: 0, within_ms: 100 })).has_any());
        assert!(!Restarts::new(None).has_any());
    }
}
