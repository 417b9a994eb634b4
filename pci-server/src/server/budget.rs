//! The budget of each client that drives a virtual function: its calls that are answered from one tick to the next.
//!
//! The server runs before all clients, so a call of one takes processor time from the others. A call beyond the budget is kept with
//! its caller and answered after a tick, so the client makes no more calls meanwhile. Drivers of other functions are servers,
//! which run before all clients themselves, and have no budget.
//!
//! Left out: a client that sends without waiting for an answer. Each message still wakes the server, which looks at nothing
//! but the budget.

use super::Server;
use crate::resources::{Missing, Resources};
use alloc::vec::Vec;
use pci_api::DriverConfig;
use platform::log::error;
use platform::{Allowance, Badge, CPtr, Kernel, Message, Platform};

/// Calls of each client at once: a claim with all that belongs to it takes eight.
const BURST: u32 = 32;
/// Calls that a tick restores, of all clients together; at least one of each.
const A_TICK: usize = 4;

/// A client's calls since the last tick.
#[derive(Debug)]
pub(super) struct Budget {
    allowance: Allowance,
    /// The call that waits for a tick.
    kept: Option<Message>,
    /// The cptrs of its caller, and of the capability that came with it.
    caller: CPtr,
    cap: CPtr,
}

impl Budget {
    /// Full budgets for the clients among `drivers`, in their order.
    pub(super) fn all<P: Platform>(
        resources: &mut Resources<P>,
        drivers: &[DriverConfig],
    ) -> Result<Vec<Option<Self>>, Missing> {
        let clients = drivers.iter().filter(|driver| driver.allowed.is_virtual()).count();
        let a_tick = u32::try_from(A_TICK.checked_div(clients).unwrap_or(A_TICK).max(1)).unwrap_or(1);
        let mut budget = |driver: &DriverConfig| {
            if !driver.allowed.is_virtual() {
                return Ok(None);
            }
            let mut cptr = || resources.cptrs.take().map_err(|_| Missing("cptrs for its clients' calls"));
            let (caller, cap) = (cptr()?, cptr()?);
            Ok(Some(Self { allowance: Allowance::with_burst(BURST, a_tick), kept: None, caller, cap }))
        };
        drivers.iter().map(&mut budget).collect()
    }

    /// Keeps a call, with the capability that came with it into `received`. One that cannot be kept is not answered.
    fn keep<P: Platform>(&mut self, resources: &Resources<P>, message: &Message, received: CPtr) {
        let (kernel, to) = (resources.kernel(), resources.absolute(self.cap));
        let moved = kernel.cnode_delete(to).and_then(|()| match message.cap_received {
            true => kernel.cnode_move(to, resources.absolute(received)),
            false => Ok(()),
        });
        match moved {
            Ok(()) => self.kept = Some(message.clone()),
            Err(reason) => error!("the kernel refused keeping a call: {}", reason),
        }
    }

    /// Takes the kept call if it fits now, and puts its capability back into `received`.
    fn take_kept<P: Platform>(&mut self, resources: &Resources<P>, received: CPtr) -> Option<Message> {
        let message = self.kept.take_if(|_| self.allowance.takes(1))?;
        if message.cap_received
            && let Err(reason) =
                resources.kernel().cnode_move(resources.absolute(received), resources.absolute(self.cap))
        {
            error!("the kernel refused moving a kept capability: {}", reason);
        }
        Some(message)
    }

    /// Forgets the call of a client that died.
    pub(super) fn forget<P: Platform>(&mut self, resources: &Resources<P>) {
        self.kept = None;
        for cptr in [self.caller, self.cap] {
            if let Err(reason) = resources.kernel().cnode_delete(resources.absolute(cptr)) {
                error!("the kernel refused forgetting a call: {}", reason);
            }
        }
    }
}

impl<P: Platform> Server<P> {
    /// Keeps a call that is beyond its client's budget until a tick; returns whether it is.
    pub(super) fn keeps(&mut self, badge: Badge, message: &Message) -> bool {
        let Ok(driver) = self.driver_of(badge) else { return false };
        let Some(budget) = self.budgets.get_mut(driver).and_then(Option::as_mut) else { return false };
        if budget.kept.is_none() && budget.allowance.takes(1) {
            return false;
        }
        let saved = self.resources.kernel().cnode_save_caller(self.resources.absolute(budget.caller));
        // A cptr that is taken has the caller of a call that waits already. That client does not call again, so this one is sent.
        if saved.is_ok() {
            budget.keep(&self.resources, message, self.receive_cptr);
        }
        if message.cap_received {
            // Unless it was moved.
            self.drop_received();
        }
        true
    }

    /// Restores the budgets at a tick, and answers the calls that wait and fit now.
    pub(super) fn answer_kept(&mut self) {
        for driver in 0..self.budgets.len() {
            let Some(budget) = self.budgets.get_mut(driver).and_then(Option::as_mut) else { continue };
            budget.allowance.refill();
            let Some(message) = budget.take_kept(&self.resources, self.receive_cptr) else { continue };
            let caller = budget.caller;
            let badge = Badge(u64::try_from(driver).unwrap_or(u64::MAX).saturating_add(1));
            let answer = self.answer(badge, &message);
            if message.cap_received {
                self.drop_received();
            }
            // The answer frees the cptr. A caller that is gone is not waited for.
            self.resources.kernel().nb_send(caller, &answer);
        }
    }
}
