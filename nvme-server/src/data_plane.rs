//! The loop: waits in one place, names what woke it, serves the sessions that may have something.

use crate::calls;
use crate::control::Control;
use crate::device::Health;
use crate::extents::Extents;
use crate::fault::DeviceFault;
use crate::interrupts_change;
use crate::io_queue::IoQueue;
use crate::phase::{Cause, Phase};
use crate::policy;
use crate::queues::Queues;
use crate::schedule::{Ledger, Schedule};
use crate::seat::{Seat, completed};
use crate::session::{Session, Trouble, Visit};
use crate::shared::Shared;
use blk_api::Status;
use blk_api::config::Completion;
use blk_api::ring::RingError;
use platform::log::warn;
use platform::{Badge, Event, Kernel, Platform};
use report::clip;
use scheduler::Decision;

/// Looks that find nothing before a polled session sleeps until its client signals. Only without commands in flight.
const POLLED_LOOKS: u16 = 64;
/// Looks that find nothing before a hybrid session relies on its vector.
const HYBRID_LOOKS: u16 = 32;
/// Passes over the sessions before events are looked at again.
const PASSES: u8 = 4;
/// Turns in one pass.
const TURNS: u16 = 256;
/// Looks without progress between two looks at the kernel for events, while polling.
const LOOKS_PER_EVENT: u8 = 8;

/// Runs for ever.
pub(crate) async fn run<P: Platform>(shared: &Shared<P>) {
    let mut pass = Pass::default();
    let mut idle_looks: u8 = 0;
    let mut alarm = Alarm::Off;
    loop {
        let event = if !pass.again {
            if pass.waits && alarm == Alarm::Off {
                shared.platform.kernel().signal(shared.alarm);
                alarm = Alarm::Set;
            }
            Some(shared.platform.next_event().await)
        } else {
            if idle_looks > 0 {
                shared.platform.pause();
            }
            // Somebody of our priority may have what we are polling for.
            shared.platform.yield_now().await;
            if idle_looks.is_multiple_of(LOOKS_PER_EVENT) { shared.platform.poll_event() } else { None }
        };
        match event {
            Some(Event::Signal(badge)) => {
                // A tick as well, should the supervisor have forgotten the alarm: it was started again.
                if badge.has(Badge::ALARM | Badge::TICK) {
                    alarm = Alarm::Off;
                }
                on_signal(shared, badge);
            }
            Some(Event::Message(badge, message)) => calls::on_message(shared, badge, &message),
            None => {}
        }
        idle_looks = idle_looks.wrapping_add(1);
        for _ in 0..PASSES {
            pass = serve(shared);
            if !pass.progress {
                break;
            }
            idle_looks = 0;
            if !pass.again {
                break;
            }
        }
        policy::tell_drained(shared);
        interrupts_change::go_on_when_drained(shared);
    }
}

/// The supervisor's alarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Alarm {
    /// Nobody asked for it.
    Off,
    /// It will go off.
    Set,
}

/// What a pass over the sessions came to.
#[derive(Clone, Copy, Default)]
struct Pass {
    /// A session had entries or completions.
    progress: bool,
    /// A session is to be looked at again without being signalled.
    again: bool,
    /// The scheduler holds somebody back until a time.
    waits: bool,
}

/// Marks whom the signal may concern.
fn on_signal<P: Platform>(shared: &Shared<P>, badge: Badge) {
    let vectors = shared.function.vectors.borrow();
    if vectors.may_concern_admin(badge) {
        shared.device.admin.poll();
    }
    let mut seats = shared.seats.borrow_mut();
    vectors.count(&shared.platform, badge, |bit| completed(&seats, bit));
    for index in shared.ready.listeners(badge) {
        let Some(seat) = seats.get_mut(index) else { continue };
        let raised = badge.has(seat.vector_bits);
        if raised || (badge.has(seat.client_bit) && seat.budget.hears_signal()) {
            seat.poll();
        }
        if let Some(session) = seat.phase.session_mut().filter(|_| raised) {
            session.count_interrupt(vectors.by());
        }
    }
    drop((seats, vectors));
    if badge.has(Badge::TICK) {
        on_tick(shared);
    }
}

