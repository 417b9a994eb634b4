//! The world: virtual time, the one processor, and the order of events.
//!
//! A component runs on a stack of its own ([`crate::coroutine`]) until it waits, its time slice ends, or a more urgent
//! thread wakes up. Each of its operations first calls [`World::enter`]: virtual time passes, and devices do what is due by
//! then. After that the operation is carried out on the models. At its end, in [`World::leave`], another thread may get
//! the processor, exactly where the kernel could take it. Every choice is drawn from one generator.

use crate::coroutine;
use crate::costs::Costs;
use crate::machine::Machine;
use crate::observer::Observer;
use crate::trace::{Entry, Kind, Trace};
use capdl::ThreadOrder;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sim_kernel::{Kernel, ThreadId};
use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A thread's time slice: five ticks of 2 ms, as seL4 is configured.
const SLICE_NS: u64 = 10_000_000;

/// Percentage at which a thread is not slowed.
const FULL_PACE: u64 = 100;

/// A simulated machine and everything in it. It belongs to one thread of the build machine.
pub(crate) struct World {
    state: RefCell<State>,
    costs: Costs,
}

/// The part of the world that changes.
pub(crate) struct State {
    pub(crate) kernel: Kernel,
    pub(crate) machine: Machine,
    pub(crate) now_ns: u64,
    /// Time in which the processor had nothing to do.
    idle_ns: u64,
    /// The markers that components passed.
    pub(crate) marks: Vec<Mark>,
    pub(crate) trace: Trace,
    pub(crate) observer: Observer,
    order: ThreadOrder,
    /// The rest of the time slices of threads that do not run, in seL4's order.
    slices: BTreeMap<ThreadId, u64>,
    draws: Pcg64Mcg,
    /// Time of the next event of a device; `u64::MAX` when there is none.
    due_ns: u64,
    /// The thread that has the processor.
    running: Option<ThreadId>,
    /// Duration of the running thread's operations, in percent of their costs.
    pace: u64,
    /// Threads that are slowed, and their percentage.
    slowed: BTreeMap<ThreadId, u64>,
    slice_end_ns: u64,
    /// The scheduler's generation when the running thread was last confirmed to be the one that may run.
    seen: u64,
}

/// A marker that a component passed (`Platform::marker`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The mark's id (`platform::marker`).
    pub id: u8,
    /// Virtual time.
    pub at_ns: u64,
    /// Time until then in which the processor had nothing to do.
    pub idle_ns: u64,
}

/// The state of the processor after a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to do.
    Running,
    /// No thread runs, and no event is due any more.
    Quiet,
}

impl World {
    pub(crate) fn new(
        kernel: Kernel,
        machine: Machine,
        observer: Observer,
        costs: Costs,
        order: ThreadOrder,
        seed: u64,
    ) -> Rc<Self> {
        let state = State {
            kernel,
            machine,
            now_ns: 0,
            idle_ns: 0,
            marks: Vec::new(),
            trace: Trace::new(),
            observer,
            order,
            slices: BTreeMap::new(),
            draws: Pcg64Mcg::seed_from_u64(seed),
            due_ns: 0,
            running: None,
            pace: FULL_PACE,
            slowed: BTreeMap::new(),
            slice_end_ns: 0,
            seen: 0,
        };
        Rc::new(Self { state: RefCell::new(state), costs })
    }

    /// Returns the costs in virtual time.
    pub(crate) const fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Returns virtual time; zero when called in the middle of an operation.
    pub(crate) fn time_ns(&self) -> u64 {
        self.state.try_borrow().map_or(0, |state| state.now_ns)
    }

    /// Borrows the state for reading.
    pub(crate) fn view(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    /// Borrows the state outside of all components.
    pub(crate) fn outside(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Begins an operation of the running component that takes `cost_ns`.
    #[inline]
    pub(crate) fn enter(&self, cost_ns: u64) -> RefMut<'_, State> {
        let mut state = self.state.borrow_mut();
        // A slowed thread takes `pace` percent of the time.
        state.now_ns += if state.pace == FULL_PACE { cost_ns } else { cost_ns * state.pace / FULL_PACE };
        if state.now_ns >= state.due_ns {
            state.happen(self.costs.interrupt_ns);
        }
        state
    }

    /// Ends the operation. If another thread must run now, returns when it is `thread`'s turn again. Inlined, since every
    /// access to memory ends with it.
    #[inline(always)]
    pub(crate) fn leave(&self, mut state: RefMut<'_, State>, thread: ThreadId) {
        let must_switch = state.must_switch(thread);
        drop(state);
        if must_switch {
            coroutine::suspend();
        }
    }

    /// Blocks `thread` until `done` returns a value, and returns that.
    pub(crate) fn block<R>(&self, thread: ThreadId, mut done: impl FnMut(&mut State) -> Option<R>) -> Option<R> {
        loop {
            let mut state = self.state.borrow_mut();
            let result = done(&mut state);
            if result.is_some() {
                self.leave(state, thread);
                return result;
            }
            drop(state);
            if coroutine::is_dying() {
                return None;
            }
            coroutine::suspend();
        }
    }

    /// Lets virtual time pass until a thread runs next, which is returned.
    ///
    /// # Errors
    /// The state of the processor when `until_ns` is reached first, or no thread will run.
    pub(crate) fn next_thread(&self, until_ns: u64) -> Result<ThreadId, Progress> {
        let mut state = self.state.borrow_mut();
        loop {
            if state.now_ns >= until_ns {
                return Err(Progress::Running);
            }
            if state.kernel.halted().is_some() {
                return Err(Progress::Quiet);
            }
            match state.pick() {
                Some(thread) => return Ok(thread),
                None if state.due_ns == u64::MAX => return Err(Progress::Quiet),
                None if state.due_ns > until_ns => {
                    state.idle_until(until_ns);
                    return Err(Progress::Running);
                }
                None => {
                    let due_ns = state.due_ns;
                    state.idle_until(due_ns);
                    state.happen(self.costs.interrupt_ns);
                }
            }
        }
    }
}

impl State {
    /// Carries out all events of devices up to now; each interrupt takes its time.
    #[cold]
    fn happen(&mut self, interrupt_ns: u64) {
        while self.machine.next_event_ns().is_some_and(|due| due <= self.now_ns) {
            let State { machine, kernel, trace, observer, now_ns, .. } = self;
            let interrupts = machine.advance(*now_ns, kernel, trace, observer);
            self.now_ns += interrupts * interrupt_ns;
        }
        self.poll_devices();
    }

