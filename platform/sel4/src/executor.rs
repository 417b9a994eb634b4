//! The component's executor: embassy's, asleep in the kernel's wait whenever its one task has nothing to do.
//!
//! The steps of a wake-up: the wait returns with a badge, the badge goes into a cell, the task is polled, `next_event` takes
//! the badge. The wait is inside of the task ([`Inbox::attend`]), so that embassy has no part in this: embassy polls the task
//! when another waker asks for it, a timer's for instance. A future whose fellow futures wake the task by themselves waits
//! alone ([`Inbox::poll_or_sleep`]), so that nothing else is polled for its event. This is on the data path; a message's
//! words are kept elsewhere, so that a signal moves one word only.

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

/// Events that arrived and were not yet taken, and the task that waits for them.
pub(crate) struct Inbox {
    kernel: Sel4,
    wait: Cell<Option<CPtr>>,
    /// Badges of the signals, 0 for none: a signal's badge always has [`Badge::SIGNAL`].
    signals: Cell<u64>,
    has_message: Cell<bool>,
    /// The message as it came: badge, description, words in registers.
    message: Cell<Received>,
    /// The whole message, if it has more words or capabilities.
    long_message: Cell<Message>,
    /// Whether a future waits for an event.
    is_awaited: Cell<bool>,
    /// The waker of that future, if a combinator gave it one of its own.
    waker: Cell<Option<Waker>>,
    /// The task's waker. A future with this waker need not be woken: the task is polled after each wait.
    task: OnceCell<Waker>,
    /// Whether the task asks to be polled again before the next wait.
    again: Cell<bool>,
    /// All futures of the task were polled since one of them was woken last, so each waits for an event or for a waker.
    all_polled: Cell<bool>,
}

impl Inbox {
    /// Creates an empty inbox that waits at no object.
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
            all_polled: Cell::new(false),
        }
    }

    /// Sets the endpoint or notification `wait` as the source of events.
    pub(crate) fn listen(&self, wait: Option<CPtr>) {
        self.wait.set(wait);
    }

    /// Returns the next event if it is here; otherwise has `context`'s task woken when one comes.
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

    /// Returns the next event. If it is not here, and no other future of the task waits for one or wants to be polled, the task
    /// sleeps in the kernel until it comes.
    #[inline(always)]
    pub(crate) fn poll_or_sleep(&self, context: &Context) -> Poll<Event> {
        let is_quiet = !READY.load(Ordering::Relaxed) && !self.again.get() && !self.is_awaited.get();
        let is_empty = self.signals.get() == 0 && !self.has_message.get();
        if self.all_polled.get() && is_quiet && is_empty && self.is_of_task(context.waker()) {
            let Some(wait) = self.wait.get() else { return Poll::Pending };
            self.put(syscall::recv(wait.bits()));
            time::wake_expired();
        }
        self.poll_next(context)
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

    /// Returns the next event, if it is here or in the kernel already.
    #[inline(always)]
    pub(crate) fn poll_kernel(&self) -> Option<Event> {
        if self.signals.get() == 0 && !self.has_message.get() {
            let received = syscall::nb_recv(self.wait.get()?.bits());
            // No event: all capabilities for signals and calls have a badge.
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

    /// Takes the message that is here.
    #[inline(always)]
    fn take_message(&self) -> Event {
        self.has_message.set(false);
        let received = self.message.get();
        let message = if is_short(received.info) { short_message(&received) } else { self.long_message.take() };
        Event::Message(Badge(received.badge), message)
    }

    /// The source of events.
    pub(crate) fn source(&self) -> Option<CPtr> {
        self.wait.get()
    }

    /// Keeps what a wait brought.
    #[inline(always)]
    pub(crate) fn put(&self, received: Received) {
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

    /// Fetches an event that is in the kernel already, if a future waits for it, and wakes that one.
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

    /// Sleeps in the kernel until an event arrives, and wakes the future that waits for it.
    #[inline(always)]
    fn wait(&self) {
        match self.wait.get() {
            // A second message would replace the first and the right to answer it. This happens only while the component
            // waits for something else with a message in its inbox: for time, so it polls the clock.
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

    /// Polls `main` whenever an event came for it, and waits in the kernel between. Returns when `main` is over, and returns
    /// [`Poll::Pending`] when embassy has the task in its queue: a waker other than this inbox's asked for it, and as long as
    /// the task is queued, embassy would not notice another one.
    fn attend<F: Future<Output = ()>>(&self, mut main: Pin<&mut F>, context: &mut Context) -> Poll<()> {
        self.task.get_or_init(|| context.waker().clone());
        self.all_polled.set(false);
        loop {
            // An answer of the last turn does not wait for the end of this one.
            syscall::send_answer();
            if main.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            if READY.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            let again = self.again.replace(false);
            self.all_polled.set(!again);
            if !again {
                self.wait();
            }
            time::wake_expired();
        }
    }
}

/// Waits for the next event; the future of `next_event`.
pub(crate) struct NextEvent<'a>(pub(crate) &'a Inbox);

impl Future for NextEvent<'_> {
    type Output = Event;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context) -> Poll<Event> {
        self.0.poll_next(context)
    }
}

/// Runs `main` for ever; when it returns, later events are ignored.
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
        // The task returns from a poll only in order to be polled again, or at its end.
        READY.store(false, Ordering::Relaxed);
        // SAFETY: this is the only place that polls this executor, and a task cannot reach it.
        unsafe { executor.poll() };
    }
    defmt::info!("the component's work is over");
    rest(inbox)
}

/// Sleeps for ever.
fn rest(inbox: &Inbox) -> ! {
    loop {
        match inbox.wait.get() {
            Some(wait) => drop(syscall::recv(wait.bits())),
            None => syscall::yield_now(),
        }
    }
}

/// Waits for an event at `wait`, outside of any executor.
pub(crate) fn wait_blocking(kernel: &Sel4, wait: CPtr) -> Event {
    let received = syscall::recv(wait.bits());
    match Badge(received.badge) {
        badge if badge.has(Badge::SIGNAL) => Event::Signal(badge),
        badge => Event::Message(badge, kernel.take_message(&received)),
    }
}
