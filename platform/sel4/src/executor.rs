//! The component's executor: embassy's, asleep in the kernel's wait whenever its one task has nothing to do.
//!
//! The way of a wake-up: the wait returns with a badge, the badge goes into a cell, the task is marked ready and polled,
//! `next_event` takes the badge. This is on the data path; a message's words are kept elsewhere, so that a signal moves one
//! word and no more.

use crate::invocation::{Sel4, is_short, short_message};
use crate::syscall::{self, REGISTER_WORDS, Received};
use crate::time;
use alloc::boxed::Box;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
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
pub(crate) struct Inbox {
    kernel: Sel4,
    wait: Cell<Option<CPtr>>,
    /// Badges of the signals, 0 for none: a signal's badge always has [`Badge::SIGNAL`].
    signals: Cell<u64>,
    has_message: Cell<bool>,
    /// As it came: badge, description, words in registers.
    message: Cell<Received>,
    /// The same message, if it has more words or capabilities.
    long_message: RefCell<Message>,
    waker: Cell<Option<Waker>>,
}

impl Inbox {
    /// An empty inbox that listens to nothing.
    pub(crate) fn new(kernel: Sel4) -> Self {
        Self {
            kernel,
            wait: Cell::new(None),
            signals: Cell::new(0),
            has_message: Cell::new(false),
            message: Cell::new(Received { badge: 0, info: 0, words: [0; REGISTER_WORDS] }),
            long_message: RefCell::default(),
            waker: Cell::new(None),
        }
    }

    /// Events come from the endpoint or notification `wait`.
    pub(crate) fn listen(&self, wait: Option<CPtr>) {
        self.wait.set(wait);
    }

    /// The next event if it is here, else `context`'s task is woken when one comes.
    #[inline(always)]
    pub(crate) fn poll_next(&self, context: &Context) -> Poll<Event> {
        let signals = self.signals.replace(0);
        if signals != 0 {
            return Poll::Ready(Event::Signal(Badge(signals)));
        }
        if self.has_message.get() {
            return Poll::Ready(self.take_message());
        }
        self.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }

    /// The next event, if it is here or at the kernel's already.
    #[inline(always)]
    pub(crate) fn poll_kernel(&self) -> Option<Event> {
        if self.signals.get() == 0 && !self.has_message.get() {
            let received = syscall::nb_recv(self.wait.get()?.bits());
            // Nothing there: all capabilities that somebody signals or calls through have a badge.
            if received.badge == 0 {
                return None;
            }
            self.put(received);
        }
        match self.signals.replace(0) {
            0 => Some(self.take_message()),
            signals => Some(Event::Signal(Badge(signals))),
        }
    }

    /// The message that is there. Apart, so that the way of a signal has no room for a message on it and moves none.
    #[inline(never)]
    fn take_message(&self) -> Event {
        self.has_message.set(false);
        let received = self.message.get();
        let badge = Badge(received.badge);
        if is_short(received.info) {
            return Event::Message(badge, short_message(&received));
        }
        Event::Message(badge, self.long_message.borrow().clone())
    }

    #[inline(always)]
    fn put(&self, received: Received) {
        if Badge(received.badge).has(Badge::SIGNAL) {
            self.signals.set(self.signals.get() | received.badge);
            return;
        }
        self.message.set(received);
        self.has_message.set(true);
        if !is_short(received.info) {
            // Copied now: the next system call of any future overwrites the buffer.
            *self.long_message.borrow_mut() = self.kernel.take_message(&received);
        }
    }

    /// Fetches what is at the kernel's already, if a future waits for it, and wakes that one.
    pub(crate) fn look_for_waiter(&self) {
        let Some(waker) = self.waker.take() else { return };
        let empty = self.signals.get() == 0 && !self.has_message.get();
        if let Some(wait) = self.wait.get().filter(|_| empty) {
            let received = syscall::nb_recv(wait.bits());
            if received.badge == 0 {
                self.waker.set(Some(waker));
                return;
            }
            self.put(received);
        }
        waker.wake();
    }

    /// Sleeps in the kernel until something arrives and wakes who waits for it.
    #[inline]
    fn wait(&self) {
        match self.wait.get() {
            // A second message would take the place of the first and of the right to answer it. This happens only
            // while the component waits for something else with a message before its door: time, so watch the clock.
            Some(wait) if !self.has_message.get() => {
                self.put(syscall::recv(wait.bits()));
            }
            _ => syscall::yield_now(),
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Waits for the next event: what `next_event` gives.
pub(crate) struct NextEvent<'a>(pub(crate) &'a Inbox);

impl Future for NextEvent<'_> {
    type Output = Event;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context) -> Poll<Event> {
        self.0.poll_next(context)
    }
}

/// Runs `main` for ever; when it returns, what arrives is no longer looked at.
pub(crate) fn run<F: Future<Output = ()> + 'static>(inbox: &Inbox, main: F) -> ! {
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
            // An answer of the last turn does not wait for the end of this one.
            syscall::send_answer();
            // SAFETY: this is the only place that polls this executor, and a task cannot reach it.
            unsafe { executor.poll() };
        } else {
            inbox.wait();
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
