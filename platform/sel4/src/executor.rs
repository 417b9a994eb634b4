//! The component's executor: embassy's, asleep in the kernel's wait whenever its one task has nothing to do.
//!
//! The way of a wake-up: the wait returns with a badge, the badge goes into a cell, the task is polled, `next_event` takes the
//! badge. The wait is inside of the task ([`Inbox::attend`]), so that embassy has no part in this: it polls the task when another
//! waker asks for it, a timer's for instance. A future that says that the others wake the task waits by itself
//! ([`Inbox::poll_or_sleep`]), so that nothing else is polled for an event that is its own. This is on the data path; a message's words are kept elsewhere, so that a signal
//! moves one word and no more.

use crate::invocation::{Sel4, is_short, short_message};
use crate::syscall::{self, REGISTER_WORDS, Received};
use crate::time;
use alloc::boxed::Box;
use core::cell::{Cell, OnceCell};
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use embassy_executor::raw::{Executor, TaskStorage};
use platform::{Badge, CPtr, Event, Message};

/// Embassy has the task in its queue, to be polled.
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
    long_message: Cell<Message>,
    /// A future waits for what comes.
    is_awaited: Cell<bool>,
    /// The waker of that future, if a combinator gave it one of its own.
    waker: Cell<Option<Waker>>,
    /// The task's waker. Who has this one need not be woken: the task is polled after each wait.
    task: OnceCell<Waker>,
    /// The task asks to be polled again before the next wait.
    again: Cell<bool>,
    /// An event was taken since the task was polled last, so all of its futures have been polled before.
    took_event: Cell<bool>,
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
            long_message: Cell::default(),
            is_awaited: Cell::new(false),
            waker: Cell::new(None),
            task: OnceCell::new(),
            again: Cell::new(false),
            took_event: Cell::new(false),
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
        self.is_awaited.set(true);
        if !self.is_of_task(context.waker()) {
            self.waker.set(Some(context.waker().clone()));
        }
        Poll::Pending
    }

    /// The next event. When it is not here and no other future of the task waits for one or wants to be polled, the task sleeps
    /// in the kernel until it comes.
    #[inline(always)]
    pub(crate) fn poll_or_sleep(&self, context: &Context) -> Poll<Event> {
        let is_quiet = !READY.load(Ordering::Relaxed) && !self.again.get() && !self.is_awaited.get();
        let is_empty = self.signals.get() == 0 && !self.has_message.get();
        if self.took_event.get() && is_quiet && is_empty && self.is_of_task(context.waker()) {
            // Without an object to wait at there would have been no event.
            let Some(wait) = self.wait.get() else { return Poll::Pending };
            self.put(syscall::recv(wait.bits()));
            time::wake_expired();
        }
        let event = self.poll_next(context);
        self.took_event.set(event.is_ready());
        event
    }

    /// Has `context`'s future polled again before the next wait.
    #[inline(always)]
    pub(crate) fn poll_again(&self, context: &Context) {
        if self.is_of_task(context.waker()) {
            self.again.set(true);
        } else {
            context.waker().wake_by_ref();
        }
    }

    #[inline(always)]
    fn is_of_task(&self, waker: &Waker) -> bool {
        self.task.get().is_some_and(|task| task.will_wake(waker))
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

    /// The message that is there.
    #[inline(always)]
    fn take_message(&self) -> Event {
        self.has_message.set(false);
        let received = self.message.get();
        let message = if is_short(received.info) { short_message(&received) } else { self.long_message.take() };
        Event::Message(Badge(received.badge), message)
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
            self.long_message.set(self.kernel.take_message(&received));
        }
    }

    /// Fetches what is at the kernel's already, if a future waits for it, and wakes that one.
    pub(crate) fn poll_waiter(&self) {
        if !self.is_awaited.get() {
            return;
        }
        let empty = self.signals.get() == 0 && !self.has_message.get();
        if let Some(wait) = self.wait.get().filter(|_| empty) {
            let received = syscall::nb_recv(wait.bits());
            if received.badge == 0 {
                return;
            }
            self.put(received);
        }
        self.wake_waiter();
    }

    /// Sleeps in the kernel until something arrives and wakes who waits for it.
    #[inline(always)]
    fn wait(&self) {
        match self.wait.get() {
            // A second message would take the place of the first and of the right to answer it. This happens only
            // while the component waits for something else with a message before its door: time, so watch the clock.
            Some(wait) if !self.has_message.get() => {
                self.put(syscall::recv(wait.bits()));
            }
            _ => syscall::yield_now(),
        }
        self.wake_waiter();
    }

    #[inline(always)]
    fn wake_waiter(&self) {
        self.is_awaited.set(false);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Polls `main` whenever something came for it, and waits in the kernel between. Comes back when it is over, and
    /// [`Poll::Pending`] when embassy has the task in its queue: a waker other than this inbox's asked for it, and as long as the
    /// task is queued no further one would be heard.
    fn attend<F: Future<Output = ()>>(&self, mut main: Pin<&mut F>, context: &mut Context) -> Poll<()> {
        self.task.get_or_init(|| context.waker().clone());
        loop {
            // An answer of the last turn does not wait for the end of this one.
            syscall::send_answer();
            self.took_event.set(false);
            if main.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            if READY.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            if !self.again.replace(false) {
                self.wait();
            }
            time::wake_expired();
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
pub(crate) fn run<F: Future<Output = ()> + 'static>(inbox: &'static Inbox, main: F) -> ! {
    let executor: &'static Executor = Box::leak(Box::new(Executor::new(core::ptr::null_mut())));
    let done: &'static Cell<bool> = Box::leak(Box::new(Cell::new(false)));
    let main = async move {
        let mut main = pin!(main);
        poll_fn(|context| inbox.attend(main.as_mut(), context)).await;
        done.set(true);
    };
    // The future moves once, onto the heap, and stays there.
    let task: &'static TaskStorage<_> = Box::leak(Box::new(TaskStorage::new()));
    match task.spawn(|| main) {
        Ok(token) => executor.spawner().spawn(token),
        Err(_) => unreachable!("a new task's storage is free"),
    }
    while !done.get() {
        // The task comes back from a poll only in order to be polled again, or at its end.
        READY.store(false, Ordering::Relaxed);
        // SAFETY: this is the only place that polls this executor, and a task cannot reach it.
        unsafe { executor.poll() };
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
