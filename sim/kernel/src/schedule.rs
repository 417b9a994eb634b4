//! Scheduling: one queue of ready threads for each priority; the first thread of the highest runs.
//!
//! As in seL4 the running thread is in no queue, and its place is decided at the end of a kernel entry. The rules are those
//! of 5.0.0. A thread woken by its partner at an endpoint runs at once at the same priority. A thread woken by a signal runs
//! at once only at a higher priority. All others go to the front of their queue. Only a yield or a used up time slice puts a
//! thread at the end. Later kernels ([`crate::Interface::Current`]) prefer the running thread to its equals: the one that it
//! wakes goes to the end.

use crate::arena::ThreadId;
use crate::kernel::Kernel;
use crate::scheduler::{Action, TIME_SLICE_TICKS};
use crate::thread::ThreadState;

/// Whether a thread that was woken takes over from one of its own priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnEqual {
    Switch,
    Stay,
}

impl Kernel {
    /// The thread that runs: always the first of [`Kernel::runnable_at`] the highest priority. `None` when all wait.
    #[inline]
    #[must_use]
    pub const fn current(&self) -> Option<ThreadId> {
        self.scheduler.current
    }

    /// Whether the thread runs or is ready to.
    #[inline]
    #[must_use]
    pub fn is_runnable(&self, thread: ThreadId) -> bool {
        self.threads.get(thread).is_some_and(|thread| thread.state.is_runnable())
    }

    /// The highest priority at which a thread runs or is ready to.
    #[must_use]
    pub fn highest_runnable(&self) -> Option<u8> {
        let current = self.current().map(|thread| self.threads[thread].priority);
        current.max(self.scheduler.highest_queue())
    }

    /// The threads of a priority that run or are ready to, in the order in which they will.
    pub fn runnable_at(&self, priority: u8) -> impl Iterator<Item = ThreadId> {
        let current = self.current().filter(|thread| self.threads[*thread].priority == priority);
        let queue = self.scheduler.queues[usize::from(priority)];
        let queued = core::iter::successors(queue.head, |thread| self.threads[*thread].ready_next);
        current.into_iter().chain(queued)
    }

