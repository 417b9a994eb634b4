//! The decision how a client waits for what is outstanding: a pure function of the requests' choices, their expected times and the
//! means that the client has.

use super::Completion;
use platform::alarm;

/// Costs of waking a client, in nanoseconds: of a signal of the server and the wait that it ends, and of an interrupt and that
/// wait (SEEDS F1: a signal 753 cycles at 3 GHz, an interrupt 1638; and a wait of some 400).
const SIGNAL_NS: u64 = 400;
const INTERRUPT_NS: u64 = 700;
/// Lateness of an alarm: the timer's interrupt, the supervisor's work and its signal. An estimate: four crossings, and reads of the
/// timer's registers, each a round trip to a device.
const LATE_NS: u64 = 3_000;
/// The number of lengths of alarms.
const LENGTHS: usize = alarm::CLIENT_US.len();

/// A client's means to wait, and their costs in ticks of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Means {
    /// Requests without a choice are polled for.
    pub polls: bool,
    /// Something signals the client when a completion is there, if it asks for that.
    pub is_signalled: bool,
    /// The client may ask the supervisor for an alarm.
    pub has_alarm: bool,
    /// Cost of a wake-up by such a signal.
    pub wake_ticks: u64,
    /// Lengths of the alarms, each with its lateness, the shortest first.
    pub alarm_ticks: [u64; LENGTHS],
    /// Time for which a late request is polled on after an alarm: the longest one's.
    pub slack_ticks: u64,
}

impl Means {
    /// The means of a client on a clock with so many ticks a second. `on_virtual_function` is whether it drives a function itself.
    pub(crate) fn new(ticks_per_second: u64, polls: bool, on_virtual_function: bool, has_alarm: bool) -> Self {
        let ticks = |ns: u64| {
            let ticks = u128::from(ns).saturating_mul(u128::from(ticks_per_second)).checked_div(1_000_000_000);
            u64::try_from(ticks.unwrap_or_default()).unwrap_or(u64::MAX)
        };
        Self {
            polls,
            // The queue pair of a function that is polled has no vector.
            is_signalled: !(polls && on_virtual_function),
            has_alarm,
            wake_ticks: ticks(if on_virtual_function { INTERRUPT_NS } else { SIGNAL_NS }),
            alarm_ticks: alarm::CLIENT_US.map(|us| ticks(u64::from(us).saturating_mul(1000).saturating_add(LATE_NS))),
            slack_ticks: alarm::CLIENT_US.last().map_or(0, |us| ticks(u64::from(*us).saturating_mul(1000))),
        }
    }

    /// The wait for a request without a choice.
    pub(crate) const fn default_wait(self) -> Wait {
        if self.polls { Wait::POLL } else { Wait::SIGNAL }
    }

    /// The wait for one request that was submitted `elapsed` ticks ago and is `expected` to take so many, if that is known.
    /// `is_alone` is whether nothing else is in flight.
    pub(crate) fn wait(self, completion: Completion, elapsed: u64, expected: Option<u64>, is_alone: bool) -> Wait {
        match completion {
            Completion::Polled => Wait::POLL,
            Completion::Interrupt => self.asleep(),
            Completion::SleepThenPoll => self.sleep_then_poll(elapsed, expected),
            Completion::Automatic => self.automatic(elapsed, expected, is_alone),
        }
    }

    /// The longest sleep that a signal ends.
    const fn asleep(self) -> Wait {
        if self.is_signalled { Wait::SIGNAL } else { Wait::POLL }
    }

    fn sleep_then_poll(self, elapsed: u64, expected: Option<u64>) -> Wait {
        let Some(expected) = expected else {
            // Measured as exactly as can be.
            return Wait::POLL;
        };
        if !self.has_alarm || self.is_overdue(elapsed, expected, self.slack_ticks) {
            return self.asleep();
        }
        let left = expected.saturating_sub(elapsed);
        // The longest alarm that ends in time.
        let fitting = self.alarm_ticks.iter().zip(0..LENGTHS as u8).rfind(|(ticks, _)| **ticks <= left);
        fitting.map_or(Wait::POLL, |(_, length)| Wait::alarm(length))
    }

    fn automatic(self, elapsed: u64, expected: Option<u64>, is_alone: bool) -> Wait {
        if !self.is_signalled {
            return self.sleep_then_poll(elapsed, expected);
        }
        // To poll for as long as a wake-up takes costs no more than the wake-up (so the sum is at most twice the least), and is sooner. While
        // others are in flight, the device has work meanwhile, so that a wake-up costs no bandwidth.
        match expected {
            Some(expected)
                if is_alone
                    && expected.saturating_sub(elapsed) <= self.wake_ticks
                    && !self.is_overdue(elapsed, expected, self.wake_ticks) =>
            {
                Wait::POLL
            }
            _ => Wait::SIGNAL,
        }
    }

    /// Whether the request is later than expected by more than `slack`: to poll on is a loss.
    const fn is_overdue(self, elapsed: u64, expected: u64, slack: u64) -> bool {
        elapsed > expected.saturating_add(slack)
    }
}

/// A way to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    /// To poll, and not to sleep.
    pub polls: bool,
    /// To be signalled in a sleep.
    pub signal: bool,
    /// To be woken in a sleep by an alarm of this length, counted from the shortest.
    pub alarm: Option<u8>,
}

impl Wait {
    pub(crate) const POLL: Self = Self { polls: true, signal: false, alarm: None };
    pub(crate) const SIGNAL: Self = Self { polls: false, signal: true, alarm: None };

    const fn alarm(length: u8) -> Self {
        Self { polls: false, signal: false, alarm: Some(length) }
    }

