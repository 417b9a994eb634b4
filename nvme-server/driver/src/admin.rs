//! The admin queue: one command at a time, for the control plane.
//!
//! The data plane polls the admin completion queue whenever the server wakes; the control plane waits here for the
//! completion. A command that takes too long is a fault of the controller.

use crate::fault::DeviceFault;
use crate::queue_pair::{QueuePair, Ring};
use core::cell::RefCell;
use embassy_futures::select::{Either, select};
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embassy_sync::signal::Signal;
use nvme_spec::admin::Opcode;
use nvme_spec::{Cid, Cqe, Sqe};
use platform::{Memory, Mmio, Platform};

/// Entries of the admin queues: one page of SQEs.
pub const ENTRIES: u16 = 64;

/// The time an administrative command may take, seconds: one that creates, deletes or aborts, for which sessions wait.
const LIMIT_SECONDS: u64 = 10;
/// The same for Identify and for features: a controller may rebuild its tables before it answers the first ones. The standard has
/// no limit; drivers allow a minute.
const IDENTIFY_LIMIT_SECONDS: u64 = 60;

/// Seconds that an administrative command may take.
#[must_use]
pub const fn limit_seconds(sqe: &Sqe) -> u64 {
    match Opcode::from_raw(sqe.opcode()) {
        Some(Opcode::Identify | Opcode::SetFeatures | Opcode::GetFeatures) => IDENTIFY_LIMIT_SECONDS,
        _ => LIMIT_SECONDS,
    }
}

/// The supervisor's tick, as the control plane waits for it.
pub type Tick = Signal<NoopRawMutex, ()>;

/// The admin queue pair and its one command.
pub struct AdminQueue<M: Memory, R> {
    state: RefCell<State<M, R>>,
    done: Signal<NoopRawMutex, Result<Cqe, DeviceFault>>,
}

struct State<M: Memory, R> {
    pair: Option<QueuePair<M, R>>,
    /// The command in flight.
    waiting: Option<Cid>,
    last: Cid,
}

impl<M: Memory, R> Default for AdminQueue<M, R> {
    fn default() -> Self {
        Self { state: RefCell::new(State { pair: None, waiting: None, last: Cid(0) }), done: Signal::new() }
    }
}

impl<M: Memory, R: Mmio> AdminQueue<M, R> {
    /// Without queues yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes its queues, the first time, or starts them again after a reset.
    pub fn start(
        &self,
        make: impl FnOnce() -> Result<QueuePair<M, R>, DeviceFault>,
    ) -> Result<(Ring<M>, Ring<M>), DeviceFault> {
        let mut state = self.state.borrow_mut();
        let mut pair = match state.pair.take() {
            Some(pair) => pair,
            None => make()?,
        };
        pair.reset()?;
        state.waiting = None;
        self.done.reset();
        let rings = (pair.sq.clone(), pair.cq.clone());
        state.pair = Some(pair);
        Ok(rings)
    }

    /// Submits `build`'s command and waits for its completion, at most as long as [`limit_seconds`] says.
    ///
    /// # Errors
    /// [`DeviceFault::Refused`] for a completion that is no success, and whatever is wrong with the queue.
    pub async fn execute<P: Platform>(
        &self,
        platform: &P,
        tick: &Tick,
        build: impl FnOnce(Cid) -> Sqe,
    ) -> Result<Cqe, DeviceFault> {
        let limit = platform.ticks_per_second().saturating_mul(self.submit(build)?);
        let deadline = platform.ticks().saturating_add(limit);
        loop {
            match select(self.done.wait(), tick.wait()).await {
                Either::First(outcome) => {
                    let cqe = outcome?;
                    let status = cqe.status();
                    return if status.is_success() { Ok(cqe) } else { Err(DeviceFault::Refused(status)) };
                }
                Either::Second(()) if platform.ticks() > deadline => return Err(DeviceFault::TimedOut),
                Either::Second(()) => {}
            }
        }
    }

    /// Returns the seconds that the command may take.
    fn submit(&self, build: impl FnOnce(Cid) -> Sqe) -> Result<u64, DeviceFault> {
        let mut state = self.state.borrow_mut();
        let State { pair, waiting, last } = &mut *state;
        *last = last.next();
        let cid = *last;
        *waiting = Some(cid);
        // Discards a late completion of an earlier command that was given up.
        self.done.reset();
        let pair = pair.as_mut().ok_or(DeviceFault::OwnMemory)?;
        let sqe = build(cid);
        pair.submit(&sqe);
        pair.ring()?;
        Ok(limit_seconds(&sqe))
    }

    /// Gives up the command in flight, if there is one, because the controller failed.
    pub fn give_up(&self, fault: DeviceFault) {
        if self.state.borrow_mut().waiting.take().is_some() {
            self.done.signal(Err(fault));
        }
    }

    /// Polls for the completion, on behalf of the data plane.
    pub fn poll(&self) {
        let mut state = self.state.borrow_mut();
        if state.waiting.is_none() {
            return;
        }
        match state.poll() {
            Ok(None) => {}
            Ok(Some(cqe)) => self.done.signal(Ok(cqe)),
            Err(fault) => self.done.signal(Err(fault)),
        }
    }
}

impl<M: Memory, R: Mmio> State<M, R> {
    fn poll(&mut self) -> Result<Option<Cqe>, DeviceFault> {
        let Some(pair) = self.pair.as_mut() else { return Ok(None) };
        let Some(cqe) = pair.complete_with_result()? else { return Ok(None) };
        pair.release()?;
        if self.waiting.take() != Some(cqe.cid()) {
            return Err(DeviceFault::UnknownCommand(cqe.cid().0));
        }
        Ok(Some(cqe))
    }
}
