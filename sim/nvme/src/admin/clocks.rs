//! Time on the admin side: power states, the keep alive timer, the timestamp.

use nvme_spec::feature::{Select, Timestamp};

use super::config::{Operation, PowerLevel};
use super::features::{Features, TRANSITIONS};

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_US: u64 = 1_000;
const MS_PER_UNIT: u32 = 100;

/// Power states (section 8.4 of the base specification 1.4).
#[derive(Debug)]
pub(crate) struct Power {
    levels: Vec<PowerLevel>,
    state: u8,
    last_operational: u8,
    /// When the last change is over. I/O waits for it.
    settled_ns: u64,
    /// When an I/O command was fetched last.
    active_ns: u64,
}

impl Power {
    pub(crate) const fn new(levels: Vec<PowerLevel>) -> Self {
        Self { levels, state: 0, last_operational: 0, settled_ns: 0, active_ns: 0 }
    }

    /// Changes to another state. Returns the time until the controller is in it.
    pub(crate) fn change(&mut self, state: u8, now_ns: u64) -> u64 {
        let started_ns = now_ns.max(self.settled_ns);
        self.settled_ns = started_ns.saturating_add(self.latency_ns(state));
        if self.level(state).is_some_and(|level| level.operation == Operation::Operational) {
            self.last_operational = state;
        }
        self.state = state;
        self.settled_ns - now_ns
    }

    /// Returns the time to leave the present state and enter another.
    fn latency_ns(&self, state: u8) -> u64 {
        if state == self.state {
            return 0;
        }
        let us = |us: Option<u32>| u64::from(us.unwrap_or(0)).saturating_mul(NS_PER_US);
        let leaving = us(self.level(self.state).map(|level| level.exit_us));
        leaving.saturating_add(us(self.level(state).map(|level| level.entry_us)))
    }

    fn level(&self, state: u8) -> Option<&PowerLevel> {
        self.levels.get(usize::from(state))
    }

    const fn is_operational(&self) -> bool {
        self.state == self.last_operational
    }

    /// Resets with the controller: to the first state, at once.
    pub(crate) const fn reset(&mut self, now_ns: u64) {
        (self.state, self.last_operational, self.settled_ns, self.active_ns) = (0, 0, 0, now_ns);
    }
}

/// Wakes the controller for an I/O command: a state that does not process it is left for the last one that does.
/// Returns how long the command must wait.
pub(crate) fn wake(power: &mut Power, features: &mut Features, now_ns: u64) -> u64 {
    idle(power, features, now_ns);
    power.active_ns = now_ns;
    if power.is_operational() {
        return power.settled_ns.saturating_sub(now_ns);
    }
    let state = power.last_operational;
    features.enter_power_state(state);
    power.change(state, now_ns)
}

/// Makes the transitions between power states that an idle controller has made by itself up to now (section 8.4.2).
pub(crate) fn idle(power: &mut Power, features: &mut Features, now_ns: u64) {
    for _ in 0..TRANSITIONS {
        let Some(transition) = features.current().transition(power.state) else { return };
        let idle_ns = u64::from(transition.idle_ms()).saturating_mul(NS_PER_MS);
        let at_ns = power.active_ns.max(power.settled_ns).saturating_add(idle_ns);
        if at_ns > now_ns {
            return;
        }
        features.enter_power_state(transition.state());
        power.change(transition.state(), at_ns);
    }
}

/// The keep alive timer (section 7.12 of the base specification 1.4).
#[derive(Debug)]
pub(crate) struct KeepAlive {
    granularity_ms: u32,
    timeout_ms: u32,
    expires_ns: Option<u64>,
}

impl KeepAlive {
    /// `units` is KAS: the granularity in units of 100 ms.
    pub(crate) fn new(units: u16) -> Self {
        Self { granularity_ms: u32::from(units).saturating_mul(MS_PER_UNIT), timeout_ms: 0, expires_ns: None }
    }

    /// Rounds the requested timeout up to a multiple of the granularity.
    pub(crate) fn rounded(&self, timeout_ms: u32) -> u32 {
        timeout_ms.checked_next_multiple_of(self.granularity_ms.max(1)).unwrap_or(u32::MAX)
    }

