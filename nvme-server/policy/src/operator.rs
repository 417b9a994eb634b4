//! Orders of the control component, one at a time: they are checked, kept and given to the enforcer, whose outcome is the answer.
//!
//! Left out: who may order. The badge says that, and the authority checker, that the control component alone has it.

use crate::enforcer::Enforcer;
use crate::kept::{Kept, Order};
use crate::rights_map::{RightsMap, Unsound};
use alloc::vec::Vec;
use blk_api::names;
use blk_api::orders::{MAY_RIGHTS, MAY_SHARE, OUTCOME, RIGHTS, RightsOrder, SHARE, ShareOrder};
use blk_api::policy::{DONE, Entitlement, Refusal, Share, What};
use platform::{Cap, Environment, Kernel, Message, Notification, Platform};

/// The control component's signal, and the page of kept orders.
pub(crate) struct Operator<P: Platform> {
    platform: P,
    control: Cap<Notification>,
    kept: Kept<P::Memory>,
    /// The shares of the sessions, as they were configured or ordered last.
    shares: Vec<Share>,
    last: Last,
}

/// The last order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    /// This incarnation had none.
    None,
    /// The enforcer carries it out.
    UnderWay(Order),
    /// The order is over.
    Over(Result<(), Refusal>),
}

impl<P: Platform> Operator<P> {
    /// The operator of a system with a control component; `None` in another.
    pub(crate) fn new(platform: P, environment: &Environment, shares: &[Entitlement]) -> Option<Self> {
        let control = environment.cap(names::CONTROL)?;
        let kept = Kept::new(platform.memory(environment.region(names::KEPT)?).ok()?);
        let shares = (0..).zip(shares).map(|(session, share)| Share::new(session, share)).collect();
        Some(Self { platform, control, kept, shares, last: Last::None })
    }

    /// Orders again what the incarnations before were ordered.
    pub(crate) fn repeat(&mut self, rights_map: &mut RightsMap, enforcer: &mut Enforcer<P>) {
        for order in self.kept.all() {
            // Each of them was possible after those before.
            if let Ok((session, what)) = change(&order)
                && let Ok(numbers) = rights_map.change(session, &what)
            {
                enforcer.decide(session, what, numbers);
            }
            self.remember(&order);
        }
    }

    /// The answer to a call with these rights in its badge.
    pub(crate) fn answer(
        &mut self,
        rights: u64,
        message: &Message,
        rights_map: &mut RightsMap,
        enforcer: &mut Enforcer<P>,
    ) -> Message {
        let answered = match message.label {
            OUTCOME => self.outcome(),
            _ => self.order(rights, message, rights_map).and_then(|order| self.give(order, rights_map, enforcer)),
        };
        answered.map_or_else(Refusal::message, |()| Message::new(DONE))
    }

    /// Signals the control component if the enforcer is done with the order.
    pub(crate) fn look(&mut self, enforcer: &mut Enforcer<P>) {
        let Last::UnderWay(order) = self.last else { return };
        let Some(outcome) = enforcer.take_outcome() else { return };
        // The server checks a share, so one is kept when it is in force. Rights were kept before they were taken.
        if outcome.is_ok() && matches!(order, Order::Share(_)) {
            self.kept.keep(order);
            self.remember(&order);
        }
        self.last = Last::Over(outcome);
        self.platform.kernel().signal(self.control);
    }

    /// Records the share of an order.
    fn remember(&mut self, order: &Order) {
        if let Order::Share(share) = order {
            self.shares.iter_mut().filter(|known| known.session == share.session).for_each(|known| *known = *share);
        }
    }

    fn outcome(&self) -> Result<(), Refusal> {
        match self.last {
            Last::None => Err(Refusal::Restarted),
            Last::UnderWay(_) => Err(Refusal::Busy),
            Last::Over(outcome) => outcome,
        }
    }

    /// The order of a message.
    fn order(&self, rights: u64, message: &Message, rights_map: &RightsMap) -> Result<Order, Refusal> {
        if matches!(self.last, Last::UnderWay(_)) {
            return Err(Refusal::Busy);
        }
        let (order, right) = match message.label {
            SHARE => {
                let order: ShareOrder = message.payload().map_err(|_| Refusal::BadRequest)?;
                let known = self.shares.iter().find(|known| known.session == order.session());
                let known = known.ok_or(Refusal::NoSession(order.session().into()))?;
                (Order::Share(order.applied_to(*known)), MAY_SHARE)
            }
            RIGHTS => {
                let order: RightsOrder = message.payload().map_err(|_| Refusal::BadRequest)?;
                self.check_whole(&order, rights_map)?;
                (Order::Rights(order), MAY_RIGHTS)
            }
            _ => return Err(Refusal::BadRequest),
        };
        if rights & right == 0 { Err(Refusal::NotAllowed) } else { Ok(order) }
    }

    /// Checks that an order about the client of a virtual function is about all of its blocks.
    fn check_whole(&self, order: &RightsOrder, rights_map: &RightsMap) -> Result<(), Refusal> {
        let account = usize::try_from(order.session).unwrap_or(usize::MAX);
        let all = rights_map.blocks(account).ok_or(Refusal::NoSession(order.session.into()))?;
        if account >= self.shares.len() && order.blocks != all {
            return Err(Refusal::WholeFunction(order.session.into()));
        }
        Ok(())
    }

    /// Changes the rights map by the order, keeps an order about rights, and gives the change to the enforcer.
    fn give(&mut self, order: Order, rights_map: &mut RightsMap, enforcer: &mut Enforcer<P>) -> Result<(), Refusal> {
        let (session, what) = change(&order)?;
        let mut changed = rights_map.clone();
        let numbers = changed.change(session, &what).map_err(refusal)?;
        let is_kept = match order {
            Order::Share(_) => self.kept.has_room(),
            Order::Rights(_) => self.kept.keep(order),
        };
        if !is_kept {
            return Err(Refusal::Exhausted);
        }
        *rights_map = changed;
        enforcer.order(session, what, numbers);
        self.last = Last::UnderWay(order);
        Ok(())
    }
}

/// The change that an order is: the session, and what changes.
fn change(order: &Order) -> Result<(u32, What), Refusal> {
    match order {
        Order::Share(share) => Ok((share.session, What::Entitle(share.entitlement()?))),
        Order::Rights(order) => Ok((order.session, order.what()?)),
    }
}

fn refusal(unsound: Unsound) -> Refusal {
    match unsound {
        Unsound::Impossible { .. } => Refusal::BadRequest,
        Unsound::NoSession(session) => Refusal::NoSession(session.into()),
        Unsound::NotNumbered { lba, blocks, .. } => Refusal::NotNumbered { lba, blocks },
        Unsound::Overlaps { lba, other_lba, .. } => Refusal::OthersHave { lba, other_lba },
    }
}