/// Looks at what must not wait for ever: the controller's own status, commands without an answer, and what was put off
/// because it was too much.
fn on_tick<P: Platform>(shared: &Shared<P>) {
    let storm =
        shared.function.vectors.borrow().on_tick(&shared.platform, |bit| completed(&shared.seats.borrow(), bit));
    shared.device.admin.poll();
    shared.device.tick.signal(());
    calls::on_tick(shared);
    shared.acknowledge_deaths();
    match shared.device.health.get() {
        Health::Up => {}
        Health::Down => return,
        Health::Dead => {
            // The device reaches no window any more: who dies now is buried as any other.
            for seat in shared.seats.borrow_mut().iter_mut() {
                seat.poll();
                seat.look_at_client();
            }
            return;
        }
    }
    if let Some(fault) = shared.device.controller.check().err().or(storm) {
        return shared.fail(fault);
    }
    let (now, ticks_per_second) = (shared.platform.ticks(), shared.platform.ticks_per_second());
    for seat in shared.seats.borrow_mut().iter_mut() {
        // A lost signal costs a tick, not a hang.
        seat.poll();
        seat.look_at_client();
    }
    let mut schedule = shared.schedule.borrow_mut();
    shared.queues.borrow_mut().write_off(&mut schedule.ledger(now), now, ticks_per_second);
    drop(schedule);
    if shared.queues.borrow().overdue(now, ticks_per_second).is_some() {
        shared.control.pass(Control::RecoverQueuePairs);
    }
}

/// One pass over the sessions: completions, turns in the scheduler's order, answers.
fn serve<P: Platform>(shared: &Shared<P>) -> Pass {
    let now = shared.platform.ticks();
    let mut pass = Pass::default();
    if let Err(fault) = serve_all(shared, now, &mut pass) {
        shared.fail(fault);
        pass = Pass::default();
    }
    shared.function.vectors.borrow().acknowledge(&shared.platform);
    pass
}

fn serve_all<P: Platform>(shared: &Shared<P>, now: u64, pass: &mut Pass) -> Result<(), DeviceFault> {
    let seats = &mut *shared.seats.borrow_mut();
    let queues = &mut *shared.queues.borrow_mut();
    let schedule = &mut *shared.schedule.borrow_mut();
    schedule.served.clear();
    // Whoever is looked at first is first in line among equals: it is another one each time.
    let first = shared.first.get().min(seats.len());
    shared.first.set(if first.wrapping_add(1) < seats.len() { first.wrapping_add(1) } else { 0 });
    let served = take_all_completions(shared, seats, queues, schedule, now)
        .map(|()| look_at_all(shared, seats, queues, first, schedule, now))
        .and_then(|()| take_turns(shared, seats, queues, schedule, now, pass))
        .and_then(|()| end_visits(shared, seats, queues, schedule, now, pass));
    if served.is_err() {
        seats.iter_mut().for_each(|seat| seat.visit = Visit::None);
    }
    pass.again |= !shared.ready.sessions().is_empty();
    served
}

/// Takes completions from the queue pairs of those that are marked; who shares these with them is marked then, too.
fn take_all_completions<P: Platform>(
    shared: &Shared<P>,
    seats: &mut [Seat<P>],
    queues: &mut Queues<P>,
    schedule: &mut Schedule,
    now: u64,
) -> Result<(), DeviceFault> {
    if shared.device.health.get() != Health::Up {
        return Ok(());
    }
    let mut ledger = schedule.ledger(now);
    for index in shared.ready.sessions() {
        let Some(session) = seats.get(index).and_then(|seat| seat.phase.session()) else { continue };
        for number in session.queues.clone() {
            let Some(queue) = queues.get_mut(number) else { continue };
            if take_completions(seats, queue, &mut ledger, now)?
                && let Some(session) = seats.get_mut(index).and_then(|seat| seat.phase.session_mut())
            {
                session.statistics.doorbells = session.statistics.doorbells.wrapping_add(1);
            }
        }
    }
    Ok(())
}

