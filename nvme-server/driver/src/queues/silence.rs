//! Timeouts of a controller: the time after which a queue pair, or one command, counts as left without an answer.
//!
//! A queue pair that still completes is alive, however long its queue: tenants may keep it full, and a slow disk is no
//! fault. So the timeout counts the silence since the last completion. A single command has a bound far above that. Left
//! out: administrative commands, of which there is one at a time (`admin`).

/// Seconds a queue pair with commands in flight may complete nothing.
const SILENCE_SECONDS: u64 = 10;
/// The same while one of the commands moves no data: flushes, zeroes and discards may rewrite much of the media.
const LONG_SILENCE_SECONDS: u64 = 60;
/// Seconds a command may take although others complete.
const COMMAND_SECONDS: u64 = 120;
/// Seconds after which a command no longer counts as work of the device. The device may have lost it, and other requests
/// would wait for nothing. If the device has not lost it, it holds more than it should.
pub const DISCOUNT_SECONDS: u64 = 1;

/// Seconds that a queue pair with commands in flight may complete nothing, with or without one among them that may be long.
#[must_use]
pub const fn limit_seconds(is_long: bool) -> u64 {
    if is_long { LONG_SILENCE_SECONDS } else { SILENCE_SECONDS }
}

/// A queue pair's wait for its oldest command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Time at which the oldest command in flight was submitted, in ticks.
    pub since: u64,
    /// Whether a command in flight moves no data.
    pub long: bool,
}

impl Waiting {
    /// Returns whether the wait is a fault at `now`, with the last completion taken at `last_completion`.
    #[must_use]
    pub fn is_too_long(self, last_completion: u64, now: u64, ticks_per_second: u64) -> bool {
        let Self { since, long } = self;
        let silence = limit_seconds(long);
        let past = |from: u64, seconds: u64| now.saturating_sub(from) > ticks_per_second.saturating_mul(seconds);
        // A queue pair that was idle is not silent: nothing was asked of it.
        past(since.max(last_completion), silence) || past(since, COMMAND_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1000;

    fn is_too_long(since: u64, long: bool, last_completion: u64, now: u64) -> bool {
        Waiting { since: since * SECOND, long }.is_too_long(last_completion * SECOND, now * SECOND, SECOND)
    }

    #[test]
    fn a_silent_queue_pair_fails() {
        assert!(!is_too_long(100, false, 50, 110));
        assert!(is_too_long(100, false, 50, 111));
        assert!(is_too_long(100, false, 104, 115));
    }

    #[test]
    fn one_that_completes_other_commands_does_not() {
        assert!(!is_too_long(100, false, 150, 160));
        assert!(!is_too_long(100, false, 210, 220));
    }

    #[test]
    fn a_command_without_data_is_waited_for_longer() {
        assert!(!is_too_long(100, true, 0, 160));
        assert!(is_too_long(100, true, 0, 161));
    }

    #[test]
    fn no_command_takes_for_ever() {
        for long in [false, true] {
            assert!(is_too_long(100, long, 220, 221));
        }
    }

    proptest! {
        #[test]
        fn a_later_completion_never_makes_it_worse(
            since in 0..500u64, long: bool, last in 0..500u64, later in 0..500u64, now in 0..1000u64,
        ) {
            let late = is_too_long(since, long, last.max(later), now);
            prop_assert!(!late || is_too_long(since, long, last, now));
        }
    }
}
