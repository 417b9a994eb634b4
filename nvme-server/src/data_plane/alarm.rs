//! The supervisor's alarm, after which a session that the scheduling policy holds back has its turn.
//!
//! An alarm has one of a few lengths, so a long wait takes several, each the longest that is not too long.

use crate::link::Link;
use platform::alarm::SERVER_US;
use platform::{Kernel, Platform};

/// The alarm that the server has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Alarm {
    /// Time at which it goes off, on the schedule's clock; `None` when it is not set.
    at_ns: Option<u64>,
}

impl Alarm {
    /// Asks for an alarm before a wait until `until_ns`, unless one that is early enough is set.
    pub(crate) fn ask<P: Platform>(&mut self, link: &Link<P>, until_ns: u64) {
        let now_ns = link.with(|data| data.now_ns());
        let Some((number, at_ns)) = self.wanted(now_ns, until_ns) else { return };
        if let Some(alarm) = link.alarms.get(number) {
            link.platform.kernel().signal(*alarm);
            self.at_ns = Some(at_ns);
        }
    }

    /// The number of the longest alarm that goes off by `until_ns`, or else of the shortest one, and the time at which it does;
    /// `None` if the one that is set does as well.
    fn wanted(self, now_ns: u64, until_ns: u64) -> Option<(usize, u64)> {
        let at = |us: u32| now_ns.saturating_add(u64::from(us).saturating_mul(1000));
        let latest = until_ns.max(at(SERVER_US[0]));
        if self.at_ns.is_some_and(|at_ns| at_ns <= latest) {
            return None;
        }
        SERVER_US.iter().map(|us| at(*us)).enumerate().rev().find(|(_, at_ns)| *at_ns <= latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_long_wait_takes_few_alarms() {
        let (mut now, until, mut alarms) = (7, 7 + 20 * MS, 0);
        while now < until {
            now = Alarm::default().wanted(now, until).unwrap().1;
            alarms += 1;
        }
        assert_eq!((alarms, now), (2, until));
    }

    #[test]
    fn a_shorter_wait_asks_again() {
        let long = Alarm { at_ns: Some(16 * MS) };
        assert_eq!(long.wanted(MS, 20 * MS), None);
        assert_eq!(long.wanted(MS, 6 * MS), Some((2, 5 * MS)));
    }

    proptest! {
        #[test]
        fn nobody_waits_longer_than_the_shortest_alarm(now: u64, waits in 0..u64::MAX, set in prop::option::of(any::<u64>())) {
            let until = now.saturating_add(waits);
            let latest = until.max(now.saturating_add(u64::from(SERVER_US[0]) * 1000));
            let at = Alarm { at_ns: set }.wanted(now, until).map_or(set, |(_, at)| Some(at));
            prop_assert!(at.is_some_and(|at| at <= latest));
        }
    }
}
