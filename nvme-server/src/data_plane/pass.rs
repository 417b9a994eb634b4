//! A pass over the ready sessions: completions, turns in the scheduling policy's order, doorbells and answers.

use crate::data_plane::DataPlane;
use crate::data_plane::extents::Extents;
use crate::data_plane::io_queue::IoQueue;
use crate::data_plane::phase::{Cause, Loss, Phase};
use crate::data_plane::queues::Queues;
use crate::data_plane::readiness::Readiness;
use crate::data_plane::schedule::Batch;
use crate::data_plane::session::{PollResult, ServeError, Session};
use crate::data_plane::slot::SessionSlot;
use crate::jobs::Jobs;
use blk_api::Status;
use blk_api::config::Completion;
use blk_api::ring::RingError;
use nvme_driver::controller::Health;
use nvme_driver::fault::DeviceFault;
use platform::Platform;
use platform::log::warn;
use report::clip;
use scheduler::Decision;

/// Polls that find nothing before a polled session sleeps until its client signals. Only without commands in flight.
const IDLE_POLLS: u16 = 64;
/// Turns in one pass.
const TURNS: u16 = 256;

/// The outcome of a pass.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pass {
    /// A session had entries or completions.
    pub progress: bool,
    /// A session is to be polled again without a signal.
    pub again: bool,
    /// Time at which the scheduling policy lets a session that it holds back go on, on the schedule's clock.
    pub waits_until_ns: Option<u64>,
}

impl<P: Platform> DataPlane<P> {
    /// Serves the ready sessions once.
    ///
    /// # Errors
    /// The controller cannot be trusted, and is to be reset.
    #[inline(always)]
    pub(super) fn serve(&mut self) -> Result<Pass, DeviceFault> {
        let mut pass = Pass::default();
        // A call or a tick may leave nothing to serve.
        let is_idle = self.ready.sessions().is_empty() && !self.schedule.has_waiters();
        let served = if is_idle { Ok(()) } else { self.serve_all(self.platform.ticks(), &mut pass) };
        self.controller.vectors.borrow().acknowledge(&self.platform);
        served.map(|()| pass)
    }

    fn serve_all(&mut self, now: u64, pass: &mut Pass) -> Result<(), DeviceFault> {
        self.schedule.served.clear();
        self.passes = self.passes.wrapping_add(1);
        // The session that is polled first is first in line among equals: rotated, for fairness.
        let first = self.first.min(self.slots.len());
        self.first = if first.wrapping_add(1) < self.slots.len() { first.wrapping_add(1) } else { 0 };
        let served = self
            .take_all_completions(now)
            .map(|()| self.poll_all_ready(first, now))
            .and_then(|()| self.take_turns(now, pass))
            .and_then(|()| self.end_polls(now, pass));
        if served.is_err() {
            self.slots.iter_mut().for_each(|slot| slot.polled = PollResult::None);
        }
        pass.again |= !self.ready.sessions().is_empty();
        served
    }

    /// Takes completions from the queue pairs of the ready sessions. Another session whose command completed becomes ready, too.
    fn take_all_completions(&mut self, now: u64) -> Result<(), DeviceFault> {
        if self.controller.health.get() != Health::Up {
            return Ok(());
        }
        let has_traces = self.pages.as_ref().is_some_and(|pages| pages.has_traces());
        let Self { slots, queues, schedule, ready, .. } = self;
        let mut batch = schedule.batch(now);
        for index in ready.sessions() {
            let Some(session) = slots.get(index).and_then(|slot| slot.phase.session()) else { continue };
            for number in session.queues.clone() {
                let Some(queue) = queues.get_mut(number) else { continue };
                let taken = if has_traces {
                    take_traced(slots, queue, &mut batch, now)
                } else {
                    take_completions::<false, P>(slots, queue, &mut batch, now)
                };
                if taken? && let Some(session) = slots.get_mut(index).and_then(|slot| slot.phase.session_mut()) {
                    session.statistics.doorbells = session.statistics.doorbells.wrapping_add(1);
                }
            }
        }
        Ok(())
    }

    /// Polls the ready sessions, from `first` on, for whether they want a turn.
    fn poll_all_ready(&mut self, first: usize, now: u64) {
        let health = self.controller.health.get();
        let Self { jobs, slots, queues, schedule, ready, .. } = self;
        for index in ready.sessions().from(first) {
            let Some(slot) = slots.get_mut(index) else { continue };
            if health != Health::Up || !slot.phase.has_queues() {
                schedule.set_waiting(index, false, now);
                serve_without_controller(slot, index, health, jobs);
                continue;
            }
            if slot.polled == PollResult::None {
                if slot.has_nothing() {
                    // The signal was for another session with the same badge bit.
                    slot.place.set(Readiness::Asleep);
                    continue;
                }
                slot.polled = PollResult::Nothing;
            }
            let idle_polls = slot.place.idle_polls();
            let found = match &mut slot.phase {
                Phase::Open(session) | Phase::Draining(session) => poll(session, queues, slot.completion, idle_polls),
                Phase::Closing(session, _) => {
                    if session.cut_short(Status::Closed) {
                        slot.polled = PollResult::Completions;
                    }
                    Ok(Readiness::Asleep)
                }
                Phase::Leaving(session, loss) => {
                    if session.cut_short(loss.status()) {
                        slot.polled = PollResult::Completions;
                    }
                    Ok(Readiness::Asleep)
                }
                Phase::Closed | Phase::Lost(..) | Phase::Drained(..) | Phase::TearingDown(_) | Phase::Expelled => {
                    Ok(Readiness::Asleep)
                }
            };
            slot.found = found.unwrap_or_else(|error| {
                expel(slot, error);
                Readiness::Asleep
            });
            schedule.set_waiting(index, slot.found == Readiness::WaitsTurn, now);
        }
    }

