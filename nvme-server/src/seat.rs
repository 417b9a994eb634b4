//! The places of sessions: what is known of one whether it is open or not, and when to look at it.

use crate::board::{Board, Mark};
use crate::budget::Budget;
use crate::dma::Window;
use crate::queues::Allotment;
use crate::server::Control;
use crate::session::Session;
use alloc::rc::Rc;
use alloc::vec::Vec;
use blk_api::config::{Completion, ServerConfig, badge};
use platform::{AbsoluteCPtr, Badge, CPtr, Environment, Life, Memory, Platform};

/// A session's place, open or not.
pub(crate) struct Seat<P: Platform> {
    /// The open session.
    pub session: Option<Session<P>>,
    /// It broke the protocol and is not opened again.
    pub expelled: bool,
    /// It is being closed: completions are taken, entries are not.
    pub closing: bool,
    /// What the control plane is to be asked once nothing is in flight any more: nobody else waits for that.
    pub ending: Option<Control>,
    /// Its queue pairs are to be made anew once nothing is in flight any more, and take nothing meanwhile.
    pub requeue: bool,
    /// What its queue pairs are like at the next opening, and at the next change.
    pub allotment: Allotment,
    /// The label of a call of its client that is kept; there is no other before that is answered.
    pub asked: Option<u32>,
    /// It is beyond its budget, and kept until the tick.
    pub put_off: Option<u32>,
    /// What its client may still ask for before the tick.
    pub budget: Budget,
    /// Its window's addresses, kept for the next opening.
    pub window: Option<Window>,
    /// Whether its client lives.
    pub client: Watched<P::Memory>,
    /// After which death of its client the supervisor was told that nothing is left of the session.
    pub buried: Life,
    /// Where its waiting caller is kept.
    pub caller: AbsoluteCPtr,
    /// The badge bit that may mean its client.
    pub client_bit: u64,
    /// The badge bits that may mean its queue pairs.
    pub vector_bits: u64,
    /// When to look at it, which [`Seat::attend`] sets.
    attention: Attention,
    mark: Mark,
    /// What this pass came to with it.
    pub visit: Visit,
    /// How completions are noticed.
    pub completion: Completion,
}

impl<P: Platform> Seat<P> {
    /// Begins to close the session of a client that died.
    pub(crate) fn look_at_client(&mut self, index: usize) {
        if self.session.is_some() && !self.closing && self.client.died() {
            self.end(Control::Bury(index));
        }
    }

    /// The death of its client after which nothing is left of it here: no session, open or half ended, and no call. Each
    /// death once.
    pub(crate) fn bury(&mut self) -> Option<Life> {
        let death = self.client.death()?;
        let is_left = self.session.is_some() || self.closing || self.asked.is_some();
        let is_told = self.buried == death;
        if is_left || is_told {
            return None;
        }
        self.buried = death;
        Some(death)
    }

    /// Says when to look at it.
    #[inline]
    pub(crate) fn attend(&mut self, attention: Attention) {
        self.attention = attention;
        self.mark.set(attention != Attention::OnSignal);
    }

    /// When to look at it.
    #[inline]
    pub(crate) const fn attention(&self) -> Attention {
        self.attention
    }

    /// It is looked at in the next pass, if it was not to be looked at anyway.
    #[inline]
    pub(crate) fn look_soon(&mut self) {
        if self.attention == Attention::OnSignal {
            self.attend(Attention::Now(0));
        }
    }

    /// Its queue pairs signal with these bits from now on.
    pub(crate) fn hear_vectors(&mut self, bits: u64) {
        self.vector_bits = bits;
        self.mark.hears(bits);
    }

    /// The session while it may be given turns, and where it is noted that it had one.
    pub(crate) fn serving(&mut self) -> Option<(&mut Visit, &mut Session<P>)> {
        let session = self.session.as_mut().filter(|_| !self.closing)?;
        Some((&mut self.visit, session))
    }

    /// What the control plane is asked when the queue pairs that are to be made anew have nothing in flight any more.
    #[inline]
    pub(crate) fn drained(&mut self) -> Option<Control> {
        if !self.requeue || self.session.as_ref().is_some_and(Session::has_commands) {
            return None;
        }
        self.requeue = false;
        Some(Control::Requeue)
    }

    /// Begins to close the session; `control` follows when nothing is in flight any more.
    pub(crate) fn end(&mut self, control: Control) {
        self.closing = true;
        self.ending = Some(control);
        self.attend(Attention::Now(0));
    }
}

/// A client's page of lives, and the life in which its session was opened.
pub(crate) struct Watched<M> {
    page: M,
    life: Life,
}

impl<M: Memory> Watched<M> {
    /// From now on it is about the client that lives now. One that died since it called stays dead.
    pub(crate) fn renew(&mut self) {
        if let Ok(life) = Life::load(&self.page)
            && life.is_alive()
        {
            self.life = life;
        }
    }

    /// Its client's death, if that is dead.
    pub(crate) fn death(&self) -> Option<Life> {
        Life::load(&self.page).ok().filter(|life| !life.is_alive())
    }

    /// Whether the client that the session was opened for lives no more.
    pub(crate) fn died(&self) -> bool {
        Life::load(&self.page).is_ok_and(|life| life != self.life)
    }
}

/// What a pass came to with a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Visit {
    /// It was not looked at.
    None,
    /// There was nothing.
    Looked,
    /// It had completions.
    Completions,
    /// It had a turn.
    Turn,
}

/// When the data plane looks at a session next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attention {
    /// When it is signalled.
    OnSignal,
    /// Now; after this many looks that found nothing.
    Now(u16),
}

/// A place for each configured session, none of them open. Waiting callers are kept in the slots from `callers` on.
pub(crate) fn seats<P: Platform>(
    platform: &P,
    environment: &Environment,
    config: &ServerConfig,
    callers: u64,
    board: &Rc<Board>,
) -> Option<Vec<Seat<P>>> {
    let mut seats = Vec::new();
    for ((index, session), number) in config.sessions.iter().enumerate().zip(0u32..) {
        let client_bit = badge::client(number) & !Badge::SIGNAL;
        let sharers = (0u32..).zip(&config.sessions).filter(|(other, _)| badge::client(*other) & client_bit != 0);
        let budget = if sharers.count() == 1 { Budget::new() } else { Budget::with_shared_badge() };
        let caller = environment.slot(CPtr::new(callers.checked_add(u64::from(number))?))?;
        let page = platform.memory(environment.region(&alloc::format!("life-{number}"))?).ok()?;
        let mark = Mark::new(board, index);
        mark.hears(client_bit);
        seats.push(Seat {
            client: Watched { page, life: Life::FIRST },
            buried: Life::FIRST,
            session: None,
            expelled: false,
            closing: false,
            ending: None,
            requeue: false,
            allotment: Allotment { queue_pairs: session.queue_pairs, depth: session.depth },
            asked: None,
            put_off: None,
            budget,
            window: None,
            caller,
            client_bit,
            vector_bits: 0,
            attention: Attention::OnSignal,
            mark,
            visit: Visit::None,
            completion: session.completion,
        });
    }
    Some(seats)
}
