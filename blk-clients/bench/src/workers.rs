//! Workers side by side in one task. Each is polled when it was woken, so that the cost of a request's completion does not
//! grow with the number of requests in flight.
//!
//! Neighbours: `load` makes the workers, each for a piece of the window (`buffer`). Left out: adding a worker later.

use crate::buffer::PIECE_BYTES;
use crate::shape::Impossible;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use workload::HEAP_A_REQUEST;

/// By worker, whether to poll it. The flags lie side by side, because all are read whenever the task is polled.
type Flags = Arc<[AtomicBool]>;

/// Wakes the worker at `place`, and the task it is in.
struct Woken {
    flags: Flags,
    place: usize,
    task: Waker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(flag) = self.flags.get(self.place) {
            flag.store(true, Ordering::Release);
        }
        self.task.wake_by_ref();
    }
}

struct Worker<F> {
    /// Until it ends.
    work: Option<Pin<Box<F>>>,
    waker: Waker,
}

impl<F: Future> Worker<F> {
    /// Returns its result, once.
    fn poll(&mut self) -> Option<F::Output> {
        let work = self.work.as_mut()?;
        let Poll::Ready(end) = work.as_mut().poll(&mut Context::from_waker(&self.waker)) else { return None };
        self.work = None;
        Some(end)
    }
}

/// Bytes of the heap for each worker: its future, itself and its place while the workers are made, its flag, its waker with two counts,
/// its piece of the window.
const fn heap_bytes<F>() -> usize {
    let worker = size_of::<(F, Worker<F>, Pin<Box<F>>, AtomicBool, Woken, [usize; 2])>();
    worker.saturating_add(PIECE_BYTES)
}

/// Waits for all workers; the first error ends the wait.
pub(crate) async fn all<F: Future<Output = Result<(), Impossible>>>(
    works: impl Iterator<Item = F>,
) -> Result<(), Impossible> {
    const { assert!(heap_bytes::<F>() <= HEAP_A_REQUEST) };
    // A future within a task is polled with that task's waker, always the same.
    let task = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
    let works: Vec<_> = works.map(Box::pin).collect();
    let flags: Flags = works.iter().map(|_| AtomicBool::new(true)).collect();
    let worker = |(place, work)| {
        let waker = Waker::from(Arc::new(Woken { flags: Arc::clone(&flags), place, task: task.clone() }));
        Worker { work: Some(work), waker }
    };
    let mut workers: Vec<_> = works.into_iter().enumerate().map(worker).collect();
    let mut left = workers.len();
    poll_fn(|_| {
        let mut failed = None;
        for (worker, woken) in workers.iter_mut().zip(flags.iter()) {
            // Not swapped: most were not woken, and a locked access for each of them costs more than all the rest.
            if !woken.load(Ordering::Acquire) {
                continue;
            }
            woken.store(false, Ordering::Relaxed);
            if let Some(end) = worker.poll() {
                left = left.saturating_sub(1);
                failed = failed.or(end.err());
            }
        }
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if left == 0 => Poll::Ready(Ok(())),
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

    /// Completes when woken through the waker that it leaves.
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