    /// Has sessions submit commands, in the scheduling policy's order.
    fn take_turns(&mut self, now: u64, pass: &mut Pass) -> Result<(), DeviceFault> {
        let Self { controller, slots, queues, schedule, extents: table, .. } = self;
        let is_idle = !schedule.has_waiters();
        if is_idle || controller.health.get() != Health::Up || self.holds_back {
            return Ok(());
        }
        for _ in 0..TURNS {
            let (index, quantum) = match schedule.next(now) {
                Decision::Serve { session, quantum } => (usize::from(session.0), quantum),
                Decision::Wait { until_ns } => {
                    pass.waits_until_ns = Some(until_ns);
                    return Ok(());
                }
                Decision::Nothing => return Ok(()),
            };
            let Some(SessionSlot { phase, polled, found, .. }) = slots.get_mut(index) else {
                schedule.set_waiting(index, false, now);
                continue;
            };
            let Some(session) = phase.serving_mut() else {
                schedule.set_waiting(index, false, now);
                continue;
            };
            let taken = {
                let extents = Extents::new(table, index);
                let mut turn = session.turn(queues, extents, schedule.batch(now), quantum, now);
                session.take_turn(&mut turn)
            };
            if core::mem::replace(polled, PollResult::Turn) != PollResult::Turn {
                schedule.served.push(index);
            }
            match taken {
                Ok(rest) => *found = rest,
                Err(ServeError::Device(fault)) => return Err(fault),
                Err(ServeError::Client(error)) => {
                    schedule.set_waiting(index, false, now);
                    if let Some(slot) = slots.get_mut(index) {
                        expel(slot, error);
                    }
                }
            }
        }
        // Events come before the rest.
        pass.again = true;
        Ok(())
    }

    /// Rings doorbells and publishes answers, in the order of turns, and decides which sessions are polled again.
    fn end_polls(&mut self, now: u64, pass: &mut Pass) -> Result<(), DeviceFault> {
        for place in 0..self.schedule.served.len() {
            let index = self.schedule.served.get(place).copied().unwrap_or_default();
            self.end_poll(index, now, pass)?;
        }
        for index in self.ready.sessions() {
            self.end_poll(index, now, pass)?;
        }
        Ok(())
    }

    /// Ends a session's poll. A call of it would take a hundredth of a read at depth 1.
    #[inline(always)]
    fn end_poll(&mut self, index: usize, now: u64, pass: &mut Pass) -> Result<(), DeviceFault> {
        let Self { jobs, slots, queues, schedule, pages, .. } = self;
        let Some(slot) = slots.get_mut(index) else { return Ok(()) };
        let polled = core::mem::replace(&mut slot.polled, PollResult::None);
        if polled == PollResult::None {
            return Ok(());
        }
        let progress = polled != PollResult::Nothing;
        let Some(session) = slot.phase.session_mut() else { return Ok(()) };
        match session.end_poll(queues, polled) {
            Ok(()) => {}
            Err(ServeError::Device(fault)) => return Err(fault),
            // A ring-index error of a session that ends is ignored.
            Err(ServeError::Client(_)) if slot.phase.serving_mut().is_none() => {}
            Err(ServeError::Client(error)) => {
                schedule.set_waiting(index, false, now);
                expel(slot, error);
                return Ok(());
            }
        }
        if progress {
            pass.progress = true;
            slot.budget.found_something();
        }
        slot.phase.take_awaited().into_iter().for_each(|awaited| jobs.wait_is_over(index, awaited));
        let idle_polls = if progress { 1 } else { slot.place.idle_polls().saturating_add(1) };
        let readiness = match &mut slot.phase {
            Phase::Open(session) | Phase::Draining(session) => {
                let waits_turn = slot.found == Readiness::WaitsTurn;
                let keeps_polling = match slot.completion {
                    // A completion raises the vector, and a new entry is signalled.
                    Completion::Interrupt => false,
                    Completion::Polled => session.has_commands() || (idle_polls <= IDLE_POLLS && !waits_turn),
                    Completion::Hybrid => session.has_commands() && slot.history.polls_again(idle_polls),
                };
                if keeps_polling && polled == PollResult::Turn {
                    // It is polled without signals. A ring-index error comes again, typed, at the next poll.
                    let _ = session.awake();
                }
                let rest = if keeps_polling {
                    Ok(Readiness::Ready { idle_polls })
                } else if waits_turn {
                    // It has its turn without being polled, and its client need not signal for that.
                    session.awake().map(|()| slot.found)
                } else {
                    session.rest(slot.found, queues)
                };
                match rest {
                    Ok(Readiness::WaitsTurn) if !waits_turn => Readiness::Ready { idle_polls },
                    Ok(readiness) => readiness,
                    // A ring-index error comes again, typed, at the next poll.
                    Err(_) => Readiness::Ready { idle_polls },
                }
            }
            Phase::Leaving(..) | Phase::Closing(..) if slot.completion == Completion::Polled => {
                Readiness::Ready { idle_polls }
            }
            Phase::Leaving(..)
            | Phase::Closing(..)
            | Phase::Closed
            | Phase::Lost(..)
            | Phase::Drained(..)
            | Phase::TearingDown(_)
            | Phase::Expelled => Readiness::Asleep,
        };
        if pages.is_some()
            && let Some(latencies) = slot.phase.session_mut().and_then(|session| session.latencies.as_mut())
        {
            latencies.rests(readiness, now);
        }
        slot.place.set(readiness);
        Ok(())
    }
}

