//! The loop: waits in one place, names what woke it, serves the sessions that may have something.

use crate::calls;
use crate::extents::Extents;
use crate::seat::{Attention, Seat};
use crate::server::{Control, Health, Shared};
use crate::session::{Progress, Session, Trouble};
use blk_api::config::Completion;
use platform::log::warn;
use platform::{Badge, Event, Platform};

/// Looks that find nothing before a polled session sleeps until its client signals. Only without commands in flight.
const POLLED_LOOKS: u16 = 64;
/// Looks that find nothing before a hybrid session relies on its vector.
const HYBRID_LOOKS: u16 = 32;
/// Passes over the sessions before events are looked at again.
const PASSES: u8 = 4;
/// Looks without progress between two looks at the kernel for events, while polling.
const LOOKS_PER_EVENT: u8 = 8;

/// Runs for ever.
pub(crate) async fn run<P: Platform>(shared: &Shared<P>) {
    let mut pass = Pass::default();
    let mut idle_looks: u8 = 0;
    loop {
        let event = if !pass.again {
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
            Some(Event::Signal(badge)) => on_signal(shared, badge),
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
    }
}

/// What a pass over the sessions came to.
#[derive(Clone, Copy, Default)]
struct Pass {
    /// A session had entries or completions.
    progress: bool,
    /// A session is to be looked at again without being signalled.
    again: bool,
}

/// Marks whom the signal may concern.
fn on_signal<P: Platform>(shared: &Shared<P>, badge: Badge) {
    if shared.vectors.may_concern_admin(badge) {
        shared.admin.poll();
    }
    shared.vectors.count(&shared.platform, badge, &shared.seats.borrow());
    for seat in shared.seats.borrow_mut().iter_mut() {
        let raised = badge.has(seat.vector_bits);
        if raised || (badge.has(seat.client_bit) && seat.budget.hears_signal()) {
            seat.attention = Attention::Now(0);
        }
        if let Some(session) = seat.session.as_mut().filter(|_| raised) {
            session.statistics.interrupts = session.statistics.interrupts.wrapping_add(1);
        }
    }
    if badge.has(Badge::TICK) {
        on_tick(shared);
    }
}

/// Looks at what must not wait for ever: the controller's own status, commands without an answer, and what was put off
/// because it was too much.
fn on_tick<P: Platform>(shared: &Shared<P>) {
    let storm = shared.vectors.on_tick(&shared.platform, &shared.seats.borrow());
    shared.admin.poll();
    shared.tick.signal(());
    calls::on_tick(shared);
    match shared.health.get() {
        Health::Up => {}
        Health::Down => return,
        Health::Dead => {
            return shared.seats.borrow_mut().iter_mut().for_each(|seat| seat.attention = Attention::Now(0));
        }
    }
    if let Some(fault) = shared.controller.check().err().or(storm) {
        return shared.fail(fault);
    }
    let (now, ticks_per_second) = (shared.platform.ticks(), shared.platform.ticks_per_second());
    for (index, seat) in shared.seats.borrow_mut().iter_mut().enumerate() {
        // A lost signal costs a tick, not a hang.
        seat.attention = Attention::Now(0);
        seat.look_at_client(index);
        if seat.session.as_ref().is_some_and(|session| session.is_overdue(now, ticks_per_second)) {
            return shared.fail(crate::fault::DeviceFault::TimedOut);
        }
    }
}

/// One pass over the sessions, most urgent class first.
fn serve<P: Platform>(shared: &Shared<P>) -> Pass {
    let up = shared.health.get() == Health::Up;
    let mut pass = Pass::default();
    let now = shared.platform.ticks();
    let mut seats = shared.seats.borrow_mut();
    let mut table = shared.extents.borrow_mut();
    for &index in &shared.order {
        let Some(seat) = seats.get_mut(index) else { continue };
        let Attention::Now(looks) = seat.attention else { continue };
        let Some(session) = seat.session.as_mut().filter(|_| up) else {
            serve_without_controller(shared, seat);
            continue;
        };
        let outcome = if seat.closing {
            close_step(session, now)
        } else {
            serve_one(session, &mut Extents::new(&mut table, index), now, looks)
        };
        match outcome {
            Ok(progress) => {
                if progress == Progress::Some {
                    pass.progress = true;
                    seat.budget.found_something();
                }
                seat.attention = if seat.closing {
                    // The rest is the control plane's, in its turn.
                    let drained = if session.has_commands() { None } else { seat.ending.take() };
                    drained.into_iter().for_each(|control| shared.control(control));
                    closing_attention(session, seat.completion)
                } else {
                    next_attention(session, seat.completion, progress, looks)
                };
            }
            Err(Trouble::Device(fault)) => {
                drop((seats, table));
                shared.fail(fault);
                shared.vectors.acknowledge_pin(&shared.platform);
                return Pass::default();
            }
            Err(Trouble::Client(error)) => {
                warn!("session {} broke the protocol: {}", session.config.tenant.as_str(), describe(error));
                seat.expelled = true;
                seat.end(Control::Expel(index));
            }
        }
        pass.again |= seat.attention != Attention::OnSignal;
    }
    shared.vectors.acknowledge_pin(&shared.platform);
    pass
}

/// While the controller is reset entries wait; when it is beyond help they are turned away, so that no client waits for
/// ever.
#[cold]
fn serve_without_controller<P: Platform>(shared: &Shared<P>, seat: &mut Seat<P>) {
    seat.attention = Attention::OnSignal;
    if shared.health.get() != Health::Dead {
        return;
    }
    if seat.closing {
        seat.ending.take().into_iter().for_each(|control| shared.control(control));
        return;
    }
    // What a client's indices are wrong in has no consequence any more: the device reaches no window.
    if seat.session.as_mut().is_some_and(|session| session.turn_away().unwrap_or(false)) {
        seat.attention = Attention::Now(0);
    }
}

fn serve_one<P: Platform>(
    session: &mut Session<P>,
    extents: &mut Extents<'_>,
    now: u64,
    looks: u16,
) -> Result<Progress, Trouble> {
    if looks == 0 {
        session.awake()?;
    }
    session.serve(extents, now)
}

fn close_step<P: Platform>(session: &mut Session<P>, now: u64) -> Result<Progress, Trouble> {
    match session.finish_commands(now) {
        Err(Trouble::Device(fault)) => Err(Trouble::Device(fault)),
        // What its client's indices say does not matter any more.
        Ok(()) | Err(Trouble::Client(_)) => Ok(Progress::None),
    }
}

/// When to look again.
fn next_attention<P: Platform>(
    session: &mut Session<P>,
    completion: Completion,
    progress: Progress,
    looks: u16,
) -> Attention {
    let looks = if progress == Progress::Some { 1 } else { looks.saturating_add(1) };
    let keep_looking = match completion {
        // What completes from here on raises the vector, and what is submitted signals.
        Completion::Interrupt => false,
        Completion::Polled => session.has_commands() || looks <= POLLED_LOOKS,
        Completion::Hybrid => session.has_commands() && looks <= HYBRID_LOOKS,
    };
    // An error here is the client's index and comes again, typed, at the next look.
    if keep_looking || session.prepare_sleep().unwrap_or(true) { Attention::Now(looks) } else { Attention::OnSignal }
}

/// When to look again at a session that is being closed: what its client's indices say does not matter any more.
fn closing_attention<P: Platform>(session: &Session<P>, completion: Completion) -> Attention {
    if completion == Completion::Polled && session.has_commands() { Attention::Now(1) } else { Attention::OnSignal }
}

fn describe(error: blk_api::ring::RingError) -> &'static str {
    match error {
        blk_api::ring::RingError::IndexOutOfRange => "ring index out of range",
        blk_api::ring::RingError::BadRegion => "ring region does not fit its entries",
    }
}
