//! The slots of sessions: the state of a session whether it is open or not, and the choice of when it is polled.

use crate::data_plane::budget::Budget;
use crate::data_plane::hybrid::History;
use crate::data_plane::phase::{Cause, Phase};
use crate::data_plane::queues::Allotment;
use crate::data_plane::readiness::{Place, Readiness, ReadySet};
use crate::data_plane::session::{PollResult, Session};
use crate::watched::Watched;
use alloc::rc::Rc;
use alloc::vec::Vec;
use blk_api::config::{Completion, ServerConfig, badge};
use blk_api::names;
use blk_api::session::Call;
use platform::{AbsoluteCPtr, Badge, CPtr, Environment, Incarnation, Platform};

/// A session's slot, whether it is open or not.
pub(crate) struct SessionSlot<P: Platform> {
    pub phase: Phase<P>,
    /// The session's queue pairs at the next opening and after the next change.
    pub allotment: Allotment,
    /// A call of its client that waits for its answer; there is no other before.
    pub call: Option<PendingCall>,
    /// The client's budget until the next tick.
    pub budget: Budget,
    /// Whether the client is alive.
    pub client: Watched<P::Memory>,
    /// Cptr of its waiting caller.
    pub caller: AbsoluteCPtr,
    /// The badge bit of its client; other clients may share it.
    pub client_bit: u64,
    /// The badge bits of its queue pairs; other queue pairs may share them.
    pub vector_bits: u64,
    /// Whether the session may run now.
    pub place: Place,
    /// The outcome of this pass for it.
    pub polled: PollResult,
    /// The session's readiness as this pass found it.
    pub found: Readiness,
    /// The session's way to notice completions.
    pub completion: Completion,
    /// For a hybrid session, the history of whether polling for them paid.
    pub history: History,
}

impl<P: Platform> SessionSlot<P> {
    /// Begins to close the session of a client that died.
    pub(crate) fn check_client(&mut self) {
        if self.phase.open_mut().is_some() && self.client.died() {
            self.end(Cause::Died);
        }
    }

    /// The death of its client, once nothing is left of the client here: no session, open or half ended, and no call. Each
    /// death is returned once.
    pub(crate) fn acknowledge_death(&mut self) -> Option<Incarnation> {
        let is_left = !self.phase.is_over() || self.call.is_some();
        if is_left { None } else { self.client.new_death() }
    }

    /// Returns whether it has a session with a command in flight.
    pub(crate) fn has_commands(&self) -> bool {
        self.phase.session().is_some_and(Session::has_commands)
    }

    /// Sets the bits with which its queue pairs signal.
    pub(crate) fn listen_to_vectors(&mut self, bits: u64) {
        self.vector_bits = bits;
        self.place.listen(bits);
    }

    /// Returns whether the client, which signals, has submitted nothing: a signal with its bit was another client's.
    #[inline]
    pub(crate) fn has_nothing(&mut self) -> bool {
        match &mut self.phase {
            Phase::Open(session) => self.completion == Completion::Interrupt && session.has_nothing(),
            _ => false,
        }
    }

    /// Begins to end the session; its teardown follows when nothing is in flight any more.
    pub(crate) fn end(&mut self, cause: Cause) {
        self.phase.end(cause);
        self.place.wake();
    }
}

/// A call of a client that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PendingCall {
    /// The call is beyond its client's budget, and decided after the tick.
    Deferred(Call),
    /// The control plane answers it.
    Decided(Call),
}

impl PendingCall {
    /// The call.
    pub(crate) const fn call(self) -> Call {
        match self {
            Self::Deferred(call) | Self::Decided(call) => call,
        }
    }
}

/// Commands ever completed on the queue pairs of sessions whose vectors have this bit.
pub(crate) fn completed<P: Platform>(slots: &[SessionSlot<P>], bit: u32) -> u64 {
    let of_bit = slots.iter().filter(|slot| badge::raised(slot.vector_bits) & 1u32.rotate_left(bit) != 0);
    let sessions = of_bit.filter_map(|slot| slot.phase.session());
    sessions.fold(0, |sum, session| sum.wrapping_add(session.completed_commands()))
}

/// A slot for each configured session, none of them open. Waiting callers are kept at the cptrs from `callers` on.
pub(crate) fn slots<P: Platform>(
    platform: &P,
    environment: &Environment,
    config: &ServerConfig,
    callers: u64,
    ready: &Rc<ReadySet>,
) -> Option<Vec<SessionSlot<P>>> {
    let mut slots = Vec::new();
    for ((index, session), number) in config.sessions.iter().enumerate().zip(0u32..) {
        let client_bit = badge::client(number) & !Badge::SIGNAL;
        let sharers = (0u32..).zip(&config.sessions).filter(|(other, _)| badge::client(*other) & client_bit != 0);
        let budget = if sharers.count() == 1 { Budget::new() } else { Budget::with_shared_badge() };
        let caller = environment.absolute(CPtr::new(callers.checked_add(u64::from(number))?))?;
        let page = platform.memory(environment.region(&names::liveness(number))?).ok()?;
        let place = Place::new(ready, index);
        place.listen(client_bit);
        slots.push(SessionSlot {
            client: Watched::new(page),
            phase: Phase::Closed,
            allotment: Allotment { queue_pairs: session.queue_pairs, depth: session.depth },
            call: None,
            budget,
            caller,
            client_bit,
            vector_bits: 0,
            place,
            polled: PollResult::None,
            found: Readiness::Asleep,
            completion: session.completion,
            history: History::new(),
        });
    }
    Some(slots)
}
