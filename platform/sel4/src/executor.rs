//! The component's executor: embassy's, asleep in the kernel's wait whenever its one task has nothing to do.
//!
//! The way of a wake-up: the wait returns with a badge, the badge goes into a cell, the task is marked ready and polled,
//! `next_event` takes the badge. This is on the data path; a message's words are kept elsewhere, so that a signal moves one
//! word and no more.

use crate::invocation::Sel4;
use crate::{syscall, time};
use alloc::boxed::Box;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use embassy_executor::raw::{Executor, TaskStorage};
use platform::{Badge, CPtr, Event, Message};

/// The task is ready to be polled.
static READY: AtomicBool = AtomicBool::new(false);

#[unsafe(export_name = "__pender")]
fn pender(_context: *mut ()) {
    READY.store(true, Ordering::Relaxed);
}

/// What arrived and was not yet taken, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    wait: Cell<Option<CPtr>>,
    /// Badges of the signals, 0 for none: a signal's badge always has [`Badge::SIGNAL`].
    signals: Cell<u64>,
    has_message: Cell<bool>,
    message: RefCell<(Badge, Message)>,
    waker: RefCell<Option<Waker>>,
}

impl Inbox {
    /// Events come from the endpoint or notification `wait`.
    pub(crate) fn listen(&self, wait: Option<CPtr>) {
        self.wait.set(wait);
    }

    /// The next event if it is here, else `context`'s task is woken when one comes.
    #[inline]
    pub(crate) fn poll_next(&self, context: &Context) -> Poll<Event> {
        match self.take() {
            Some(event) => Poll::Ready(event),
            None => {
                self.register(context.waker());
                Poll::Pending
            }
        }
    }

    /// The next event, if it is here or at the kernel's already.
    #[inline]
    pub(crate) fn poll_kernel(&self, kernel: &Sel4) -> Option<Event> {
        if let Some(event) = self.take() {
            return Some(event);
        }
        let received = syscall::nb_recv(self.wait.get()?.bits());
        // Nothing there: all capabilities that somebody signals or calls through have a badge.
        if received.badge == 0 {
            return None;
        }
        self.put(kernel, &received);
        self.take()
    }

    #[inline]
    fn take(&self) -> Option<Event> {
        match self.signals.replace(0) {
            0 => self.take_message(),
            signals => Some(Event::Signal(Badge(signals))),
        }
    }

    #[inline]
    fn take_message(&self) -> Option<Event> {
        if !self.has_message.replace(false) {
            return None;
        }
        let (badge, message) = &*self.message.borrow();
        Some(Event::Message(*badge, message.clone()))
    }

    #[inline]
    fn register(&self, waker: &Waker) {
        let mut registered = self.waker.borrow_mut();
        // Nearly always it is the task's own waker again.
        if !registered.as_ref().is_some_and(|old| old.will_wake(waker)) {
            *registered = Some(waker.clone());
        }
    }

    #[inline]
    fn put(&self, kernel: &Sel4, received: &syscall::Received) {
        if Badge(received.badge).has(Badge::SIGNAL) {
            self.signals.set(self.signals.get() | received.badge);
        } else {
            // Copied now: the next system call of any future overwrites the buffer.
            *self.message.borrow_mut() = (Badge(received.badge), kernel.take_message(received));
            self.has_message.set(true);
        }
    }

    /// Sleeps in the kernel until something arrives and wakes who waits for it.
    #[inline]
    fn wait(&self, kernel: &Sel4) {
        match self.wait.get() {
            // A second message would take the place of the first and of the right to answer it. This happens only
            // while the component waits for something else with a message before its door: time, so watch the clock.
            Some(wait) if !self.has_message.get() => {
                let received = syscall::recv(wait.bits());
                self.put(kernel, &received);
            }
            _ => syscall::yield_now(),
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// Runs `main` for ever; when it returns, what arrives is no longer looked at.
pub(crate) fn run<F: Future<Output = ()> + 'static>(kernel: &Sel4, inbox: &Inbox, main: F) -> ! {
    let executor: &'static Executor = Box::leak(Box::new(Executor::new(core::ptr::null_mut())));
    let done: &'static Cell<bool> = Box::leak(Box::new(Cell::new(false)));
    let main = async move {
        main.await;
        done.set(true);
    };
    // The future moves once, onto the heap, and stays there.
    let task: &'static TaskStorage<_> = Box::leak(Box::new(TaskStorage::new()));
    match task.spawn(|| main) {
        Ok(token) => executor.spawner().spawn(token),
        Err(_) => unreachable!("a new task's storage is free"),
    }
    while !done.get() {
        if READY.load(Ordering::Relaxed) {
            READY.store(false, Ordering::Relaxed);
            // SAFETY: this is the only place that polls this executor, and a task cannot reach it.
            unsafe { executor.poll() };
        } else {
            inbox.wait(kernel);
        }
        time::wake_expired();
    }
    defmt::info!("the component's work is over");
    rest(inbox)
}

/// Takes part in nothing any more.
fn rest(inbox: &Inbox) -> ! {
    loop {
        match inbox.wait.get() {
            Some(wait) => drop(syscall::recv(wait.bits())),
            None => syscall::yield_now(),
        }
    }
}

/// Waits for what arrives at `wait`, outside of any executor.
pub(crate) fn wait_blocking(kernel: &Sel4, wait: CPtr) -> Event {
    let received = syscall::recv(wait.bits());
    match Badge(received.badge) {
        badge if badge.has(Badge::SIGNAL) => Event::Signal(badge),
        badge => Event::Message(badge, kernel.take_message(&received)),
    }
}
