//! A future that is polled only after it was woken, not each time that its task is polled.
//!
//! The control plane waits most of the time, and its task is polled at every signal for the data plane. Without this module
//! each signal would poll every queue and timer that the control plane waits for.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};

/// A future with a waker of its own.
pub(crate) struct OnWake<F> {
    future: Pin<Box<F>>,
    waker: Option<(Arc<Woken>, Waker)>,
}

/// Whether the future was woken, and the task that polls it.
struct Woken {
    is_set: AtomicBool,
    task: Waker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::Relaxed);
        self.task.wake_by_ref();
    }
}

impl<F: Future> OnWake<F> {
    /// `future`, which is polled the first time and whenever it was woken.
    pub(crate) fn new(future: F) -> Self {
        Self { future: Box::pin(future), waker: None }
    }
}

impl<F: Future> Future for OnWake<F> {
    type Output = F::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, waker } = &mut *self;
        let (woken, waker) = match waker {
            Some(known) if known.0.task.will_wake(context.waker()) => known,
            // The task has another waker: the future is polled, so that it registers this one.
            place => {
                let woken = Arc::new(Woken { is_set: AtomicBool::new(true), task: context.waker().clone() });
                let waker = Waker::from(Arc::clone(&woken));
                place.insert((woken, waker))
            }
        };
        if woken.is_set.load(Ordering::Relaxed) {
            woken.is_set.store(false, Ordering::Relaxed);
            return future.as_mut().poll(&mut Context::from_waker(waker));
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use core::future::poll_fn;

    struct Task(AtomicBool);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn future_is_polled_first_when_woken_and_per_new_waker() {
        let (polls, kept) = (Cell::new(0), Cell::new(None));
        let mut lazy = core::pin::pin!(OnWake::new(poll_fn(|context| {
            polls.set(polls.get() + 1);
            kept.set(Some(context.waker().clone()));
            if polls.get() == 4 { Poll::Ready(()) } else { Poll::Pending }
        })));
        let task = Arc::new(Task(AtomicBool::new(false)));
        let mut poll = |task: &Arc<Task>| lazy.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(task))));
        assert!(poll(&task).is_pending() && poll(&task).is_pending());
        assert_eq!(polls.get(), 1);
        kept.take().unwrap().wake();
        assert!(task.0.load(Ordering::Relaxed), "the task is woken, too");
        assert!(poll(&task).is_pending() && poll(&task).is_pending());
        assert_eq!(polls.get(), 2);
        let other = Arc::new(Task(AtomicBool::new(false)));
        assert!(poll(&other).is_pending() && poll(&other).is_pending());
        assert_eq!(polls.get(), 3);
        kept.take().unwrap().wake();
        assert!(other.0.load(Ordering::Relaxed) && poll(&other).is_ready());
    }
}
