//! A change of the controller's interrupt mode while sessions are open.
//!
//! The policy component asks for it; the control plane carries it out. A controller takes up its interrupt mode when it is
//! enabled. So it has to be disabled for the change, and before that nothing may be in flight: the server submits no more
//! commands, and the data plane reports when the last one has completed, which the timeouts of commands bound. Then the
//! controller is disabled, the PCI server exchanges its interrupts, and it is brought up as after a reset. Requests wait on
//! their rings meanwhile, and the rest of a request that was submitted in part waits in its session: nothing is repeated or
//! lost. A mode that the function lacks is refused before anything is disturbed. If the PCI server refuses one, the
//! controller is brought up with the mode before.

use crate::control_plane::administration::Administration;
use crate::jobs::Job;
use crate::link::Link;
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
pub(crate) fn set<P: Platform>(link: &Link<P>, number: u64) -> Result<(), Refusal> {
    let to = Interrupts::from_number(number).ok_or(Refusal::UnknownInterrupts(number))?;
    if let Some((_, why)) = link.changes.interrupts_refused.take().filter(|(refused, _)| *refused == to) {
        return Err(why);
    }
    if link.changes.interrupts.get().is_some() {
        return Err(Refusal::Busy);
    }
    if link.controller.health.get() == Health::Gone {
        // The next incarnation has the controller.
        return Err(Refusal::Busy);
    }
    if link.controller.vectors.borrow().by() == to {
        return Ok(());
    }
    link.changes.interrupts.set(Some(to));
    link.jobs.pass(Job::ChangeInterrupts);
    Err(Refusal::Busy)
}

/// Does what can be done now for the mode `to`.
pub(super) async fn carry_out<P: Platform>(link: &Link<P>, to: Interrupts) -> Outcome {
    if link.controller.health.get() != Health::Up || !function_has(link, to).await {
        return Outcome::Over;
    }
    if link.administration.as_ref().is_some_and(Administration::is_busy) {
        // A command of the administration may take long, and sessions go on meanwhile.
        return Outcome::Waits;
    }
    let is_idle = link.with(|data| {
        data.hold_back();
        data.is_idle()
    });
    if !is_idle {
        link.with(|data| data.await_idle());
        return Outcome::Waits;
    }
    // Nothing is submitted to a controller that is down.
    link.controller.health.set(Health::Down);
    if let Err(fault) = link.controller.disable().await {
        return Outcome::Faulty(fault);
    }
    let was = link.controller.vectors.borrow().by();
    let (by, vectors) = exchange(link, to, was).await;
    let masks_messages = link.platform.kernel().irq_masks_messages();
    link.controller.vectors.replace(Vectors::new(vectors, by, masks_messages));
    link.with(|data| data.listen_to_vectors());
    Outcome::Disabled
}

/// Notifies the policy component that the change to the mode `to` is over, and lets commands be submitted again.
pub(super) fn end<P: Platform>(link: &Link<P>, to: Interrupts) {
    let by = link.controller.vectors.borrow().by();
    link.changes.interrupts.set(None);
    if by == to {
        info!("the controller interrupts by {} from now on", by.name());
    } else if link.controller.health.get() == Health::Gone {
        info!("the controller went before it could interrupt by {}", to.name());
    } else {
        warn!("the controller cannot interrupt by {} and stays with {}", to.name(), by.name());
        link.changes.interrupts_refused.set(Some((to, Refusal::NoInterrupts(to))));
    }
    link.with(|data| data.go_on());
    link.notify_policy();
}

/// Whether the controller's function has this interrupt mode. If the PCI server does not list the function, the mode is tried.
async fn function_has<P: Platform>(link: &Link<P>, interrupts: Interrupts) -> bool {
    let cptrs = link.controller.cptrs.borrow().clone();
    let pci = PciClient::resume(&link.platform, &link.environment, link.controller.server, cptrs);
    for index in 0.. {
        match pci.function(index).await {
            Ok(Some(function)) if function.bdf == link.controller.bdf => return has(&function, interrupts),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return true,
        }
    }
    true
}

/// Exchanges the interrupts of a disabled controller. Returns the mode and vectors it has now: the old mode, if the PCI server
/// refuses the new one. With no vectors at all the controller is served at ticks.
async fn exchange<P: Platform>(link: &Link<P>, to: Interrupts, was: Interrupts) -> (Interrupts, Vec<Vector>) {
    let cptrs = link.controller.cptrs.borrow().clone();
    let mut pci = PciClient::resume(&link.platform, &link.environment, link.controller.server, cptrs);
    let max_vectors = link.config.queue_pairs().saturating_add(1);
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
    link.controller.cptrs.replace(pci.into_cptrs());
    given
}

fn log_refusal(by: Interrupts, error: PciError) {
    warn!("no interrupts by {}: {}", by.name(), clip::<96>(&alloc::format!("{error}")).as_str());
}
