//! The supervisor's timer: ticks and alarms on the machine's one-shot timer.
//!
//! One timer serves two purposes: ticks at a fixed rate, and alarms. A component asks for an alarm when it wants to go on in a
//! moment, and the supervisor for its work between ticks. The timer interrupts at the next of them, and only then is the
//! counter polled.

use platform::{Cap, IrqHandler, IrqSource, OutOfBounds};

/// From one tick to the next, microseconds: 20 a second.
pub(crate) const TICK_US: u32 = 50_000;

/// A counter that runs and wraps around, and interrupts when it comes to a deadline: each machine has its own.
///
/// Errors are [`OutOfBounds`], for registers beyond the mapped range.
#[expect(clippy::missing_errors_doc, reason = "said once for all")]
pub trait OneShot {
    /// The source of its interrupt.
    fn source(&self) -> IrqSource;
    /// Lets the counter run.
    fn start(&self) -> Result<(), OutOfBounds>;
    /// The counter.
    fn now(&self) -> Result<u32, OutOfBounds>;
    /// Interrupts when [`OneShot::now`] reaches `deadline`. Whether it may have been reached before the timer knew of it,
    /// so that no interrupt comes.
    fn arm(&self, deadline: u32) -> Result<bool, OutOfBounds>;
    /// Disarms the timer after its interrupt came, so that no other comes before the timer is armed again; a level is withdrawn.
    fn disarm(&self) -> Result<(), OutOfBounds>;
    /// Ticks of the counter in `microseconds`, at least one, and at most 31 bits.
    fn ticks_in(&self, microseconds: u32) -> u32;
}

/// Whether the counter, which wraps around, has reached `deadline`, if the two are within half of its range.
#[must_use]
pub const fn is_reached(deadline: u32, now: u32) -> bool {
    now.wrapping_sub(deadline) <= i32::MAX as u32
}

/// A running timer. Times are the counter's, which wraps around.
#[derive(Debug)]
pub(crate) struct Timer<T> {
    /// The timer's interrupt, acknowledged after every one.
    pub(crate) handler: Cap<IrqHandler>,
    one_shot: T,
    next_tick: u32,
    alarm: Option<u32>,
}

/// Ticks and alarms that are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Due {
    /// A tick.
    pub tick: bool,
    /// The alarm that was set.
    pub alarm: bool,
}

impl<T: OneShot> Timer<T> {
    /// Starts the timer, and arms it for the first tick.
    ///
    /// # Errors
    /// [`OutOfBounds`] for registers beyond the range, as everywhere here.
    pub(crate) fn start(handler: Cap<IrqHandler>, one_shot: T) -> Result<Self, OutOfBounds> {
        one_shot.start()?;
        let next_tick = one_shot.now()?.wrapping_add(one_shot.ticks_in(TICK_US));
        let mut timer = Self { handler, one_shot, next_tick, alarm: None };
        timer.poll()?;
        Ok(timer)
    }

    /// Disarms the timer after its interrupt came, until the next poll.
    pub(crate) fn disarm(&self) -> Result<(), OutOfBounds> {
        self.one_shot.disarm()
    }

    /// Sets the alarm to go off after `microseconds`, unless it is set to an earlier time. Returns what is due by now.
    pub(crate) fn set_alarm(&mut self, microseconds: u32) -> Result<Due, OutOfBounds> {
        let at = self.one_shot.now()?.wrapping_add(self.one_shot.ticks_in(microseconds));
        if self.alarm.is_some_and(|alarm| is_reached(alarm, at)) {
            return Ok(Due::default());
        }
        self.alarm = Some(at);
        self.poll()
    }

    /// Returns what is due, and arms the comparator for the next tick or alarm.
    pub(crate) fn poll(&mut self) -> Result<Due, OutOfBounds> {
        let mut due = Due::default();
        loop {
            let now = self.one_shot.now()?;
            if is_reached(self.next_tick, now) {
                due.tick = true;
                let interval = self.one_shot.ticks_in(TICK_US);
                let next = self.next_tick.wrapping_add(interval);
                // Ticks that were missed are not made up for.
                self.next_tick = if is_reached(next, now) { now.wrapping_add(interval) } else { next };
            }
            if self.alarm.is_some_and(|alarm| is_reached(alarm, now)) {
                due.alarm = true;
                self.alarm = None;
            }
            let next = self.alarm.filter(|alarm| is_reached(*alarm, self.next_tick)).unwrap_or(self.next_tick);
            if !self.one_shot.arm(next)? {
                return Ok(due);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpet::Hpet;
    use crate::testing::{Q35_HZ, TestHpet};
    use platform::CPtr;

    fn timer() -> (Timer<Hpet<TestHpet>>, TestHpet) {
        let registers = TestHpet::default();
        let timer = Timer::start(CPtr::new(1).cast(), Hpet::new(registers.clone()).unwrap()).unwrap();
        (timer, registers)
    }

    const ALARM_US: u32 = platform::alarm::SERVER_US[0];
    const NOTHING: Due = Due { tick: false, alarm: false };
    const TICK: Due = Due { tick: true, alarm: false };
    const ALARM: Due = Due { tick: false, alarm: true };

    #[test]
    fn ticks_come_at_their_rate_and_missed_ones_are_not_made_up_for() {
        let (mut timer, registers) = timer();
        assert_eq!((timer.poll(), registers.armed()), (Ok(NOTHING), Q35_HZ / 20));
        registers.pass(Q35_HZ / 20 + 7);
        assert_eq!((timer.poll(), registers.armed()), (Ok(TICK), Q35_HZ / 10));
        registers.pass(Q35_HZ);
        assert_eq!((timer.poll(), timer.poll()), (Ok(TICK), Ok(NOTHING)));
        // Far enough for the counter to wrap.
        for _ in 0..1000 {
            registers.pass(Q35_HZ / 20);
            assert_eq!(timer.poll(), Ok(TICK));
        }
    }

    #[test]
    fn alarm_goes_off_once_and_ticks_stay() {
        let (mut timer, registers) = timer();
        registers.pass(1000);
        assert_eq!((timer.set_alarm(ALARM_US), registers.armed()), (Ok(NOTHING), 1000 + Q35_HZ / 4000));
        registers.pass(500);
        assert_eq!(timer.set_alarm(ALARM_US), Ok(NOTHING), "it is set");
        assert_eq!(registers.armed(), 1000 + Q35_HZ / 4000);
        registers.pass(Q35_HZ / 4000 - 500);
        assert_eq!((timer.poll(), registers.armed()), (Ok(ALARM), Q35_HZ / 20));
        registers.pass(Q35_HZ / 20 - Q35_HZ / 4000 - 1500);
        assert_eq!((timer.set_alarm(ALARM_US), registers.armed()), (Ok(NOTHING), Q35_HZ / 20), "the tick is first");
        registers.pass(Q35_HZ / 4000 + 500);
        assert_eq!(timer.poll(), Ok(Due { tick: true, alarm: true }));
    }

    #[test]
    fn of_two_alarms_the_earlier_one_goes_off() {
        let (mut timer, registers) = timer();
        assert_eq!((timer.set_alarm(10_000), registers.armed()), (Ok(NOTHING), Q35_HZ / 100));
        assert_eq!((timer.set_alarm(ALARM_US), registers.armed()), (Ok(NOTHING), Q35_HZ / 4000));
        registers.pass(Q35_HZ / 4000);
        assert_eq!((timer.poll(), registers.armed()), (Ok(ALARM), Q35_HZ / 20));
    }
}
