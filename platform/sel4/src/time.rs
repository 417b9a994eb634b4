//! Time: the processor's counter, and embassy's timers on it.
//!
//! The counter runs at a constant rate. Timers have no hardware of their own: they are polled whenever the component wakes
//! up, and a component that waits for time alone is woken by the supervisor's periodic tick (the `timer` wish in the
//! system's description). So a timer is never early, and late by one tick at most, 50 ms at 20 Hz: fit for timeouts, not for
//! pacing.

use crate::arch;
use crate::local::Local;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Waker;
use embassy_time_driver::{Driver, TICK_HZ};
use embassy_time_queue_utils::Queue;

/// Microseconds in a tick of the counter, times 2^64. Zero until the program starts.
static SCALE: AtomicU64 = AtomicU64::new(0);
/// Time at which the first timer expires, microseconds.
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);
static TIMERS: Local<Queue> = Local::new(Queue::new());

/// Sets the rate of the counter.
pub(crate) fn start(ticks_per_second: u64) {
    let scale = (u128::from(TICK_HZ) << 64).checked_div(u128::from(ticks_per_second)).unwrap_or(0);
    SCALE.store(u64::try_from(scale).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Microseconds since the counter was zero.
#[inline]
pub(crate) fn now_us() -> u64 {
    let scaled = u128::from(arch::syscall::ticks()) * u128::from(SCALE.load(Ordering::Relaxed));
    (scaled >> 64) as u64
}

/// Wakes the tasks whose timers have expired.
#[inline]
pub(crate) fn wake_expired() {
    // Without timers, the rule on the data path, this is all.
    if NEXT.load(Ordering::Relaxed) != u64::MAX {
        wake_expired_before(now_us());
    }
}

fn wake_expired_before(now: u64) {
    if now >= NEXT.load(Ordering::Relaxed) {
        // SAFETY: waking marks the task as ready and runs nothing of it, so no timer is added meanwhile.
        let next = unsafe { TIMERS.with(|timers| timers.next_expiration(now)) };
        NEXT.store(next, Ordering::Relaxed);
    }
}

struct TimeStampCounter;

embassy_time_driver::time_driver_impl!(static DRIVER: TimeStampCounter = TimeStampCounter);

impl Driver for TimeStampCounter {
    fn now(&self) -> u64 {
        now_us()
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        // SAFETY: as in `wake_expired_before`; cloning a waker adds no timer either.
        let next =
            unsafe { TIMERS.with(|timers| timers.schedule_wake(at, waker).then(|| timers.next_expiration(now_us()))) };
        if let Some(next) = next {
            NEXT.store(next, Ordering::Relaxed);
        }
    }
}
