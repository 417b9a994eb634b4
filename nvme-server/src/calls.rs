//! Calls of clients: answered at once, handed to the control plane with their caller kept, or put off until the tick.
//!
//! The data plane receives them; `control_plane` does what takes time. Left out: how much a client may ask for
//! (`budget`).

use crate::policy;
use crate::seat::Seat;
use crate::server::{Control, Shared};
use blk_api::policy::{BADGE, CLEAR, DRAINED, INSTALL, REMOVE, SET_INTERRUPTS, SET_SHARE};
use blk_api::session::{self, Refusal, Statistics};
use platform::log::error;
use platform::{Badge, CPtr, Environment, Kernel, Message, Platform};

/// What becomes of a call.
enum Verdict {
    /// It is known.
    Answer(Answer),
    /// The control plane answers.
    Ask(Control),
    /// The client has asked for enough: after the tick.
    Wait,
}

/// What is answered at once.
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

/// A call, or what was sent like one.
pub(crate) fn on_message<P: Platform>(shared: &Shared<P>, badge: Badge, message: &Message) {
    delete_received(&shared.platform, &shared.environment, message);
    if badge == Badge(BADGE) {
        return policy::on_message(shared, message);
    }
    let kernel = shared.platform.kernel();
    let refuse = |refusal: Refusal| kernel.reply(&Answer::Refused(refusal).message());
    let index = usize::try_from(badge.0.wrapping_sub(1)).unwrap_or(usize::MAX);
    let mut seats = shared.seats.borrow_mut();
    let Some(seat) = seats.get_mut(index) else { return refuse(Refusal::BadRequest) };
    if seat.asked == Some(message.label) {
        // Whoever waited for a component that died was stopped and set going, and makes its call again; and the supervisor
        // does not know whom it waited for. It waits on for the same answer. Who sends instead of calling is not there.
        if kernel.cnode_save_caller(seat.caller).is_err() {
            refuse(Refusal::BadRequest);
        }
        return;
    }
    let verdict = if seat.budget.takes_call() { decide(seat, index, message.label) } else { Verdict::Wait };
    if let Verdict::Answer(answer) = verdict {
        return kernel.reply(&answer.message());
    }
    // A client that waits for an answer cannot call again: this one sends. Nothing more is kept for it.
    if seat.asked.is_some() || kernel.cnode_save_caller(seat.caller).is_err() {
        return refuse(Refusal::BadRequest);
    }
    seat.asked = Some(message.label);
    match verdict {
        Verdict::Ask(control) => hand_over(shared, seat, control),
        Verdict::Answer(_) | Verdict::Wait => seat.put_off = Some(message.label),
    }
}

/// Deletes a capability that came along with a message. No call of a client's brings one; kept, it would lie in the way of
/// those that the PCI server gives.
pub(crate) fn delete_received<P: Platform>(platform: &P, environment: &Environment, message: &Message) {
    let slot = environment.receive_slot.filter(|_| message.cap_received).and_then(|slot| environment.slot(slot));
    if let Some(slot) = slot
        && let Err(reason) = platform.kernel().cnode_delete(slot)
    {
        error!("the kernel refused deleting a received capability: {}", reason);
    }
}

/// A tick has passed: the calls put off are taken up, before new ones.
pub(crate) fn on_tick<P: Platform>(shared: &Shared<P>) {
    let mut seats = shared.seats.borrow_mut();
    for (index, seat) in seats.iter_mut().enumerate() {
        seat.budget.renew();
        // Every session is looked at after the tick.
        if let Some(session) = &mut seat.session {
            session.renew_refusals();
        }
        let Some(label) = seat.put_off.take() else { continue };
        seat.asked = None;
        if seat.client.death().is_some() {
            // Nobody waits for the answer, which frees the caller's place where the kernel has not.
            shared.platform.kernel().nb_send(CPtr::new(seat.caller.index), &Message::new(Refusal::NotOpen as u32));
            continue;
        }
        match decide(seat, index, label) {
            Verdict::Answer(answer) => {
                shared.platform.kernel().nb_send(CPtr::new(seat.caller.index), &answer.message())
            }
            Verdict::Ask(control) => {
                seat.asked = Some(label);
                hand_over(shared, seat, control);
            }
            Verdict::Wait => {
                seat.asked = Some(label);
                seat.put_off = Some(label);
            }
        }
    }
}

fn decide<P: Platform>(seat: &mut Seat<P>, index: usize, label: u32) -> Verdict {
    let refuse = |refusal| Verdict::Answer(Answer::Refused(refusal));
    match label {
        session::PING => Verdict::Answer(Answer::Done),
        INSTALL | REMOVE | CLEAR | DRAINED | SET_SHARE | SET_INTERRUPTS => refuse(Refusal::PolicyAlone),
        _ if seat.expelled => refuse(Refusal::Expelled),
        session::STATISTICS => match &seat.session {
            Some(session) => Verdict::Answer(Answer::Statistics(session.statistics)),
            None => refuse(Refusal::NotOpen),
        },
        _ if seat.asked.is_some() => refuse(Refusal::BadRequest),
        // The session of the client that lived before ends first.
        session::OPEN if seat.session.is_some() && seat.client.died() => {
            seat.look_at_client(index);
            Verdict::Wait
        }
        session::OPEN if seat.session.is_some() => refuse(Refusal::AlreadyOpen),
        session::OPEN if seat.budget.takes_opening() => {
            seat.client.renew();
            Verdict::Ask(Control::Open(index))
        }
        session::OPEN => Verdict::Wait,
        session::CLOSE if seat.session.is_none() || seat.closing => refuse(Refusal::NotOpen),
        session::CLOSE => Verdict::Ask(Control::Close(index)),
        _ => refuse(Refusal::BadRequest),
    }
}

fn hand_over<P: Platform>(shared: &Shared<P>, seat: &mut Seat<P>, control: Control) {
    match control {
        // What is in flight ends first.
        Control::Close(_) => seat.end(control),
        Control::Open(_)
        | Control::Expel(_)
        | Control::Bury(_)
        | Control::Requeue
        | Control::Interrupts
        | Control::Rescue
        | Control::Recover => shared.control(control),
    }
}
