//! The session as a device whose requests are futures.
//!
//! Requests are submitted when they are made. [`Device::run`] publishes them in batches, takes completions and waits,
//! while it drives the given future. Without it no request makes progress: a component waits in one place.
//!
//! Three events cost a request only time. When the server dies and is restarted, the session is opened again, and
//! unanswered requests are submitted again in their order ([`mod@reconnection`]). A request without a record at the server
//! is repeated once the record is there ([`misses`]). One without the controller's verdict is retried ([`retries`]).
//!
//! An order makes that safe: requests that change the same blocks are done in the order in which they were submitted,
//! each when the one before it is answered.

use crate::completion::{Completion, Means};
use crate::control::Control;
use crate::error::{Error, OpenError};
use crate::policy::Policy;
use crate::request::Request;
use crate::server::Server;
use crate::session::{Options, Session, give_back};
use crate::slots::{self, Slots, Ticket, segments};
use crate::window::{Part, Window};
use alloc::rc::Rc;
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::client_heap;
use blk_api::names;
use blk_api::request::{Entry, MAX_SEGMENTS, Opcode};
use blk_api::ring::Completed;
use blk_api::session::{Geometry, Refusal, Statistics};
use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use platform::{Cap, Environment, Notification, Platform, alarm};

mod misses;
mod reconnection;
mod retries;
mod waiting;

// A slot for each entry of the rings, and the waker of a task that waits for one.
const _: () = assert!(slots::SLOT_BYTES + size_of::<Waker>() <= client_heap::AN_ENTRY);

/// Seconds in which a function finishes its requests before the session is closed.
const FINISH_SECONDS: u64 = 5;

/// An open session. Clones are the same session.
pub struct Device<P: Platform> {
    shared: Rc<Shared<P>>,
}

/// The state that clones share.
struct Shared<P: Platform> {
    state: RefCell<State<P>>,
    control: Control<P>,
    window: Window<P::Memory>,
    geometry: Geometry,
    platform: P,
    options: Options,
    server: Rc<Server<P>>,
    policy: Option<Policy<P>>,
    means: Means,
    /// The rights to ask the supervisor for an alarm, by its length, if it has them.
    alarms: Vec<Cap<Notification>>,
}

impl<P: Platform> Clone for Device<P> {
    fn clone(&self) -> Self {
        Self { shared: Rc::clone(&self.shared) }
    }
}

struct State<P: Platform> {
    session: Session<P>,
    slots: Slots<P::Memory>,
    /// There is a policy component to ask for records.
    asks: bool,
    /// The device waits for a controller that is gone.
    waits: bool,
    /// The error that ended the session.
    over: Option<Error>,
    /// Time at which the alarm goes off that the supervisor was asked for, ticks; 0 for none.
    alarm_at: u64,
    /// Wakers of tasks that wait for a free slot. Never grows beyond its initial capacity.
    waiting_for_room: Vec<Waker>,
}

/// Result of polling the rings.
#[derive(PartialEq, Eq)]
enum PollResult {
    /// Completions or the session's end came: a waiting task was woken.
    News,
    /// No completion came.
    Nothing,
    /// No completion can come, because nothing is in flight.
    Idle,
}

