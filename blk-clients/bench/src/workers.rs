//! Workers side by side in one task: each is polled when it was woken, so that what one request's end costs does not
//! grow with the number of requests in flight.
//!
//! Neighbours: `load` makes the workers. Left out: adding one later.

use crate::shape::Impossible;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};

/// Whether a worker is to be polled, and the task it is in.
struct Woken {
    is: AtomicBool,
    task: Waker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

struct Worker<F> {
    work: Pin<Box<F>>,
    woken: Arc<Woken>,
    /// Wakes `woken`.
    waker: Waker,
}

impl<F: Future> Worker<F> {
    /// To be polled in `task`, as soon as that is.
    fn new(work: Pin<Box<F>>, task: &Waker) -> Self {
        let woken = Arc::new(Woken { is: AtomicBool::new(true), task: task.clone() });
        Self { work, waker: Waker::from(Arc::clone(&woken)), woken }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        // Not swapped: most were not woken, and a locked access for each of them costs more than all the rest.
        if !self.woken.is.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        self.woken.is.store(false, Ordering::Relaxed);
        self.work.as_mut().poll(&mut Context::from_waker(&self.waker))
    }
}

/// Waits for all of them; the first error ends it.
pub(crate) async fn all<F: Future<Output = Result<(), Impossible>>>(
    works: impl Iterator<Item = F>,
) -> Result<(), Impossible> {
    // A future within a task is polled with that task's waker, always the same.
    let task = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
    let mut workers: Vec<_> = works.map(|work| Worker::new(Box::pin(work), &task)).collect();
    poll_fn(|_| {
        let mut failed = None;
        workers.retain_mut(|worker| match worker.poll() {
            Poll::Ready(result) => {
                failed = failed.or(result.err());
                false
            }
            Poll::Pending => true,
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if workers.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use core::cell::{Cell, RefCell};
    use core::pin::pin;

    /// Ends when it was woken through the waker that it leaves.
    async fn waits(polls: Rc<Cell<u32>>, waker: Rc<RefCell<Option<Waker>>>) -> Result<(), Impossible> {
        poll_fn(|context| {
            polls.set(polls.get() + 1);
            if waker.borrow().is_some() {
                return Poll::Ready(());
            }
            *waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        Ok(())
    }

    #[test]
    fn only_who_was_woken_is_polled() {
        let polls: Vec<Rc<Cell<u32>>> = (0..3).map(|_| Rc::default()).collect();
        let wakers: Vec<Rc<RefCell<Option<Waker>>>> = (0..3).map(|_| Rc::default()).collect();
        let each = || polls.iter().map(|polls| polls.get()).collect::<Vec<_>>();
        let works = polls.iter().zip(&wakers).map(|(polls, waker)| waits(Rc::clone(polls), Rc::clone(waker)));
        let mut together = pin!(all(works));
        let mut context = Context::from_waker(Waker::noop());
        assert!(together.as_mut().poll(&mut context).is_pending());
        assert_eq!(each(), [1, 1, 1]);
        wakers[1].borrow().as_ref().unwrap().wake_by_ref();
        assert!(together.as_mut().poll(&mut context).is_pending());
        assert_eq!(each(), [1, 2, 1]);
        for waker in [&wakers[0], &wakers[2]] {
            waker.borrow().as_ref().unwrap().wake_by_ref();
        }
        assert_eq!(together.as_mut().poll(&mut context), Poll::Ready(Ok(())));
        assert_eq!(each(), [2, 2, 2]);
    }

    #[test]
    fn the_first_error_ends_all() {
        let works = [Ok(()), Err(Impossible::WindowTooSmall)].into_iter().map(core::future::ready);
        let mut together = pin!(all(works));
        let ended = together.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(ended, Poll::Ready(Err(Impossible::WindowTooSmall)));
    }
}
