//! The admin queue: one command at a time, for the control plane, and beside it a request for an event.
//!
//! The data plane polls the admin completion queue whenever the server wakes; the control plane waits here for the
//! completion. A command that takes too long is a fault of the controller. A request for an event (Asynchronous Event Request, NVM
//! Express base specification 1.4, section 5.2) completes only when something happens, and has no limit.

use crate::fault::DeviceFault;
use crate::queue_pair::{QueuePair, Ring};
use core::cell::RefCell;
use embassy_futures::select::{Either, select};
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embassy_sync::signal::Signal;
use nvme_spec::admin::Opcode;
use nvme_spec::{Cid, Cqe, Sqe, admin};
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

/// The admin queue pair, its one command, and its request for an event.
pub struct AdminQueue<M: Memory, R> {
    state: RefCell<State<M, R>>,
    done: Signal<NoopRawMutex, Result<Cqe, DeviceFault>>,
}

struct State<M: Memory, R> {
    pair: Option<QueuePair<M, R>>,
    /// The command in flight.
    waiting: Option<Cid>,
    /// The request for an event.
    event_request: Option<Cid>,
    /// The completion of that request.
    event: Option<Cqe>,
    /// Events since the start.
    events: u16,
    last: Cid,
}

impl<M: Memory, R> Default for AdminQueue<M, R> {
    fn default() -> Self {
        let state = State { pair: None, waiting: None, event_request: None, event: None, events: 0, last: Cid(0) };
        Self { state: RefCell::new(state), done: Signal::new() }
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
        (state.waiting, state.event_request) = (None, None);
        (state.event, state.events) = (None, 0);
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
        let cid = state.next_cid();
        state.waiting = Some(cid);
        // Discards a late completion of an earlier command that was given up.
        self.done.reset();
        let sqe = build(cid);
        state.submit(&sqe)?;
        Ok(limit_seconds(&sqe))
    }

    /// Requests the next event.
    ///
    /// # Errors
    /// Whatever is wrong with the queue.
    pub fn request_event(&self) -> Result<(), DeviceFault> {
        let mut state = self.state.borrow_mut();
        let cid = state.next_cid();
        state.event_request = Some(cid);
        state.submit(&admin::async_event_request(cid))
    }

    /// Takes the completion of the request for an event, and the number of these since the start.
    pub fn take_event(&self) -> Option<(Cqe, u16)> {
        let mut state = self.state.borrow_mut();
        state.event.take().map(|cqe| (cqe, state.events))
    }

    /// Gives up the command in flight, if there is one, because the controller failed.
    pub fn fail_command(&self, fault: DeviceFault) {
        if self.state.borrow_mut().waiting.take().is_some() {
            self.done.signal(Err(fault));
        }
    }

    /// Polls for a completion, on behalf of the data plane. Returns whether there is an event.
    ///
    /// # Errors
    /// Whatever is wrong with the queue, if no command waits that it could be told to.
    pub fn poll(&self) -> Result<bool, DeviceFault> {
        let mut state = self.state.borrow_mut();
        if state.waiting.is_none() && state.event_request.is_none() {
            return Ok(false);
        }
        let waits = state.waiting.is_some();
        match state.poll() {
            Ok(None) => {}
            Ok(Some(cqe)) => self.done.signal(Ok(cqe)),
            Err(fault) if waits => self.done.signal(Err(fault)),
            Err(fault) => return Err(fault),
        }
        Ok(state.event.is_some())
    }
}

impl<M: Memory, R: Mmio> State<M, R> {
    /// An identifier that no command in flight has.
    fn next_cid(&mut self) -> Cid {
        self.last = self.last.next();
        if self.event_request == Some(self.last) {
            self.last = self.last.next();
        }
        self.last
    }

    fn submit(&mut self, sqe: &Sqe) -> Result<(), DeviceFault> {
        let pair = self.pair.as_mut().ok_or(DeviceFault::OwnMemory)?;
        pair.submit(sqe);
        pair.ring().map(drop)
    }

    /// Returns the completion of the command in flight. That of the request for an event is kept.
    fn poll(&mut self) -> Result<Option<Cqe>, DeviceFault> {
        let Some(pair) = self.pair.as_mut() else { return Ok(None) };
        while let Some(cqe) = pair.complete_with_result()? {
            pair.ring_head()?;
            let cid = Some(cqe.cid());
            if self.event_request == cid {
                (self.event_request, self.event) = (None, Some(cqe));
                self.events = self.events.saturating_add(1);
                continue;
            }
            if self.waiting.take() != cid {
                return Err(DeviceFault::UnknownCommand(cqe.cid().0));
            }
            return Ok(Some(cqe));
        }
        Ok(None)
    }
}