impl<P: Platform> Device<P> {
    /// Opens the session that the environment's capability `server` names.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(platform: P, environment: &Environment, options: Options) -> Result<Self, OpenError> {
        let session = Session::open(platform.clone(), environment, options).await?;
        let geometry = *session.geometry();
        let window = Window::new(session.window().clone(), geometry.window_bytes);
        let (control, policy) = (session.control().clone(), session.policy().cloned());
        let server = Rc::clone(session.server());
        let state = State {
            session,
            slots: Slots::new(options.ring_entries, window.clone()),
            asks: policy.is_some(),
            waits: options.waits,
            over: None,
            alarm_at: 0,
            waiting_for_room: Vec::with_capacity(options.ring_entries as usize),
        };
        let lengths = alarm::CLIENT_US.iter().zip(0u32..);
        let alarms: Vec<_> = lengths.map_while(|(_, length)| environment.cap_at(names::ALARM, length)).collect();
        let has_alarms = alarms.len() == alarm::CLIENT_US.len();
        let on_virtual_function = state.session.virtual_function().is_some();
        let means = Means::new(platform.ticks_per_second(), options.polls, on_virtual_function, has_alarms);
        let state = RefCell::new(state);
        let shared = Shared { state, control, window, geometry, platform, options, server, policy, means, alarms };
        Ok(Self { shared: Rc::new(shared) })
    }

    /// The geometry and limits of the session.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    /// Whether the session has ended: every further request is refused.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.state.borrow().over.is_some()
    }

    /// The window, to lease ranges of.
    #[must_use]
    pub fn window(&self) -> &Window<P::Memory> {
        &self.shared.window
    }

    /// The options it was opened with.
    #[must_use]
    pub fn options(&self) -> Options {
        self.shared.options
    }

    /// Number of requests without a completion, including dropped ones.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.shared.state.borrow().slots.in_flight()
    }

    /// Number of retries of requests without the controller's verdict.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.shared.state.borrow().slots.retries()
    }

    /// Reads the blocks from `lba` on into `parts`, as many as these hold.
    pub fn read(&self, lba: u64, parts: &[Part<'_, P::Memory>]) -> Request<P> {
        self.transfer(Opcode::Read, lba, parts)
    }

    /// Writes `parts` onto the blocks from `lba` on.
    pub fn write(&self, lba: u64, parts: &[Part<'_, P::Memory>]) -> Request<P> {
        self.transfer(Opcode::Write, lba, parts)
    }

    /// Brings everything acknowledged before onto stable media.
    pub fn flush(&self) -> Request<P> {
        self.without_data(Opcode::Flush, 0, 0)
    }

    /// Discards the content of `blocks` blocks from `lba` on.
    pub fn discard(&self, lba: u64, blocks: u32) -> Request<P> {
        self.without_data(Opcode::Discard, lba, blocks)
    }

    /// Fills `blocks` blocks from `lba` on with zeroes.
    pub fn write_zeroes(&self, lba: u64, blocks: u32) -> Request<P> {
        self.without_data(Opcode::WriteZeroes, lba, blocks)
    }

    /// Has the device read `blocks` blocks from `lba` on, without moving them. Fails with [`Status::MediaError`] if it cannot read all of
    /// them, and with [`Status::Unsupported`] if the controller has no Verify.
    pub fn verify(&self, lba: u64, blocks: u32) -> Request<P> {
        self.without_data(Opcode::Verify, lba, blocks)
    }

    /// Has the device compare the blocks from `lba` on with `parts`. Fails with [`Status::CompareFailed`] if they differ, and with
    /// [`Status::Unsupported`] if the controller has no Compare. Blocks that a request in progress changes may compare either way.
    pub fn compare(&self, lba: u64, parts: &[Part<'_, P::Memory>]) -> Request<P> {
        self.transfer(Opcode::Compare, lba, parts)
    }

    /// The session's counters at the server.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::CLOSED`] when the server stays dead.
    pub async fn statistics(&self) -> Result<Statistics, Error> {
        loop {
            self.reconnect().await;
            match self.shared.control.statistics().await {
                Err(Refusal::NotOpen) if self.server_died() => {}
                answer => return Ok(answer?),
            }
        }
    }

    /// Writes of tail doorbells for this session, as [`Session::doorbells`].
    ///
    /// # Errors
    /// As [`Device::statistics`].
    pub async fn doorbells(&self) -> Result<u64, Error> {
        let own = self.shared.state.borrow().session.own_doorbells();
        match own {
            Some(doorbells) => Ok(doorbells),
            None => Ok(self.statistics().await?.doorbells),
        }
    }

    /// Closes the session. The server, or the session's own function, finishes its requests first. Requests without an answer then end with
    /// [`Status::Closed`], and so do those that still wait for an earlier change of their blocks or for a retry.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::CLOSED`] when the server stays dead.
    pub async fn close(&self) -> Result<(), Error> {
        let published = self.shared.state.borrow_mut().publish();
        if let Err(error) = published {
            self.shared.state.borrow_mut().end(error);
        }
        let function = self.shared.state.borrow().session.virtual_function();
        if let Some(pci) = function {
            self.finish().await;
            self.shared.state.borrow_mut().session.close_virtual_function();
            let closed = give_back(&self.shared.platform, pci).await;
            self.shared.state.borrow_mut().end(Error::CLOSED);
            return closed;
        }
        let closed = loop {
            self.reconnect().await;
            match self.shared.control.close().await {
                Err(Refusal::NotOpen) if self.server_died() => {}
                // The call was made twice: a component that it may have waited for died.
                Err(Refusal::NotOpen) if self.shared.state.borrow().over.is_none() => break Ok(()),
                answer => break answer.map_err(Error::from),
            }
        };
        let mut state = self.shared.state.borrow_mut();
        state.poll_ring(self.shared.options.ring_entries);
        state.end(Error::CLOSED);
        closed
    }

    /// Has the session's own function finish its requests, within a limit. A server does that itself.
    async fn finish(&self) {
        let Shared { state, platform, options, .. } = &*self.shared;
        let limit = platform.ticks_per_second().saturating_mul(FINISH_SECONDS);
        let deadline = platform.ticks().saturating_add(limit);
        while state.borrow_mut().poll_ring(options.ring_entries) != PollResult::Idle && platform.ticks() < deadline {
            platform.pause();
            platform.yield_now().await;
        }
    }

    /// Drives `work` and its requests. One call at a time.
    pub async fn run<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        let mut polls = self.shared.options.polls;
        let mut pause = pin!(self.pause(polls));
        loop {
            let turn = poll_fn(|context| {
                if self.server_died() || self.has_misses() {
                    return Poll::Ready(None);
                }
                let output = work.as_mut().poll(context);
                if output.is_pending() {
                    self.progress(context, pause.as_mut(), &mut polls, |polls| self.pause(polls));
                }
                output.map(Some)
            });
            match turn.await {
                Some(output) => return output,
                None => {
                    self.reconnect().await;
                    self.make_missed_again().await;
                }
            }
        }
    }

    #[inline]
    fn transfer(&self, opcode: Opcode, lba: u64, parts: &[Part<'_, P::Memory>]) -> Request<P> {
        const { assert!(MAX_SEGMENTS <= u8::MAX as usize, "a request counts its ranges in a byte") };
        let shift = self.shared.geometry.block_bytes.trailing_zeros();
        self.make(|entry| {
            entry.opcode = opcode as u8;
            entry.segment_count = parts.len() as u8;
            entry.lba = lba;
            let bytes = self.shared.window.hold(parts, &mut entry.segments).ok_or(Error::BadParts)?;
            // Five times 4 GiB in blocks of 512 bytes, at most.
            entry.blocks = (bytes >> shift) as u32;
            Ok(())
        })
    }

    fn without_data(&self, opcode: Opcode, lba: u64, blocks: u32) -> Request<P> {
        self.make(|entry| {
            entry.opcode = opcode as u8;
            entry.segment_count = 0;
            entry.blocks = blocks;
            entry.lba = lba;
            Ok(())
        })
    }

    /// Makes the request that `fill` writes into an entry, and submits it if there is room. `fill` must not change the user data.
    #[inline]
    fn make(&self, fill: impl Fn(&mut Entry) -> Result<(), Error>) -> Request<P> {
        let state = &mut *self.shared.state.borrow_mut();
        if let Some(error) = state.over {
            return Request::refused(self.clone(), error);
        }
        // Filled in the slot itself, without another copy.
        let Some(entry) = state.slots.next() else { return self.make_later(fill) };
        if let Err(error) = fill(entry) {
            return Request::refused(self.clone(), error);
        }
        match state.submit() {
            Ok(Some(ticket)) => Request::in_flight(self.clone(), ticket),
            Ok(None) => {
                let entry = state.slots.next().map_or_else(Entry::default, |entry| *entry);
                Request::unsubmitted(self.clone(), entry)
            }
            Err(error) => {
                state.slots.let_go_next();
                Request::refused(self.clone(), error)
            }
        }
    }

    /// Makes a request for which no slot is free.
    #[cold]
    fn make_later(&self, fill: impl Fn(&mut Entry) -> Result<(), Error>) -> Request<P> {
        let mut entry = Entry::default();
        match fill(&mut entry) {
            Ok(()) => Request::unsubmitted(self.clone(), entry),
            Err(error) => Request::refused(self.clone(), error),
        }
    }

    /// Submits the entry of a request that had no room, if there is some now. Where an earlier change of its blocks is not
    /// answered, the server receives it later.
    ///
    /// # Errors
    /// The error that ended the session.
    #[cold]
    pub(crate) fn submit_again(&self, entry: &Entry) -> Result<Option<Ticket>, Error> {
        let state = &mut *self.shared.state.borrow_mut();
        if let Some(error) = state.over {
            return Err(error);
        }
        let Some(next) = state.slots.next() else { return Ok(None) };
        *next = Entry { user_data: next.user_data, ..*entry };
        state.submit()
    }

    /// Has the completion of a request, submitted just now, awaited in this way.
    #[cold]
    #[inline(never)]
    pub(crate) fn await_by(&self, ticket: Ticket, completion: Completion) {
        let now = self.shared.platform.ticks();
        self.shared.state.borrow_mut().slots.await_by(ticket, completion, now);
    }

    /// Abandons the entry of a request that was not submitted: releases the leases that its segments are in.
    pub(crate) fn let_go(&self, entry: &Entry) {
        self.shared.window.let_go(segments(entry));
    }

    /// Wakes `context` when a slot may be free.
    pub(crate) fn wait_for_room(&self, context: &Context<'_>) {
        let waiting = &mut self.shared.state.borrow_mut().waiting_for_room;
        if waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            return;
        }
        if waiting.len() == waiting.capacity() {
            // Too many to remember: the task polls again.
            waiting.drain(..).for_each(Waker::wake);
        }
        waiting.push(context.waker().clone());
    }

    /// Returns the request's result if it is done.
    #[inline]
    pub(crate) fn poll(&self, ticket: Ticket, context: &Context<'_>) -> Poll<Result<(), Error>> {
        let state = &mut *self.shared.state.borrow_mut();
        if let Poll::Ready(completed) = state.slots.poll(ticket, context) {
            state.wake_for_room();
            return Poll::Ready(outcome(&completed));
        }
        match state.over {
            Some(error) => {
                state.slots.detach(ticket);
                Poll::Ready(Err(error))
            }
            None => Poll::Pending,
        }
    }

    /// Records that no task waits for the request any more.
    pub(crate) fn detach(&self, ticket: Ticket) {
        let state = &mut *self.shared.state.borrow_mut();
        state.slots.detach(ticket);
        state.wake_for_room();
    }
}

impl<P: Platform> State<P> {
    /// Begins and submits the request whose entry is in the next slot, if there is room.
    #[inline(always)]
    fn submit(&mut self) -> Result<Option<Ticket>, Error> {
        match self.slots.begin(&mut self.session) {
            Ok(submitted) => Ok(submitted),
            Err(error) => {
                self.end(error);
                Err(error)
            }
        }
    }

    /// Wakes the tasks that wait for a free slot.
    #[inline]
    fn wake_for_room(&mut self) {
        if !self.waiting_for_room.is_empty() {
            self.waiting_for_room.drain(..).for_each(Waker::wake);
        }
    }

    /// Publishes the submitted entries and takes at most `limit` completions.
    fn poll_ring(&mut self, limit: u32) -> PollResult {
        if self.over.is_some() {
            return PollResult::Idle;
        }
        match self.exchange(limit) {
            Ok(0) if self.slots.in_flight() == 0 => PollResult::Idle,
            Ok(0) => PollResult::Nothing,
            Ok(_) => {
                self.wake_for_room();
                PollResult::News
            }
            Err(error) => {
                self.end(error);
                PollResult::News
            }
        }
    }

    fn exchange(&mut self, limit: u32) -> Result<u32, Error> {
        self.publish()?;
        if !self.slots.awaited.is_empty() {
            self.slots.awaited.begin_poll(self.session.platform().ticks());
        }
        let mut taken = 0u32;
        while taken < limit
            && let Some(completed) = self.session.complete()?
        {
            let delivered = self.deliver(&completed);
            // The server has ended the session, whichever request has this status.
            if completed.status != Status::Success as u16
                && let Some(error) = self.end_of_session(&completed)
            {
                return Err(error);
            }
            delivered?;
            taken = taken.saturating_add(1);
        }
        self.session.publish_taken()?;
        self.slots.awaited.end_poll();
        Ok(taken)
    }

    /// The error with which the session ends, if a status means that.
    #[cold]
    fn end_of_session(&self, completed: &Completed) -> Option<Error> {
        match completed.status()? {
            Status::Closed => Some(Error::CLOSED),
            Status::DeviceGone if !self.waits => Some(Error::DEVICE_GONE),
            _ => None,
        }
    }

    /// Ends the session with `error`, unless it has ended before. Ranges that the device still holds stay leased.
    fn end(&mut self, error: Error) {
        self.over.get_or_insert(error);
        self.slots.wake_all();
        self.wake_for_room();
    }
}

#[inline]
fn outcome(completed: &Completed) -> Result<(), Error> {
    if completed.status == Status::Success as u16 {
        return Ok(());
    }
    match completed.status() {
        Some(status) => Err(Error::Failed { status, device_status: completed.device_status }),
        None => Err(Error::UnknownStatus(completed.status)),
    }
}
