//! Retries of commands that the controller asks for again later (base specification 2.0, section 3.3.3.2.1): which, after how long,
//! and how often.
//!
//! With Host Behavior Support, CRD of a completion selects one of the three delays in Identify Controller. Left out: the
//! wait, which each driver does in its own way.

use nvme_spec::{Status, identify};

/// Retries of a command, at most.
const MOST_RETRIES: u8 = 10;
/// Milliseconds before the first retry where the controller names no delay. Each later one takes twice as long.
const FIRST_MS: u32 = 50;
/// Milliseconds before a retry where the controller names no delay, at most.
const MOST_OWN_MS: u32 = 1600;
/// Milliseconds that a delay of the controller may have: a command that needs a longer one fails.
const MOST_MS: u32 = 10_000;

/// Delays that a controller states (CRDT1 to CRDT3), in units of 100 ms; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RetryDelays([u16; 3]);

impl RetryDelays {
    /// The delays that a controller states.
    #[must_use]
    pub fn of(about: &identify::Controller) -> Self {
        Self(about.crdt.map(|delay| delay.get()))
    }

    /// Returns whether the controller states any.
    #[must_use]
    pub fn are_stated(self) -> bool {
        self != Self::default()
    }

    /// Milliseconds to wait before a command is submitted again that ended with `status` after this many retries. `None` when it has
    /// failed.
    #[must_use]
    pub fn before_retry(self, status: Status, retries: u8) -> Option<u32> {
        if !status.asks_for_retry() || retries >= MOST_RETRIES {
            return None;
        }
        let index = usize::from(status.retry_delay_index()).checked_sub(1);
        let stated = index.and_then(|index| self.0.get(index)).map_or(0, |delay| u32::from(*delay).saturating_mul(100));
        match stated {
            0 => Some(FIRST_MS.checked_shl(retries.into()).unwrap_or(u32::MAX).min(MOST_OWN_MS)),
            _ => (stated <= MOST_MS).then_some(stated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme_spec::StatusCode;
    use std::vec::Vec;

    const NOT_READY: Status = Status::new(StatusCode::NamespaceNotReady);

    #[test]
    fn waits_double_and_are_bounded_in_number_and_time() {
        let waits: Vec<u32> = (0..=u8::MAX).map_while(|n| RetryDelays::default().before_retry(NOT_READY, n)).collect();
        assert_eq!(waits[..6], [50, 100, 200, 400, 800, 1600]);
        assert_eq!((waits.len(), waits.iter().sum::<u32>()), (10, 9550));
    }

    #[test]
    fn delay_that_the_controller_names_is_kept() {
        let delays = RetryDelays([3, 0, 101]);
        let after = |index| delays.before_retry(NOT_READY.with_retry_delay_index(index), 4);
        assert_eq!([after(0), after(1), after(2)], [Some(800), Some(300), Some(800)]);
        assert_eq!(after(3), None, "above ten seconds");
    }

    #[test]
    fn what_the_controller_does_not_ask_for_is_not_done_again() {
        let delays = RetryDelays::default();
        assert_eq!(delays.before_retry(NOT_READY.with_do_not_retry(), 0), None);
        assert_eq!(delays.before_retry(Status::new(StatusCode::UnrecoveredRead), 0), None);
        assert_eq!(delays.before_retry(Status::SUCCESS, 0), None);
    }
}
