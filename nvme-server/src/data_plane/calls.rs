//! Calls of clients: answered at once, handed to the control plane with their caller kept, or deferred until the tick.
//!
//! Left out: the messages (`doors`), the slow work of an opening (`control_plane::open`), and the limits of a client's calls
//! (`budget`).

use super::DataPlane;
use crate::data_plane::phase::{Cause, Phase};
use crate::data_plane::slot::{PendingCall, SessionSlot};
use crate::jobs::{Job, Jobs};
use blk_api::session::{Call, DONE, Refusal};
use platform::{CPtr, Kernel, Message, Platform};

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
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Done,
    /// The session's statistics.
    Statistics,
    Refused(Refusal),
}

impl Answer {
    /// The answer's message to the client of this session.
    fn message<P: Platform>(self, slot: Option<&SessionSlot<P>>) -> Message {
        match (self, slot.and_then(|slot| slot.phase.session())) {
            (Self::Statistics, Some(session)) => Message::with(DONE, &session.statistics),
            (Self::Done, _) => Message::new(DONE),
            (Self::Statistics, None) => Message::new(Refusal::NotOpen as u32),
            (Self::Refused(refusal), _) => Message::new(refusal as u32),
        }
    }
}

impl<P: Platform> DataPlane<P> {
    /// The message of an answer to the client of session `index`.
    #[inline]
    pub(crate) fn message(&self, index: usize, answer: Answer) -> Message {
        answer.message(self.slots.get(index))
    }

    /// Decides about a call of the client of session `index`, or about a message that was sent like one. Returns the answer, or
    /// `None` if the caller was kept.
    #[inline]
    pub(crate) fn on_call(&mut self, index: usize, call: Call) -> Option<Answer> {
        let kernel = self.platform.kernel();
        let refused = Some(Answer::Refused(Refusal::BadRequest));
        let Some(slot) = self.slots.get_mut(index) else { return refused };
        if slot.call.is_some_and(|pending| pending.call() == call) {
            // After a component's death the supervisor restarts every system call that waited for a component, so a client may
            // repeat its call: it continues to wait for the same answer.
            return if kernel.cnode_save_caller(slot.caller).is_err() { refused } else { None };
        }
        let verdict = if slot.budget.takes_call() { decide(slot, call) } else { Verdict::Wait };
        if let Verdict::Answer(answer) = verdict {
            return Some(answer);
        }
        // A client that waits for an answer cannot call again, so this one sends. No second caller is saved for it.
        if slot.call.is_some() || kernel.cnode_save_caller(slot.caller).is_err() {
            return refused;
        }
        keep(kernel, &self.jobs, slot, index, call, &verdict);
        None
    }

    /// Restores clients' budgets, and decides deferred calls, before new ones.
    pub(super) fn decide_deferred_calls(&mut self) {
        let Self { platform, jobs, slots, .. } = self;
        let now = platform.ticks();
        for (index, slot) in slots.iter_mut().enumerate() {
            slot.budget.refill();
            // Every session is polled after the tick.
            if let Some(session) = slot.phase.session_mut() {
                session.refill_refusals();
                session.go_on_with_retry(now);
            }
            let Some(PendingCall::Deferred(call)) = slot.call else { continue };
            slot.call = None;
            // A dead client waits for no answer; the answer frees the caller's cptr if the kernel has not.
            let is_dead = slot.client.death().is_some();
            let verdict = if is_dead { refuse(Refusal::NotOpen) } else { decide(slot, call) };
            keep(platform.kernel(), jobs, slot, index, call, &verdict);
        }
    }

    /// Answers the pending call of session `index`, if there is one. A client that sent instead of calling receives no answer,
    /// and the server does not wait for it.
    pub(crate) fn answer(&mut self, index: usize, message: &Message) {
        if let Some(slot) = self.slots.get_mut(index)
            && slot.call.take().is_some()
        {
            self.platform.kernel().nb_send(CPtr::new(slot.caller.index), message);
        }
    }
}

/// Carries out the decision about a call whose caller was saved.
fn keep<P: Platform>(
    kernel: &P::Kernel,
    jobs: &Jobs,
    slot: &mut SessionSlot<P>,
    index: usize,
    call: Call,
    verdict: &Verdict,
) {
    slot.call = Some(PendingCall::Decided(call));
    match verdict {
        Verdict::Answer(answer) => {
            slot.call = None;
            kernel.nb_send(CPtr::new(slot.caller.index), &answer.message(Some(&*slot)));
        }
        Verdict::Open => jobs.pass(Job::Open(index)),
        Verdict::Close => slot.end(Cause::Closed),
        Verdict::Wait => slot.call = Some(PendingCall::Deferred(call)),
    }
}

const fn refuse(refusal: Refusal) -> Verdict {
    Verdict::Answer(Answer::Refused(refusal))
}

fn decide<P: Platform>(slot: &mut SessionSlot<P>, call: Call) -> Verdict {
    match call {
        Call::Ping => Verdict::Answer(Answer::Done),
        Call::OfPolicy => refuse(Refusal::PolicyAlone),
        _ if slot.phase.is_expelled() => refuse(Refusal::Expelled),
        Call::Statistics => match slot.phase.session() {
            Some(_) => Verdict::Answer(Answer::Statistics),
            None => refuse(Refusal::NotOpen),
        },
        _ if slot.call.is_some() => refuse(Refusal::BadRequest),
        Call::Open => decide_open(slot),
        Call::Close => match slot.phase {
            Phase::Open(_) | Phase::Draining(_) | Phase::Lost(..) | Phase::Leaving(..) => Verdict::Close,
            Phase::Closed | Phase::Closing(..) | Phase::Drained(..) | Phase::TearingDown(_) | Phase::Expelled => {
                refuse(Refusal::NotOpen)
            }
        },
        Call::Unknown(_) => refuse(Refusal::BadRequest),
    }
}

fn decide_open<P: Platform>(slot: &mut SessionSlot<P>) -> Verdict {
    match slot.phase {
        Phase::Open(_)
        | Phase::Draining(_)
        | Phase::Lost(..)
        | Phase::Leaving(..)
        | Phase::Closing(..)
        | Phase::Drained(..) => {
            if !slot.client.died() {
                return refuse(Refusal::AlreadyOpen);
            }
            // The session of the client's previous incarnation ends first.
            slot.check_client();
            Verdict::Wait
        }
        Phase::Expelled => refuse(Refusal::Expelled),
        Phase::Closed | Phase::TearingDown(_) if slot.budget.takes_opening() => {
            slot.client.refresh();
            Verdict::Open
        }
        Phase::Closed | Phase::TearingDown(_) => Verdict::Wait,
    }
}
