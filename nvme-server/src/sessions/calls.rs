//! Calls of clients: answered at once, handed to the control plane with their caller kept, or deferred until the tick.
//!
//! The data plane receives them; `control_plane` does the slow work. Left out: the limits of a client's calls (`budget`).

use crate::control_path::requests::Control;
use crate::sessions::phase::{Cause, Phase};
use crate::sessions::policy;
use crate::sessions::slot::{PendingCall, SessionSlot};
use crate::shared::Shared;
use blk_api::policy::{BADGE, CLEAR, DRAINED, INSTALL, REMOVE, SET_FUNCTION, SET_INTERRUPTS, SET_SHARE};
use blk_api::session::{self, Refusal, Statistics};
use platform::log::error;
use platform::{Badge, CPtr, Environment, Kernel, Message, Platform};

/// The decision about a call.
enum Verdict {
    /// The answer is known.
    Answer(Answer),
    /// The control plane opens the session and answers.
    Open,
    /// The session ends, and the control plane answers.
    Close,
    /// The client's budget is used up: the call is decided after the tick.
    Wait,
}

/// An answer that is given at once.
enum Answer {
    Done,
    Statistics(Statistics),
    Refused(Refusal),
}

impl Answer {
    fn message(&self) -> Message {
        match self {
            Self::Done => Message::new(session::DONE),
            Self::Statistics(statistics) => Message::with(session::DONE, statistics),
            Self::Refused(refusal) => Message::new(*refusal as u32),
        }
    }
}

/// Handles a call, or a message that was sent like one.
#[inline(never)]
pub(crate) fn on_message<P: Platform>(shared: &Shared<P>, badge: Badge, message: &Message) {
    delete_received(&shared.platform, &shared.environment, message);
    if badge == Badge(BADGE) {
        return policy::on_message(shared, message);
    }
    let kernel = shared.platform.kernel();
    let refuse = |refusal: Refusal| kernel.reply(&Answer::Refused(refusal).message());
    let index = usize::try_from(badge.0.wrapping_sub(1)).unwrap_or(usize::MAX);
    let mut slots = shared.slots.borrow_mut();
    let Some(slot) = slots.get_mut(index) else { return refuse(Refusal::BadRequest) };
    if slot.call.is_some_and(|call| call.label() == message.label) {
        // After a component's death the supervisor restarts every system call that waited for a component, so a client may
        // repeat its call: it continues to wait for the same answer.
        if kernel.cnode_save_caller(slot.caller).is_err() {
            refuse(Refusal::BadRequest);
        }
        return;
    }
    let verdict = if slot.budget.takes_call() { decide(slot, message.label) } else { Verdict::Wait };
    if let Verdict::Answer(answer) = verdict {
        return kernel.reply(&answer.message());
    }
    // A client that waits for an answer cannot call again, so this one sends. No second caller is saved for it.
    if slot.call.is_some() || kernel.cnode_save_caller(slot.caller).is_err() {
        return refuse(Refusal::BadRequest);
    }
    keep(shared, slot, index, message.label, &verdict);
}

/// Carries out the decision about a call whose caller was saved.
fn keep<P: Platform>(shared: &Shared<P>, slot: &mut SessionSlot<P>, index: usize, label: u32, verdict: &Verdict) {
    slot.call = Some(PendingCall::Decided(label));
    match verdict {
        Verdict::Answer(answer) => {
            slot.call = None;
            shared.platform.kernel().nb_send(CPtr::new(slot.caller.index), &answer.message());
        }
        Verdict::Open => shared.control.pass(Control::Open(index)),
        Verdict::Close => slot.end(Cause::Closed),
        Verdict::Wait => slot.call = Some(PendingCall::Deferred(label)),
    }
}

