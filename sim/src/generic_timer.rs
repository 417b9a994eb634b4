//! The physical half of the generic timer (Arm ARM DDI 0487, section D12.2): a counter of 62.5 MHz, as on QEMU, and a
//! comparator. Its interrupt line is asserted for as long as the counter is at the deadline or beyond.
//!
//! Left out: the virtual half, with which the kernel measures time slices, and the mask bit.

/// The timer's interrupt (Arm Base System Architecture, section 3.8.1).
pub(crate) const LINE: u8 = 30;
/// Ticks of the counter a second.
pub(crate) const HZ: u64 = 1_000_000_000 / TICK_NS;

/// Nanoseconds of a tick.
const TICK_NS: u64 = 16;

/// The timer.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    deadline: Option<u64>,
    /// The interrupt line is asserted: the deadline has passed.
    is_due: bool,
}

impl Timer {
    /// The counter.
    pub(crate) const fn counter(now_ns: u64) -> u64 {
        now_ns / TICK_NS
    }

    /// Returns the time at which the line changes next by itself.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        let deadline = self.deadline.filter(|_| !self.is_due)?;
        Some(deadline.saturating_mul(TICK_NS))
    }

    /// Sets or clears the deadline. Returns the line's level if it changed.
    pub(crate) fn set(&mut self, deadline: Option<u64>, now_ns: u64) -> Option<bool> {
        self.deadline = deadline;
        self.poll(now_ns)
    }

    /// Returns the line's level if it changed: whether it is asserted.
    pub(crate) fn poll(&mut self, now_ns: u64) -> Option<bool> {
        let is_due = self.deadline.is_some_and(|deadline| Self::counter(now_ns) >= deadline);
        (std::mem::replace(&mut self.is_due, is_due) != is_due).then_some(is_due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_up_from_the_deadline_until_another_is_set() {
        let mut timer = Timer::default();
        assert_eq!(timer.set(Some(100), 0), None);
        assert_eq!(timer.next_event_ns(), Some(1600));
        assert_eq!((timer.poll(1599), timer.poll(1600), timer.poll(9000)), (None, Some(true), None));
        assert_eq!(timer.next_event_ns(), None);
        assert_eq!(timer.set(Some(1000), 9000), Some(false));
        assert_eq!(timer.set(Some(500), 9000), Some(true), "what is past is due at once");
        assert_eq!(timer.set(None, 9000), Some(false));
        assert_eq!(Timer::counter(1_000_000_000), HZ);
    }
}