    /// Sets the timeout and starts the timer; 0 stops it.
    pub(crate) fn set(&mut self, timeout_ms: u32, now_ns: u64) {
        self.timeout_ms = timeout_ms;
        self.restart(now_ns);
    }

    /// Restarts the timer: Keep Alive was received.
    pub(crate) fn restart(&mut self, now_ns: u64) {
        let timeout_ns = u64::from(self.timeout_ms).saturating_mul(NS_PER_MS);
        self.expires_ns = (timeout_ns != 0).then(|| now_ns.saturating_add(timeout_ns));
    }

    /// Time at which the host counts as lost.
    pub(crate) const fn expires_ns(&self) -> Option<u64> {
        self.expires_ns
    }

    /// Stops the timer.
    pub(crate) const fn stop(&mut self) {
        self.timeout_ms = 0;
        self.expires_ns = None;
    }
}

/// The timestamp (feature 0Eh): counted from a reset, or from the value that the host set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calendar {
    milliseconds: u64,
    since_ns: u64,
    attributes: u8,
}

impl Calendar {
    pub(crate) const fn new() -> Self {
        Self { milliseconds: 0, since_ns: 0, attributes: Timestamp::SINCE_RESET }
    }

    pub(crate) const fn set(&mut self, milliseconds: u64, now_ns: u64) {
        *self = Self { milliseconds, since_ns: now_ns, attributes: Timestamp::SET_BY_HOST };
    }

    /// Resets with the controller: counts from 0.
    pub(crate) const fn reset(&mut self, now_ns: u64) {
        *self = Self { milliseconds: 0, since_ns: now_ns, attributes: Timestamp::SINCE_RESET };
    }

    /// Returns the selected value; it cannot be saved, and its default is 0.
    pub(crate) fn at(&self, now_ns: u64, select: Select) -> Timestamp {
        if select != Select::Current {
            return Timestamp::default();
        }
        let passed_ms = now_ns.saturating_sub(self.since_ns) / NS_PER_MS;
        Timestamp::new(self.milliseconds.wrapping_add(passed_ms), self.attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_a_power_state_takes_leaving_and_entering() {
        let level = |operation, entry_us, exit_us| PowerLevel { max_power_10mw: 1, operation, entry_us, exit_us };
        let levels = vec![
            level(Operation::Operational, 1, 2),
            level(Operation::Operational, 3, 4),
            level(Operation::NonOperational, 5, 6),
        ];
        let mut power = Power::new(levels);
        assert_eq!(power.change(0, 10), 0);
        assert_eq!(power.change(1, 10), 5_000);
        assert_eq!(power.change(2, 10_010), 9_000);
        assert!(!power.is_operational());
        assert_eq!(power.last_operational, 1);
        // The next change is requested before the last one is over.
        assert_eq!(power.change(1, 10_011), 8_999 + 9_000);
        assert!(power.is_operational());
    }

    #[test]
    fn the_keep_alive_timeout_is_rounded_up() {
        let timer = KeepAlive::new(5);
        assert_eq!([0, 1, 500, 501, u32::MAX].map(|ms| timer.rounded(ms)), [0, 500, 500, 1000, u32::MAX]);
    }

    #[test]
    fn the_keep_alive_timer_starts_again_with_each_command() {
        let mut timer = KeepAlive::new(1);
        timer.restart(5);
        assert_eq!(timer.expires_ns(), None);
        timer.set(100, 7);
        assert_eq!(timer.expires_ns(), Some(100_000_007));
        timer.restart(10);
        assert_eq!(timer.expires_ns(), Some(100_000_010));
        timer.set(0, 20);
        assert_eq!(timer.expires_ns(), None);
    }

    #[test]
    fn the_timestamp_goes_on_from_what_was_set() {
        let mut calendar = Calendar::new();
        assert_eq!(calendar.at(3_000_000, Select::Current), Timestamp::new(3, Timestamp::SINCE_RESET));
        calendar.set(1000, 5_000_000);
        assert_eq!(calendar.at(7_999_999, Select::Current), Timestamp::new(1002, Timestamp::SET_BY_HOST));
        calendar.reset(9_000_000);
        assert_eq!(calendar.at(9_000_000, Select::Current), Timestamp::new(0, Timestamp::SINCE_RESET));
    }
}