/// Deletes a capability that came with a message. No client's call needs one, and it would block the slot for those from
/// the PCI server.
pub(crate) fn delete_received<P: Platform>(platform: &P, environment: &Environment, message: &Message) {
    let slot = environment.receive_slot.filter(|_| message.cap_received).and_then(|slot| environment.slot(slot));
    if let Some(slot) = slot
        && let Err(reason) = platform.kernel().cnode_delete(slot)
    {
        error!("the kernel refused deleting a received capability: {}", reason);
    }
}

/// Decides deferred calls at a tick, before new ones.
pub(crate) fn on_tick<P: Platform>(shared: &Shared<P>) {
    let (mut slots, now) = (shared.slots.borrow_mut(), shared.platform.ticks());
    for (index, slot) in slots.iter_mut().enumerate() {
        slot.budget.refill();
        // Every session is polled after the tick.
        if let Some(session) = slot.phase.session_mut() {
            session.refill_refusals();
            session.go_on_with_retry(now);
        }
        let Some(PendingCall::Deferred(label)) = slot.call else { continue };
        slot.call = None;
        // A dead client waits for no answer; the answer frees the caller's slot if the kernel has not.
        let is_dead = slot.client.death().is_some();
        let verdict = if is_dead { refuse(Refusal::NotOpen) } else { decide(slot, label) };
        keep(shared, slot, index, label, &verdict);
    }
}

const fn refuse(refusal: Refusal) -> Verdict {
    Verdict::Answer(Answer::Refused(refusal))
}

fn decide<P: Platform>(slot: &mut SessionSlot<P>, label: u32) -> Verdict {
    match label {
        session::PING => Verdict::Answer(Answer::Done),
        INSTALL | REMOVE | CLEAR | DRAINED | SET_SHARE | SET_INTERRUPTS | SET_FUNCTION => refuse(Refusal::PolicyAlone),
        _ if slot.phase.is_expelled() => refuse(Refusal::Expelled),
        session::STATISTICS => match slot.phase.session() {
            Some(session) => Verdict::Answer(Answer::Statistics(session.statistics)),
            None => refuse(Refusal::NotOpen),
        },
        _ if slot.call.is_some() => refuse(Refusal::BadRequest),
        session::OPEN => decide_open(slot),
        session::CLOSE => match slot.phase {
            Phase::Open(_) | Phase::Draining(_) | Phase::Lost(..) => Verdict::Close,
            Phase::Closed | Phase::Closing(..) | Phase::Drained(..) | Phase::TearingDown(_) | Phase::Expelled => {
                refuse(Refusal::NotOpen)
            }
        },
        _ => refuse(Refusal::BadRequest),
    }
}

fn decide_open<P: Platform>(slot: &mut SessionSlot<P>) -> Verdict {
    match slot.phase {
        // The session of the client's previous incarnation ends first.
        Phase::Open(_) | Phase::Draining(_) | Phase::Lost(..) | Phase::Closing(..) | Phase::Drained(..)
            if slot.client.died() =>
        {
            slot.check_client();
            Verdict::Wait
        }
        Phase::Open(_) | Phase::Draining(_) | Phase::Lost(..) | Phase::Closing(..) | Phase::Drained(..) => {
            refuse(Refusal::AlreadyOpen)
        }
        Phase::Expelled => refuse(Refusal::Expelled),
        Phase::Closed | Phase::TearingDown(_) if slot.budget.takes_opening() => {
            slot.client.refresh();
            Verdict::Open
        }
        Phase::Closed | Phase::TearingDown(_) => Verdict::Wait,
    }
}

/// Answers the pending call of session `index`, if there is one. A client that sent instead of calling receives no answer,
/// and the server does not wait for it.
pub(crate) fn answer_pending<P: Platform>(shared: &Shared<P>, index: usize, message: &Message) {
    let mut slots = shared.slots.borrow_mut();
    let caller = slots.get_mut(index).and_then(|slot| slot.call.take().map(|_| slot.caller));
    if let Some(caller) = caller {
        shared.platform.kernel().nb_send(CPtr::new(caller.index), message);
    }
}