/// Takes what a queue pair completed. Whether that was anything, and so rang its doorbell.
#[inline]
fn take_completions<P: Platform>(
    seats: &mut [Seat<P>],
    queue: &mut IoQueue<P>,
    ledger: &mut Ledger<'_>,
    now: u64,
) -> Result<bool, DeviceFault> {
    // Those that follow one another are mostly the same session's.
    let mut of: Option<(u8, &mut Seat<P>)> = None;
    while let Some(end) = queue.pair.complete()? {
        let (command, books) = queue.in_flight.release(end.cid())?;
        ledger.completed(command, books);
        let session = command.work.session();
        let seat = match of {
            Some((last, seat)) if last == session => seat,
            _ => {
                let seat = seats.get_mut(usize::from(session)).ok_or(DeviceFault::OwnMemory)?;
                seat.visit = Visit::Completions;
                seat.poll_too();
                seat
            }
        };
        // A session ends only when it has nothing in flight.
        seat.phase.session_mut().ok_or(DeviceFault::OwnMemory)?.completed(command, end.status());
        of = Some((session, seat));
    }
    if !queue.pair.release()? {
        return Ok(false);
    }
    queue.last_completion = now;
    if core::mem::take(&mut queue.turned_away) {
        for user in queue.users {
            seats.get_mut(user).into_iter().for_each(Seat::poll_too);
        }
    }
    Ok(true)
}

/// Tells the scheduler who wants a turn, from `first` on.
fn look_at_all<P: Platform>(
    shared: &Shared<P>,
    seats: &mut [Seat<P>],
    queues: &mut Queues<P>,
    first: usize,
    schedule: &mut Schedule,
    now: u64,
) {
    let up = shared.device.health.get() == Health::Up;
    for index in shared.ready.sessions().from(first) {
        let Some(seat) = seats.get_mut(index) else { continue };
        if !up || seat.phase.session().is_none() {
            schedule.set_waiting(index, false, now);
            serve_without_controller(shared, seat, index);
            continue;
        }
        if seat.visit == Visit::None {
            seat.visit = Visit::Looked;
        }
        let idle_polls = seat.idle_polls();
        let wants_turn = match &mut seat.phase {
            Phase::Open(session) | Phase::Draining(session) => look(session, queues, seat.completion, idle_polls),
            Phase::Closing(session, _) => {
                if session.cut_short(Status::Closed) {
                    seat.visit = Visit::Completions;
                }
                Ok(false)
            }
            Phase::Closed | Phase::Drained(..) | Phase::TearingDown(_) | Phase::Expelled => Ok(false),
        };
        let wants_turn = wants_turn.unwrap_or_else(|error| {
            expel(seat, error);
            false
        });
        schedule.set_waiting(index, wants_turn, now);
    }
}

/// Lets sessions give commands, in the scheduler's order.
fn take_turns<P: Platform>(
    shared: &Shared<P>,
    seats: &mut [Seat<P>],
    queues: &mut Queues<P>,
    schedule: &mut Schedule,
    now: u64,
    pass: &mut Pass,
) -> Result<(), DeviceFault> {
    if shared.device.health.get() != Health::Up || shared.changes.hold_back_commands() {
        return Ok(());
    }
    let mut table = shared.extents.borrow_mut();
    for _ in 0..TURNS {
        let (index, budget) = match schedule.next(now) {
            Decision::Serve { session, budget } => (usize::from(session.0), budget),
            Decision::Wait { .. } => {
                pass.waits = true;
                return Ok(());
            }
            Decision::Nothing => return Ok(()),
        };
        let Some((visit, session)) = seats.get_mut(index).and_then(Seat::serving) else {
            schedule.set_waiting(index, false, now);
            continue;
        };
        let extents = Extents::new(&mut table, index);
        let mut turn = session.turn(queues, extents, schedule.ledger(now), budget, now);
        let taken = session.take_turn(&mut turn);
        drop(turn);
        if core::mem::replace(visit, Visit::Turn) != Visit::Turn {
            schedule.served.push(index);
        }
        match taken {
            Ok(()) => {}
            Err(Trouble::Device(fault)) => return Err(fault),
            Err(Trouble::Client(error)) => {
                schedule.set_waiting(index, false, now);
                if let Some(seat) = seats.get_mut(index) {
                    expel(seat, error);
                }
            }
        }
    }
    // Enough for once: events come before the rest.
    pass.again = true;
    Ok(())
}

/// Rings and answers, in the order of turns, and decides when to look again.
fn end_visits<P: Platform>(
    shared: &Shared<P>,
    seats: &mut [Seat<P>],
    queues: &mut Queues<P>,
    schedule: &mut Schedule,
    now: u64,
    pass: &mut Pass,
) -> Result<(), DeviceFault> {
    for place in 0..schedule.served.len() {
        let index = schedule.served.get(place).copied().unwrap_or_default();
        if let Some(seat) = seats.get_mut(index) {
            end_visit(shared, seat, index, queues, schedule, now, pass)?;
        }
    }
    for index in shared.ready.sessions() {
        if let Some(seat) = seats.get_mut(index) {
            end_visit(shared, seat, index, queues, schedule, now, pass)?;
        }
    }
    Ok(())
}