    /// A number that changes whenever a thread became ready, stopped being ready, or changed its place.
    #[inline]
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.scheduler.generation
    }

    /// Puts the thread behind all others of its priority: its yield, or the end of its time slice.
    pub fn rotate(&mut self, thread: ThreadId) {
        if self.enter(thread) {
            self.ready_append(thread);
            self.reschedule();
            self.finish(thread, crate::delivery::Delivery::Nothing);
            self.leave();
        }
    }

    /// Puts a ready thread behind all others of its priority, in the middle of its operation: at the end of its time slice,
    /// found while it was in the kernel.
    pub fn requeue(&mut self, thread: ThreadId) {
        if self.is_runnable(thread) && self.halted.is_none() {
            self.ready_append(thread);
            self.reschedule();
            self.leave();
        }
    }

    /// A tick of the kernel's timer, which comes every 2 ms: after [`TIME_SLICE_TICKS`] of them the running thread
    /// goes behind all others of its priority.
    pub fn timer_tick(&mut self) {
        let Some(thread) = self.current() else { return };
        let running = &mut self.threads[thread];
        if running.slice_ticks > 1 {
            running.slice_ticks -= 1;
        } else {
            running.slice_ticks = TIME_SLICE_TICKS;
            self.ready_append(thread);
            self.reschedule();
        }
        self.leave();
    }

    /// Makes `thread` enter the kernel; returns whether it can. A thread that does not run enters out of turn, which no
    /// thread of a real machine can do: it goes before those of its priority, and at the end the scheduled thread runs
    /// again.
    pub(crate) fn enter(&mut self, thread: ThreadId) -> bool {
        if !self.is_runnable(thread) || self.halted.is_some() {
            return false;
        }
        if self.current() != Some(thread) {
            if let Some(current) = self.current() {
                self.ready_push(current);
            }
            self.switch_to(thread);
            self.scheduler.is_out_of_turn = true;
        }
        let entered = &mut self.threads[thread];
        entered.delivery = None;
        entered.is_in_operation = true;
        true
    }

    /// Runs the first thread of all.
    pub(crate) fn start(&mut self, thread: ThreadId) {
        self.switch_to(thread);
    }

    /// Ends a kernel entry: decides which thread runs.
    pub(crate) fn leave(&mut self) {
        if core::mem::take(&mut self.scheduler.is_out_of_turn) {
            self.reschedule();
        }
        match self.scheduler.action {
            Action::Resume => return self.activate(),
            Action::ChooseNew => {
                self.requeue_current();
                self.choose();
            }
            Action::SwitchTo(thread) => {
                self.requeue_current();
                if self.is_current() { self.run_woken(thread) } else { self.switch_to(thread) }
            }
        }
        self.scheduler.action = Action::Resume;
        self.scheduler.generation += 1;
        self.activate();
    }

    /// Runs the first thread of the highest queue.
    fn choose(&mut self) {
        match self.scheduler.highest_queue() {
            Some(priority) => {
                let head = self.scheduler.queues[usize::from(priority)].head;
                self.switch_to(head.expect("a queue that is marked has a head"));
            }
            None => self.scheduler.current = None,
        }
    }

    /// Runs a thread that was woken alone in this entry, or puts it into its queue: behind an equal that runs.
    fn run_woken(&mut self, woken: ThreadId) {
        let priority = self.threads[woken].priority;
        let running = self.current().map(|current| (self.threads[current].priority, self.is_runnable(current)));
        if running == Some((priority, true)) {
            if !self.threads[woken].is_ready {
                self.ready_append(woken);
            }
            return self.choose();
        }
        let is_below = running.is_none_or(|(own, _)| priority < own);
        if is_below && self.scheduler.highest_queue().is_some_and(|highest| priority < highest) {
            self.ready_push(woken);
            return self.choose();
        }
        self.switch_to(woken);
    }

    fn requeue_current(&mut self) {
        if let Some(current) = self.current().filter(|current| self.is_runnable(*current)) {
            self.ready_push(current);
        }
    }

    fn switch_to(&mut self, thread: ThreadId) {
        self.ready_remove(thread);
        self.scheduler.current = Some(thread);
        self.scheduler.generation += 1;
        self.activate();
    }

    /// Completes the restart of the thread that runs now.
    fn activate(&mut self) {
        if let Some(current) = self.current() {
            let state = &mut self.threads[current].state;
            if *state == ThreadState::Restart {
                *state = ThreadState::Running;
            }
        }
    }

    /// Sets a thread's state, and chooses another thread when the running one cannot continue.
    pub(crate) fn set_state(&mut self, thread: ThreadId, state: ThreadState) {
        self.threads[thread].state = state;
        let stops = self.current() == Some(thread) && !state.is_runnable();
        if stops && self.scheduler.action == Action::Resume {
            self.reschedule();
        }
    }

    /// Makes a woken thread ready: it runs at the end of this entry if its priority allows.
    pub(crate) fn wake(&mut self, thread: ThreadId, on_equal: OnEqual) {
        if self.is_current() {
            if self.scheduler.action == Action::Resume {
                self.scheduler.action = Action::SwitchTo(thread);
                return;
            }
            self.reschedule();
            return self.ready_push(thread);
        }
        let own = self.current().map_or(0, |current| self.threads[current].priority);
        let woken = self.threads[thread].priority;
        let takes_over = woken > own || woken == own && on_equal == OnEqual::Switch;
        let action = self.scheduler.action;
        if takes_over && action == Action::Resume {
            self.scheduler.action = Action::SwitchTo(thread);
        } else {
            self.ready_push(thread);
        }
        if let Action::SwitchTo(_) = action {
            self.reschedule();
        }
    }

    /// Lets the queues decide which thread runs.
    pub(crate) fn reschedule(&mut self) {
        if let Action::SwitchTo(thread) = self.scheduler.action {
            self.ready_push(thread);
        }
        self.scheduler.action = Action::ChooseNew;
    }

    pub(crate) fn set_priority(&mut self, thread: ThreadId, priority: u8) {
        self.ready_remove(thread);
        self.threads[thread].priority = priority;
        if self.is_runnable(thread) {
            match self.current() {
                Some(current) if self.is_current() && current != thread => return self.wake(thread, OnEqual::Stay),
                _ => self.ready_push(thread),
            }
        }
        if self.current() == Some(thread) {
            self.reschedule();
        }
    }

    /// Puts a thread before all of its priority.
    pub(crate) fn ready_push(&mut self, thread: ThreadId) {
        let links = &mut self.threads[thread];
        if links.is_ready {
            return;
        }
        let priority = links.priority;
        let queue = &mut self.scheduler.queues[usize::from(priority)];
        links.is_ready = true;
        links.ready_prev = None;
        links.ready_next = queue.head;
        let behind = queue.head.replace(thread);
        if behind.is_none() {
            queue.tail = Some(thread);
        }
        if let Some(behind) = behind {
            self.threads[behind].ready_prev = Some(thread);
        }
        self.mark(priority);
    }

    /// Puts a thread behind all of its priority.
    fn ready_append(&mut self, thread: ThreadId) {
        self.ready_remove(thread);
        let links = &mut self.threads[thread];
        let priority = links.priority;
        let queue = &mut self.scheduler.queues[usize::from(priority)];
        links.is_ready = true;
        links.ready_next = None;
        links.ready_prev = queue.tail;
        let before = queue.tail.replace(thread);
        if before.is_none() {
            queue.head = Some(thread);
        }
        if let Some(before) = before {
            self.threads[before].ready_next = Some(thread);
        }
        self.mark(priority);
    }

    /// Takes a thread out of its queue if it is in it.
    pub(crate) fn ready_remove(&mut self, thread: ThreadId) {
        let links = &mut self.threads[thread];
        if !core::mem::take(&mut links.is_ready) {
            return;
        }
        let (priority, prev, next) = (links.priority, links.ready_prev.take(), links.ready_next.take());
        let queue = &mut self.scheduler.queues[usize::from(priority)];
        if prev.is_none() {
            queue.head = next;
        }
        if next.is_none() {
            queue.tail = prev;
        }
        if let Some(prev) = prev {
            self.threads[prev].ready_next = next;
        }
        if let Some(next) = next {
            self.threads[next].ready_prev = prev;
        }
        self.mark(priority);
    }

    fn mark(&mut self, priority: u8) {
        let scheduler = &mut self.scheduler;
        let (word, bit) = (usize::from(priority / 64), 1 << (priority % 64));
        match scheduler.queues[usize::from(priority)].head {
            Some(_) => scheduler.ready[word] |= bit,
            None => scheduler.ready[word] &= !bit,
        }
        scheduler.generation += 1;
    }
}
