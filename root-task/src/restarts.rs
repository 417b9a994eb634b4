//! How often a component was started again, and whether it may be once more.

use alloc::vec::Vec;
use capdl_spec::RestartPolicy;

/// A component's new starts.
#[derive(Debug)]
pub(crate) struct Restarts {
    policy: Option<RestartPolicy>,
    /// When it was started again, milliseconds, as far as that still counts.
    recent_ms: Vec<u64>,
    times: u16,
}

impl Restarts {
    /// None so far. Without a policy there never is one.
    pub(crate) const fn new(policy: Option<RestartPolicy>) -> Self {
        Self { policy, recent_ms: Vec::new(), times: 0 }
    }

    /// Whether it may be started again at `now_ms`; counted if so.
    pub(crate) fn take(&mut self, now_ms: u64) -> bool {
        let Some(RestartPolicy { times, within_ms }) = self.policy else { return false };
        self.recent_ms.retain(|then| now_ms.saturating_sub(*then) < u64::from(within_ms));
        if self.recent_ms.len() >= usize::from(times) {
            return false;
        }
        self.recent_ms.push(now_ms);
        self.times = self.times.saturating_add(1);
        true
    }

    /// How often it was started again.
    pub(crate) const fn times(&self) -> u16 {
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_that_keeps_dying_is_stopped_and_one_that_dies_rarely_is_not() {
        let mut restarts = Restarts::new(Some(RestartPolicy { times: 2, within_ms: 100 }));
        assert!(restarts.take(0) && restarts.take(50) && !restarts.take(99));
        assert!(restarts.take(100), "the first does not count any more");
        assert!(!restarts.take(149) && restarts.take(150));
        assert_eq!(restarts.times(), 4);
    }

    #[test]
    fn without_a_policy_the_first_death_is_the_last() {
        assert!(!Restarts::new(None).take(0));
        assert!(!Restarts::new(Some(RestartPolicy { times: 0, within_ms: 100 })).take(0));
    }
}
