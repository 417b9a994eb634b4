//! A component's inbox: signals and messages that arrived and were not taken yet. Also the executor, which sleeps in the
//! kernel's wait when the component has nothing to do. It works as the runtime on seL4 does (`platform/sel4`): one task, polled
//! after a wake-up. Arrivals are kept until `next_event` takes them: signals as one badge, messages one at a time.

use crate::coroutine;
use crate::invocations::{Received, SimKernel};
use platform::{Badge, CPtr, Event, Message};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Signals and messages that arrived.
pub(crate) struct Inbox {
    kernel: SimKernel,
    wait: Cell<Option<CPtr>>,
    signals: Cell<u64>,
    message: RefCell<Option<(Badge, Box<Message>)>>,
    waker: Cell<Option<Waker>>,
}

impl Inbox {
    /// Creates an empty inbox for arrivals at `wait`.
    pub(crate) const fn new(kernel: SimKernel, wait: Option<CPtr>) -> Self {
        Self {
            kernel,
            wait: Cell::new(wait),
            signals: Cell::new(0),
            message: RefCell::new(None),
            waker: Cell::new(None),
        }
    }

    /// Takes events from `wait` from now on.
    pub(crate) fn listen(&self, wait: CPtr) {
        self.wait.set(Some(wait));
    }

    /// Returns the next event if it is in the inbox; else registers `context`'s task for the next one.
    pub(crate) fn poll_next(&self, context: &Context<'_>) -> Poll<Event> {
        if let Some(event) = self.take() {
            return Poll::Ready(event);
        }
        self.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }

    /// Returns the next event if it is in the inbox, or already at the kernel.
    pub(crate) fn poll_kernel(&self) -> Option<Event> {
        if self.is_empty() {
            self.put(self.kernel.poll(self.wait.get()?)?);
        }
        self.take()
    }

    /// Polls the kernel if a future waits for an event, and wakes that future if one was there.
    pub(crate) fn poll_waiter(&self) {
        let Some(waker) = self.waker.take() else { return };
        if self.is_empty() {
            match self.wait.get().and_then(|wait| self.kernel.poll(wait)) {
                Some(received) => self.put(received),
                None => return self.waker.set(Some(waker)),
            }
        }
        waker.wake();
    }

    /// Sleeps in the kernel until something arrives, and wakes the waiting future.
    fn sleep(&self) {
        match self.wait.get() {
            // A second message would replace the first one and the right to reply to it.
            Some(wait) if self.message.borrow().is_none() => {
                if let Some(received) = self.kernel.wait(wait) {
                    self.put(received);
                }
            }
            _ => self.kernel.yield_now(),
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn is_empty(&self) -> bool {
        self.signals.get() == 0 && self.message.borrow().is_none()
    }

    fn put(&self, received: Received) {
        match received {
            Received::Signal(badge) => self.signals.set(self.signals.get() | badge.0),
            Received::Message(badge, message) => *self.message.borrow_mut() = Some((badge, message)),
        }
    }

    fn take(&self) -> Option<Event> {
        match self.signals.replace(0) {
            0 => self.message.borrow_mut().take().map(|(badge, message)| Event::Message(badge, *message)),
            signals => Some(Event::Signal(Badge(signals))),
        }
    }
}

/// Whether the component's one task needs a poll.
struct Ready(AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `main` to its end. Calls `turn` before each poll.
pub(crate) fn execute(inbox: &Inbox, mut main: Pin<Box<dyn Future<Output = ()>>>, mut turn: impl FnMut()) {
    let ready = Arc::new(Ready(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&ready));
    let mut context = Context::from_waker(&waker);
    while !coroutine::is_dying() {
        if !ready.0.swap(false, Ordering::Relaxed) {
            inbox.sleep();
            continue;
        }
        turn();
        if main.as_mut().poll(&mut context).is_ready() {
            return;
        }
    }
}

/// Idles for ever: receives what arrives and drops it.
pub(crate) fn rest(inbox: &Inbox) {
    while !coroutine::is_dying() {
        match inbox.wait.get() {
            Some(wait) => drop(inbox.kernel.wait(wait)),
            None => inbox.kernel.yield_now(),
        }
    }
}
