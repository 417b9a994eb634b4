//! A change of the controller's interrupt mode while sessions are open.
//!
//! The policy component asks for it; `control_plane` carries it out. A controller takes up its interrupt mode when it is
//! enabled. So it has to be disabled for the change, and before that nothing may be in flight: the server submits no more
//! commands, and the data plane reports when the last one has completed, which the timeouts of commands bound. Then the
//! controller is disabled, the PCI server exchanges its interrupts, and it is brought up as after a reset. Requests wait on
//! their rings meanwhile, and the rest of a request that was submitted in part waits in its session: nothing is repeated or
//! lost. A mode that the function lacks is refused before anything is disturbed. If the PCI server refuses one, the
//! controller is brought up with the mode before.

use crate::control_path::changes::InterruptsChange;
use crate::control_path::requests::Control;
use crate::sessions::slot::completed;
use crate::shared::Shared;
use alloc::vec::Vec;
use blk_api::policy::Refusal;
use nvme_driver::controller::Health;
use nvme_driver::fault::DeviceFault;
use nvme_driver::interrupts::Vectors;
use nvme_driver::pci::{Interrupts, PciClient, PciError, Vector, has};
use platform::log::{info, warn};
use platform::{Kernel, Platform};
use report::clip;

/// The outcome of carrying it out.
pub(crate) enum Outcome {
    /// Commands are in flight: retried when they have completed.
    Waits,
    /// Nothing was done.
    Over,
    /// The controller is disabled, and its interrupts were exchanged or restored: it is to be brought up.
    Disabled,
    /// The controller failed first: after its recovery it is tried again.
    Faulty(DeviceFault),
}

/// Changes the interrupt mode to the one of this number, or begins to.
///
/// # Errors
/// [`Refusal::Busy`] until it is over; [`Refusal::NoInterrupts`] once, when it came to nothing.
pub(crate) fn set<P: Platform>(shared: &Shared<P>, number: u64) -> Result<(), Refusal> {
    let to = Interrupts::from_number(number).ok_or(Refusal::UnknownInterrupts(number))?;
    if let Some((_, why)) = shared.changes.interrupts_refused.take().filter(|(refused, _)| *refused == to) {
        return Err(why);
    }
    if shared.changes.interrupts.get().is_some() {
        return Err(Refusal::Busy);
    }
    if shared.controller.health.get() == Health::Gone {
        // The next incarnation has the controller.
        return Err(Refusal::Busy);
    }
    if shared.controller.vectors.borrow().by() == to {
        return Ok(());
    }
    shared.changes.interrupts.set(Some(InterruptsChange { to, waits: false }));
    shared.control.pass(Control::ChangeInterrupts);
    Err(Refusal::Busy)
}

/// Asks the control plane to continue a change that waited for commands, once none is in flight.
#[inline]
pub(crate) fn go_on_when_drained<P: Platform>(shared: &Shared<P>) {
    if let Some(InterruptsChange { to, waits: true }) = shared.changes.interrupts.get()
        && shared.is_drained()
    {
        shared.changes.interrupts.set(Some(InterruptsChange { to, waits: false }));
        shared.control.pass(Control::ChangeInterrupts);
    }
}

impl InterruptsChange {
    /// Does what can be done now.
    pub(crate) async fn carry_out<P: Platform>(self, shared: &Shared<P>) -> Outcome {
        if shared.controller.health.get() != Health::Up || !function_has(shared, self.to).await {
            return Outcome::Over;
        }
        if !shared.is_drained() {
            shared.changes.holds_back.set(true);
            shared.changes.interrupts.set(Some(Self { waits: true, ..self }));
            return Outcome::Waits;
        }
        // Nothing is submitted to a controller that is down.
        shared.controller.health.set(Health::Down);
        if let Err(fault) = shared.controller.disable().await {
            return Outcome::Faulty(fault);
        }
        let was = shared.controller.vectors.borrow().by();
        let (by, vectors) = exchange(shared, self.to, was).await;
        let masks_messages = shared.platform.kernel().irq_masks_messages();
        shared.controller.vectors.replace(Vectors::new(vectors, by, masks_messages));
        let mut slots = shared.slots.borrow_mut();
        for slot in slots.iter_mut() {
            if let Some(queues) = slot.phase.session().map(|session| session.queues.clone()) {
                slot.listen_to_vectors(shared.controller.vectors.borrow().bits_of(queues));
            }
        }
        shared.controller.vectors.borrow().restart_count(|bit| completed(&slots, bit));
        Outcome::Disabled
    }

    /// Notifies the policy component that the change is over, and lets commands be submitted again.
    pub(crate) fn end<P: Platform>(self, shared: &Shared<P>) {
        let by = shared.controller.vectors.borrow().by();
        shared.changes.interrupts.set(None);
        shared.changes.holds_back.set(false);
        if by == self.to {
            info!("the controller interrupts by {} from now on", by.name());
        } else if shared.controller.health.get() == Health::Gone {
            info!("the controller went before it could interrupt by {}", self.to.name());
        } else {
            warn!("the controller cannot interrupt by {} and stays with {}", self.to.name(), by.name());
            shared.changes.interrupts_refused.set(Some((self.to, Refusal::NoInterrupts(self.to))));
        }
        shared.wake_data_plane();
        shared.notify_policy();
    }
}

/// Whether the controller's function has this interrupt mode. If the PCI server does not list the function, the mode is tried.
async fn function_has<P: Platform>(shared: &Shared<P>, interrupts: Interrupts) -> bool {
    let slots = shared.controller.slots.borrow().clone();
    let pci = PciClient::resume(&shared.platform, &shared.environment, shared.controller.server, slots);
    for index in 0.. {
        match pci.function(index).await {
            Ok(Some(function)) if function.bdf == shared.controller.bdf => return has(&function, interrupts),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return true,
        }
    }
    true
}

/// Exchanges the interrupts of a disabled controller. Returns the mode and vectors it has now: the old mode, if the PCI server
/// refuses the new one. With no vectors at all the controller is served at ticks.
async fn exchange<P: Platform>(shared: &Shared<P>, to: Interrupts, was: Interrupts) -> (Interrupts, Vec<Vector>) {
    let slots = shared.controller.slots.borrow().clone();
    let mut pci = PciClient::resume(&shared.platform, &shared.environment, shared.controller.server, slots);
    let max_vectors = shared.config.queue_pairs().saturating_add(1);
    let mut given = (was, Vec::new());
    for by in [to, was] {
        match pci.change_interrupts(by, max_vectors).await {
            Ok(vectors) => {
                given = (by, vectors);
                break;
            }
            Err(error) => log_refusal(by, error),
        }
    }
    shared.controller.slots.replace(pci.into_slots());
    given
}

fn log_refusal(by: Interrupts, error: PciError) {
    warn!("no interrupts by {}: {}", by.name(), clip::<96>(&alloc::format!("{error}")).as_str());
}