    /// The wait that serves both: polling, if one of them wants that; otherwise a sleep that ends as soon as one of them ends.
    pub(crate) fn and(self, other: Self) -> Self {
        if self.polls || other.polls {
            return Self::POLL;
        }
        let alarm = self.alarm.into_iter().chain(other.alarm).min();
        Self { polls: false, signal: self.signal || other.signal, alarm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Longer than every alarm.
    const LONG_NS: u64 = 1_000_000;

    /// On a clock of nanoseconds.
    fn means(polls: bool, on_virtual_function: bool, has_alarm: bool) -> Means {
        Means::new(1_000_000_000, polls, on_virtual_function, has_alarm)
    }

    fn any_means() -> impl Strategy<Value = Means> {
        (any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(polls, on_virtual_function, has_alarm)| means(polls, on_virtual_function, has_alarm))
    }

    #[test]
    fn without_a_choice_the_session_decides() {
        assert_eq!(means(false, false, false).default_wait(), Wait::SIGNAL);
        assert_eq!(means(true, true, true).default_wait(), Wait::POLL);
    }

    #[test]
    fn sleeper_sleeps_by_the_longest_alarm_that_ends_in_time() {
        let means = means(false, false, true);
        let wait = |elapsed, expected| means.wait(Completion::SleepThenPoll, elapsed, Some(expected), true);
        assert_eq!(wait(0, 20_000 + LATE_NS), Wait::alarm(0));
        assert_eq!(wait(1, 20_000 + LATE_NS), Wait::POLL);
        assert_eq!(wait(0, 160_000 + LATE_NS), Wait::alarm(3));
        assert_eq!(wait(60_000, 160_000 + LATE_NS), Wait::alarm(2));
        assert_eq!(wait(500_000, 500_000), Wait::POLL);
        assert_eq!(wait(660_000, 500_000), Wait::POLL);
        assert_eq!(wait(660_001, 500_000), Wait::SIGNAL, "it may never come");
    }

    #[test]
    fn sleeper_without_an_alarm_waits_for_the_signal() {
        let wait = |means: Means| means.wait(Completion::SleepThenPoll, 0, Some(LONG_NS), true);
        assert_eq!(wait(means(false, true, false)), Wait::SIGNAL);
        assert_eq!(wait(means(true, true, false)), Wait::POLL);
    }

    #[test]
    fn automatic_polls_only_for_as_long_as_a_wake_up_takes() {
        let means = means(false, true, true);
        let wait = |elapsed, expected| means.wait(Completion::Automatic, elapsed, expected, true);
        assert_eq!(wait(0, None), Wait::SIGNAL);
        assert_eq!(wait(0, Some(INTERRUPT_NS)), Wait::POLL);
        assert_eq!(wait(0, Some(INTERRUPT_NS + 1)), Wait::SIGNAL);
        assert_eq!(wait(9_500, Some(10_000)), Wait::POLL);
        assert_eq!(wait(10_000 + INTERRUPT_NS, Some(10_000)), Wait::POLL);
        assert_eq!(wait(10_001 + INTERRUPT_NS, Some(10_000)), Wait::SIGNAL, "it is late");
    }

    #[test]
    fn automatic_polls_only_for_a_request_that_is_alone() {
        let means = means(false, false, true);
        assert_eq!(means.wait(Completion::Automatic, 0, Some(SIGNAL_NS), true), Wait::POLL);
        assert_eq!(means.wait(Completion::Automatic, 0, Some(SIGNAL_NS), false), Wait::SIGNAL);
    }

    #[test]
    fn automatic_sleeps_by_alarms_where_nothing_signals() {
        let means = means(true, true, true);
        assert_eq!(means.wait(Completion::Automatic, 0, Some(LONG_NS), false), Wait::alarm(3));
        assert_eq!(means.wait(Completion::Automatic, 0, Some(10_000), false), Wait::POLL);
    }

    proptest! {
        #[test]
        fn nobody_sleeps_for_a_signal_that_never_comes(
            means in any_means(), elapsed: u64, expected: Option<u64>, which in 0..4usize, is_alone: bool,
        ) {
            let wait = means.wait(Completion::ALL[which], elapsed, expected, is_alone);
            prop_assert!(!wait.signal || means.is_signalled);
            prop_assert!(wait.alarm.is_none() || means.has_alarm);
            prop_assert!(wait.polls || wait.signal || wait.alarm.is_some(), "something ends it");
        }

        #[test]
        fn most_demanding_request_decides(means in any_means(), waits in prop::collection::vec(
            (0..4usize, 0..LONG_NS, any::<bool>(), 0..LONG_NS), 1..10,
        )) {
            let waits: Vec<_> = waits
                .iter()
                .map(|(which, elapsed, is_known, expected)| {
                    means.wait(Completion::ALL[*which], *elapsed, is_known.then_some(*expected), false)
                })
                .collect();
            let all = waits.iter().copied().reduce(Wait::and).unwrap();
            prop_assert_eq!(all.polls, waits.iter().any(|wait| wait.polls));
            prop_assert!(all.polls || waits.iter().all(|wait| (!wait.signal || all.signal) && wait.alarm.is_none_or(|own| all.alarm <= Some(own))));
        }

        #[test]
        fn requests_that_are_long_overdue_are_not_polled_for_ever(expected in 0..LONG_NS * 100, which in 2..4usize) {
            let means = means(false, false, true);
            prop_assert_eq!(means.wait(Completion::ALL[which], u64::MAX, Some(expected), true), Wait::SIGNAL);
        }
    }
}