    /// Updates the time of the next event, after a component has accessed a device.
    pub(crate) fn poll_devices(&mut self) {
        self.due_ns = self.machine.next_event_ns().unwrap_or(u64::MAX);
    }

    /// Slows `thread`: its further operations take `percent` of their time.
    pub(crate) fn slow(&mut self, thread: ThreadId, percent: u32) {
        self.slowed.insert(thread, u64::from(percent));
        if self.running == Some(thread) {
            self.pace = u64::from(percent);
        }
    }

    /// Records an event of the running thread.
    pub(crate) fn note(&mut self, thread: ThreadId, kind: Kind, value: u64) {
        self.trace.note(Entry { at_ns: self.now_ns, thread: thread.number(), kind, value });
    }

    /// Lets the processor idle until then, if that is not past.
    const fn idle_until(&mut self, until_ns: u64) {
        let idle_ns = until_ns.saturating_sub(self.now_ns);
        self.idle_ns += idle_ns;
        self.now_ns += idle_ns;
    }

    /// Records that a component passed the marker `id`.
    pub(crate) fn mark(&mut self, id: u8) {
        let Self { now_ns: at_ns, idle_ns, .. } = *self;
        self.marks.push(Mark { id, at_ns, idle_ns });
    }

    /// Draws a number below `bound`.
    pub(crate) fn draw(&mut self, bound: u64) -> u64 {
        // The bias of a remainder is beyond notice for bounds this small.
        self.draws.next_u64() % bound.max(1)
    }

    /// Ends the run with a last check by the checkers.
    pub(crate) fn finish(&mut self) {
        self.observer.finish(&self.machine, &self.kernel, self.now_ns);
    }

    /// Whether a thread other than `thread`, which runs, must run now.
    #[inline]
    fn must_switch(&mut self, thread: ThreadId) -> bool {
        let slice_over = self.now_ns >= self.slice_end_ns;
        let nothing_changed = self.kernel.generation() == self.seen && !slice_over;
        !nothing_changed && self.has_to_yield(thread, slice_over)
    }

    /// Decides [`State::must_switch`] by the threads that are ready.
    #[inline(never)]
    fn has_to_yield(&mut self, thread: ThreadId, slice_over: bool) -> bool {
        if !self.kernel.is_runnable(thread) {
            return true;
        }
        let own = self.kernel.priority(thread);
        if self.kernel.highest_runnable().is_some_and(|highest| highest > own) {
            return true;
        }
        if slice_over {
            self.kernel.rotate(thread);
            self.slice_end_ns = self.now_ns.saturating_add(SLICE_NS);
            return true;
        }
        self.seen = self.kernel.generation();
        false
    }

    /// Returns the rest of `thread`'s time slice, as it runs next. On seL4 a thread keeps that rest when a more urgent one
    /// runs: otherwise the first of its queue would run for ever where more urgent ones run often.
    fn change_slices(&mut self, thread: ThreadId) -> u64 {
        if self.order == ThreadOrder::Drawn {
            return SLICE_NS;
        }
        if let Some(before) = self.running {
            self.slices.insert(before, self.slice_end_ns.saturating_sub(self.now_ns));
        }
        self.slices.remove(&thread).unwrap_or(SLICE_NS)
    }

    /// Returns the first thread of the kernel's queue. A thread that has used up its time slice, and waited since, first goes to the end.
    fn first_of(&mut self, priority: u8) -> Option<ThreadId> {
        loop {
            let thread = self.kernel.runnable_at(priority).next()?;
            if self.slices.get(&thread) != Some(&0) {
                return Some(thread);
            }
            self.slices.remove(&thread);
            self.kernel.requeue(thread);
        }
    }

    /// Returns the thread that runs next: one of the most urgent, drawn or the first in the kernel's queue.
    fn pick(&mut self) -> Option<ThreadId> {
        let priority = self.kernel.highest_runnable()?;
        let thread = match self.order {
            ThreadOrder::Sel4 => self.first_of(priority)?,
            ThreadOrder::Drawn => {
                let mut waiting = self.kernel.runnable_at(priority);
                let (first, others) = (waiting.next()?, waiting.count() as u64);
                // Mostly only one thread is ready, and nothing is drawn.
                if others == 0 {
                    first
                } else {
                    let chosen = self.draw(others + 1);
                    self.kernel.runnable_at(priority).nth(chosen as usize)?
                }
            }
        };
        if self.running != Some(thread) {
            let left_ns = self.change_slices(thread);
            self.running = Some(thread);
            self.pace = self.slowed.get(&thread).copied().unwrap_or(FULL_PACE);
            self.slice_end_ns = self.now_ns.saturating_add(left_ns);
            self.note(thread, Kind::Runs, u64::from(priority));
        }
        self.seen = self.kernel.generation();
        Some(thread)
    }
}