fn end_visit<P: Platform>(
    shared: &Shared<P>,
    seat: &mut Seat<P>,
    index: usize,
    queues: &mut Queues<P>,
    schedule: &mut Schedule,
    now: u64,
    pass: &mut Pass,
) -> Result<(), DeviceFault> {
    let visit = core::mem::replace(&mut seat.visit, Visit::None);
    if visit == Visit::None {
        return Ok(());
    }
    let progress = visit != Visit::Looked;
    let Some(session) = seat.phase.session_mut() else { return Ok(()) };
    match session.end_visit(queues, visit) {
        Ok(()) => {}
        Err(Trouble::Device(fault)) => return Err(fault),
        // A ring-index error of a session that ends is ignored.
        Err(Trouble::Client(_)) if seat.phase.serving_mut().is_none() => {}
        Err(Trouble::Client(error)) => {
            schedule.set_waiting(index, false, now);
            expel(seat, error);
            return Ok(());
        }
    }
    if progress {
        pass.progress = true;
        seat.budget.found_something();
    }
    seat.phase.drained().into_iter().for_each(|awaited| shared.drained(index, awaited));
    let idle_polls = if progress { 1 } else { seat.idle_polls().saturating_add(1) };
    let again = match &mut seat.phase {
        Phase::Open(session) | Phase::Draining(session) => {
            polls_again(session, queues, seat.completion, idle_polls, schedule.is_waiting(index))
        }
        Phase::Closing(..) => seat.completion == Completion::Polled,
        Phase::Closed | Phase::Drained(..) | Phase::TearingDown(_) | Phase::Expelled => false,
    };
    if again {
        seat.poll_after(idle_polls)
    } else {
        seat.wait_for_signal()
    }
    Ok(())
}

/// The client broke the protocol: its session ends.
#[cold]
fn expel<P: Platform>(seat: &mut Seat<P>, error: RingError) {
    let tenant = seat.phase.session().map_or("", |session| session.config.tenant.as_str());
    warn!("session {} broke the protocol: {}", tenant, clip::<64>(&alloc::format!("{error}")).as_str());
    seat.end(Cause::Expelled);
}

/// While the controller is reset entries wait; when it is beyond help they are turned away, so that no client waits for
/// ever.
#[cold]
fn serve_without_controller<P: Platform>(shared: &Shared<P>, seat: &mut Seat<P>, index: usize) {
    seat.wait_for_signal();
    if shared.device.health.get() != Health::Dead {
        return;
    }
    seat.phase.drained().into_iter().for_each(|awaited| shared.drained(index, awaited));
    // A ring-index error has no consequence any more: the device reaches no window.
    if seat.phase.serving_mut().is_some_and(|session| session.turn_away().unwrap_or(false)) {
        seat.poll();
    }
}

/// Whether the session wants a turn.
#[inline]
fn look<P: Platform>(
    session: &mut Session<P>,
    queues: &mut Queues<P>,
    completion: Completion,
    looks: u16,
) -> Result<bool, RingError> {
    let wants_turn = session.wants_turn(queues)?;
    // A session that sleeps again at once goes on being signalled.
    if looks == 0 && (wants_turn || completion != Completion::Interrupt) {
        session.awake()?;
    }
    Ok(wants_turn)
}

/// Whether the session is polled again, after so many polls in a row that found nothing, or waits for a signal.
fn polls_again<P: Platform>(
    session: &mut Session<P>,
    queues: &mut Queues<P>,
    completion: Completion,
    idle_polls: u16,
    is_held_back: bool,
) -> bool {
    let keeps_polling = match completion {
        // A completion raises the vector, and a new entry is signalled.
        Completion::Interrupt => false,
        Completion::Polled => session.has_commands() || (idle_polls <= POLLED_LOOKS && !is_held_back),
        Completion::Hybrid => session.has_commands() && idle_polls <= HYBRID_LOOKS,
    };
    if is_held_back && !keeps_polling {
        // It has its turn without being polled; its client need not signal for that.
        return false;
    }
    // A ring-index error comes again, typed, at the next poll.
    keeps_polling || session.prepare_sleep(queues).unwrap_or(true)
}
