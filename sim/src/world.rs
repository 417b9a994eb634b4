//! The world: virtual time, the one processor, and what happens when.
//!
//! A component runs on a stack of its own ([`crate::coroutine`]) until something it does lets another thread go first: it
//! waits, its time slice ends, or somebody more urgent wakes up. Each thing it does comes here first ([`World::enter`]):
//! it costs virtual time, what devices do by then happens, then it is done on the models; and behind it ([`World::leave`])
//! the processor may change hands, exactly where the kernel could take it. Every choice is drawn from one generator.

use crate::costs::Costs;
use crate::machine::Machine;
use crate::observer::Observer;
use crate::trace::{Entry, Kind, Trace};
use crate::{components, coroutine};
use capdl::ThreadOrder;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sim_kernel::{Kernel, ThreadId};
use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A thread's time slice: five ticks of 2 ms, as seL4 is configured.
const SLICE_NS: u64 = 10_000_000;

/// Percent: nothing is slowed.
const FULL_PACE: u64 = 100;

/// One simulated machine and everything in it. One operating system thread's alone.
pub(crate) struct World {
    state: RefCell<State>,
    costs: Costs,
}

/// What changes.
pub(crate) struct State {
    pub(crate) kernel: Kernel,
    pub(crate) machine: Machine,
    pub(crate) now_ns: u64,
    pub(crate) trace: Trace,
    pub(crate) observer: Observer,
    order: ThreadOrder,
    /// What is left of their time slices to threads that do not run, in seL4's order.
    slices: BTreeMap<ThreadId, u64>,
    draws: Pcg64Mcg,
    /// When a device has something to do next; beyond all time when none has.
    due_ns: u64,
    /// Who has the processor.
    running: Option<ThreadId>,
    /// How long what it does takes, in percent.
    pace: u64,
    /// Threads that are slowed, and to what.
    slowed: BTreeMap<ThreadId, u64>,
    slice_end_ns: u64,
    /// The scheduler's generation when the running thread was last found to be the one that may run.
    seen: u64,
}

/// What the processor did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to do.
    Running,
    /// Nobody runs and nothing will ever happen.
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

    /// What things cost.
    pub(crate) const fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Virtual time; zero for whoever asks in the middle of something.
    pub(crate) fn time_ns(&self) -> u64 {
        self.state.try_borrow().map_or(0, |state| state.now_ns)
    }

    /// The state as it is, for looking.
    pub(crate) fn view(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    /// The state as it is, from outside of all components.
    pub(crate) fn outside(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// The running component does something that takes `cost_ns`.
    #[inline]
    pub(crate) fn enter(&self, cost_ns: u64) -> RefMut<'_, State> {
        let mut state = self.state.borrow_mut();
        // Whoever is slowed takes as many times as long.
        state.now_ns += if state.pace == FULL_PACE { cost_ns } else { cost_ns * state.pace / FULL_PACE };
        if state.now_ns >= state.due_ns {
            state.happen(self.costs.interrupt_ns);
        }
        state
    }

    /// It has done it: whoever may run now, runs. Comes back when it is `thread`'s turn again. Inlined, as every access to
    /// memory ends with it.
    #[inline(always)]
    pub(crate) fn leave(&self, mut state: RefMut<'_, State>, thread: ThreadId) {
        let must_switch = state.must_switch(thread);
        drop(state);
        if must_switch {
            coroutine::suspend();
        }
    }

    /// `thread` waits: comes back with what `done` finds.
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

    /// Lets the processor run until `until_ns` of virtual time.
    pub(crate) fn run(self: &Rc<Self>, components: &mut components::Components, until_ns: u64) -> Progress {
        loop {
            let thread = {
                let mut state = self.state.borrow_mut();
                if state.now_ns >= until_ns {
                    return Progress::Running;
                }
                if state.kernel.halted().is_some() {
                    return Progress::Quiet;
                }
                match state.pick() {
                    Some(thread) => thread,
                    None if state.due_ns == u64::MAX => return Progress::Quiet,
                    None if state.due_ns > until_ns => {
                        state.now_ns = until_ns;
                        return Progress::Running;
                    }
                    None => {
                        state.now_ns = state.now_ns.max(state.due_ns);
                        state.happen(self.costs.interrupt_ns);
                        continue;
                    }
                }
            };
            components.resume(self, thread);
        }
    }
}

impl State {
    /// All that devices do up to now; each interrupt takes its time.
    #[cold]
    fn happen(&mut self, interrupt_ns: u64) {
        while self.machine.next_event_ns().is_some_and(|due| due <= self.now_ns) {
            let State { machine, kernel, trace, observer, now_ns, .. } = self;
            let interrupts = machine.advance(*now_ns, kernel, trace, observer);
            self.now_ns += interrupts * interrupt_ns;
        }
        self.poll_devices();
    }

    /// A device was touched: what it will do next may be another thing.
    pub(crate) fn poll_devices(&mut self) {
        self.due_ns = self.machine.next_event_ns().unwrap_or(u64::MAX);
    }

    /// From now on what `thread` does takes `percent` of the time.
    pub(crate) fn slow(&mut self, thread: ThreadId, percent: u32) {
        self.slowed.insert(thread, u64::from(percent));
        if self.running == Some(thread) {
            self.pace = u64::from(percent);
        }
    }

    /// Notes what the running thread did.
    pub(crate) fn note(&mut self, thread: ThreadId, kind: Kind, value: u64) {
        self.trace.note(Entry { at_ns: self.now_ns, thread: thread.number(), kind, value });
    }

    /// A number below `bound`, drawn.
    pub(crate) fn draw(&mut self, bound: u64) -> u64 {
        // The bias of a remainder is beyond notice for bounds this small.
        self.draws.next_u64() % bound.max(1)
    }

    /// The run is over: the checkers look a last time.
    pub(crate) fn finish(&mut self) {
        self.observer.finish(&self.machine, &self.kernel, self.now_ns);
    }

    /// Whether somebody else than `thread`, which runs, is to run now.
    #[inline]
    fn must_switch(&mut self, thread: ThreadId) -> bool {
        let slice_over = self.now_ns >= self.slice_end_ns;
        let nothing_changed = self.kernel.generation() == self.seen && !slice_over;
        !nothing_changed && self.has_to_yield(thread, slice_over)
    }

    /// As [`State::must_switch`], by who is ready.
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

    /// What `thread` has of its time slice, as it runs next. On seL4 a thread keeps what is left of it when a more urgent one
    /// runs: otherwise the first of its queue would run for ever where those above it run often.
    fn change_slices(&mut self, thread: ThreadId) -> u64 {
        if self.order == ThreadOrder::Drawn {
            return SLICE_NS;
        }
        if let Some(before) = self.running {
            self.slices.insert(before, self.slice_end_ns.saturating_sub(self.now_ns));
        }
        self.slices.remove(&thread).unwrap_or(SLICE_NS)
    }

    /// The first of the kernel's queue; one that has used up its time slice, and waited since, goes behind the others first.
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

    /// The thread that runs next: one of the most urgent, drawn or the first in the kernel's queue.
    fn pick(&mut self) -> Option<ThreadId> {
        let priority = self.kernel.highest_runnable()?;
        let thread = match self.order {
            ThreadOrder::Sel4 => self.first_of(priority)?,
            ThreadOrder::Drawn => {
                let mut waiting = self.kernel.runnable_at(priority);
                let (first, others) = (waiting.next()?, waiting.count() as u64);
                // Mostly one alone is ready, and nothing is drawn.
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
