//! The admin queue: one command at a time, for the control plane, and beside it requests for events and commands that nobody waits for.
//!
//! The data plane polls the admin completion queue whenever the server wakes; the control plane waits here for the
//! completion. A command that takes too long is a fault of the controller. A request for an event (Asynchronous Event Request, NVM
//! Express base specification 1.4, section 5.2) completes only when something happens, and has no limit. A command that nobody waits for
//! is submitted, and its completion taken later; its limit is its submitter's.

use crate::fault::DeviceFault;
use crate::queue_pair::{QueuePair, Ring};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
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

/// The admin queue pair, its one command, its requests for events, and commands that nobody waits for.
pub struct AdminQueue<M: Memory, R> {
    state: RefCell<State<M, R>>,
    done: Signal<NoopRawMutex, Result<Cqe, DeviceFault>>,
}

struct State<M: Memory, R> {
    pair: Option<QueuePair<M, R>>,
    /// The command in flight.
    waiting: Option<Cid>,
    /// Requests for events.
    event_requests: Vec<Cid>,
    /// Completions of such requests that were not taken.
    events: VecDeque<Cqe>,
    /// Commands in flight that nobody waits for.
    others: Vec<Cid>,
    /// Completions of such commands that were not taken.
    ended: VecDeque<Cqe>,
    last: Cid,
}

/// Completions that were found for those who do not wait for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// An event is there ([`AdminQueue::take_event`]).
    pub event: bool,
    /// A command that nobody waits for has ended ([`AdminQueue::take_ended`]).
    pub ended: bool,
}

impl<M: Memory, R> Default for AdminQueue<M, R> {
    fn default() -> Self {
        let (event_requests, events) = (Vec::new(), VecDeque::new());
        let (others, ended) = (Vec::new(), VecDeque::new());
        let state = State { pair: None, waiting: None, event_requests, events, others, ended, last: Cid(0) };
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
        let State { pair: _, waiting, event_requests, events, others, ended, last: _ } = &mut *state;
        *waiting = None;
        event_requests.clear();
        events.clear();
        others.clear();
        ended.clear();
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

    /// Has `count` requests for events at the controller, if there is no fault.
    ///
    /// # Errors
    /// Whatever is wrong with the queue.
    pub fn request_events(&self, count: u8) -> Result<(), DeviceFault> {
        let mut state = self.state.borrow_mut();
        while state.event_requests.len() < usize::from(count) {
            let cid = state.next_cid();
            state.event_requests.push(cid);
            state.submit(&admin::async_event_request(cid))?;
        }
        Ok(())
    }

    /// Takes the completion of a request for an event, the oldest first.
    pub fn take_event(&self) -> Option<Cqe> {
        self.state.borrow_mut().events.pop_front()
    }

    /// Submits a command that nobody waits for, and returns its identifier. Its submitter bounds the number of them.
    ///
    /// # Errors
    /// Whatever is wrong with the queue.
    pub fn submit_other(&self, sqe: &Sqe) -> Result<Cid, DeviceFault> {
        let mut state = self.state.borrow_mut();
        let cid = state.next_cid();
        state.others.push(cid);
        state.submit(&sqe.with_cid(cid))?;
        Ok(cid)
    }

    /// Takes the completion of a command that nobody waits for, the oldest first.
    pub fn take_ended(&self) -> Option<Cqe> {
        self.state.borrow_mut().ended.pop_front()
    }

    /// Gives up the command in flight, if there is one, because the controller failed.
    pub fn fail_command(&self, fault: DeviceFault) {
        if self.state.borrow_mut().waiting.take().is_some() {
            self.done.signal(Err(fault));
        }
    }

    /// Polls for completions, on behalf of the data plane.
    ///
    /// # Errors
    /// Whatever is wrong with the queue, if no command waits that it could be told to.
    pub fn poll(&self) -> Result<Found, DeviceFault> {
        let mut state = self.state.borrow_mut();
        if state.waiting.is_none() && state.event_requests.is_empty() && state.others.is_empty() {
            return Ok(Found::default());
        }
        let waits = state.waiting.is_some();
        match state.poll() {
            Ok(None) => {}
            Ok(Some(cqe)) => self.done.signal(Ok(cqe)),
            Err(fault) if waits => self.done.signal(Err(fault)),
            Err(fault) => return Err(fault),
        }
        Ok(Found { event: !state.events.is_empty(), ended: !state.ended.is_empty() })
    }
}

impl<M: Memory, R: Mmio> State<M, R> {
    /// An identifier that no command in flight has.
    fn next_cid(&mut self) -> Cid {
        loop {
            self.last = self.last.next();
            let State { waiting, event_requests, others, last, .. } = &*self;
            if *waiting != Some(*last) && !event_requests.contains(last) && !others.contains(last) {
                return *last;
            }
        }
    }

    fn submit(&mut self, sqe: &Sqe) -> Result<(), DeviceFault> {
        let pair = self.pair.as_mut().ok_or(DeviceFault::OwnMemory)?;
        pair.submit(sqe);
        pair.ring().map(drop)
    }

    /// Returns the completion of the command that is waited for. Others are kept.
    fn poll(&mut self) -> Result<Option<Cqe>, DeviceFault> {
        let (Some(pair), mut found) = (self.pair.as_mut(), None) else { return Ok(None) };
        while let Some(cqe) = pair.complete_with_result()? {
            pair.ring_head()?;
            let cid = cqe.cid();
            if take(&mut self.event_requests, cid) {
                self.events.push_back(cqe);
            } else if take(&mut self.others, cid) {
                self.ended.push_back(cqe);
            } else if self.waiting.take() == Some(cid) {
                found = Some(cqe);
            } else {
                return Err(DeviceFault::UnknownCommand(cid.0));
            }
        }
        Ok(found)
    }
}

/// Takes `cid` out of the list; returns whether it was there.
fn take(cids: &mut Vec<Cid>, cid: Cid) -> bool {
    let place = cids.iter().position(|one| *one == cid);
    place.map(|place| cids.swap_remove(place)).is_some()
}