/// Takes the completions of a queue pair in a scenario with traces. The code for others has nothing of them.
#[inline(never)]
fn take_traced<P: Platform>(
    slots: &mut [SessionSlot<P>],
    queue: &mut IoQueue<P>,
    batch: &mut Batch<'_>,
    now: u64,
) -> Result<bool, DeviceFault> {
    take_completions::<true, P>(slots, queue, batch, now)
}

/// Takes the completions of a queue pair; returns whether there were any, and its doorbell was rung for them.
#[inline]
fn take_completions<const TRACED: bool, P: Platform>(
    slots: &mut [SessionSlot<P>],
    queue: &mut IoQueue<P>,
    batch: &mut Batch<'_>,
    now: u64,
) -> Result<bool, DeviceFault> {
    // Consecutive completions mostly belong to one session.
    let mut of: Option<(u8, &mut Session<P>)> = None;
    while let Some(end) = queue.queue.pair.complete()? {
        let (command, accounting) = queue.queue.commands.complete(end.cid())?;
        batch.completed(command, accounting);
        let number = command.work.session();
        let session = match of {
            Some((last, session)) if last == number => session,
            _ => {
                let slot = slots.get_mut(usize::from(number)).ok_or(DeviceFault::OwnMemory)?;
                slot.polled = PollResult::Completions;
                slot.place.wake_too();
                if slot.place.idle_polls() > 0 {
                    slot.history.found();
                }
                // A session ends only when it has nothing in flight.
                let session = slot.phase.session_mut().ok_or(DeviceFault::OwnMemory)?;
                if TRACED {
                    session.trace_completions(queue.queue.pair.id(), now);
                }
                session
            }
        };
        session.completed::<TRACED>(command, end.status(), (queue.queue.pair.id(), end.cid()), now);
        of = Some((number, session));
    }
    if !queue.queue.pair.ring_head()? {
        return Ok(false);
    }
    queue.last_completion = now;
    if core::mem::take(&mut queue.has_waiter) {
        for user in queue.users {
            if let Some(slot) = slots.get_mut(user).filter(|slot| slot.place.readiness() == Readiness::NoRoom) {
                slot.place.wake();
            }
        }
    }
    Ok(true)
}

/// The client broke the protocol: its session ends.
#[cold]
fn expel<P: Platform>(slot: &mut SessionSlot<P>, error: RingError) {
    let tenant = slot.phase.session().map_or("", |session| session.config.tenant.as_str());
    warn!("session {} broke the protocol: {}", tenant, clip::<64>(&alloc::format!("{error}")).as_str());
    slot.end(Cause::Expelled);
}

/// Leaves entries waiting while the controller is reset; refuses them after it was given up, and those of a session that lost what
/// it needs, so that no client waits for ever.
#[cold]
fn serve_without_controller<P: Platform>(slot: &mut SessionSlot<P>, index: usize, health: Health, jobs: &Jobs) {
    slot.place.set(Readiness::Asleep);
    let loss = slot.phase.loss();
    if loss.is_none() && !health.is_over() {
        return;
    }
    slot.phase.take_awaited().into_iter().for_each(|awaited| jobs.wait_is_over(index, awaited));
    // A ring-index error has no consequence any more: the device reaches no window.
    let ended = if health == Health::Gone { Status::DeviceGone } else { Status::Closed };
    let status = loss.map_or(ended, Loss::status);
    if slot.phase.open_mut().is_some_and(|session| session.answer_ended(status).unwrap_or(false)) {
        slot.place.wake();
    }
}

/// Polls a session's ring for whether it wants a turn.
#[inline]
fn poll<P: Platform>(
    session: &mut Session<P>,
    queues: &mut Queues<P>,
    completion: Completion,
    idle_polls: u16,
) -> Result<Readiness, RingError> {
    let found = session.wants(queues)?;
    if idle_polls == 0 && completion == Completion::Polled {
        session.awake()?;
    }
    Ok(found)
}
