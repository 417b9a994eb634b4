//! A controller that is removed, in order or by surprise: sessions end with a status of their own, and the claim is released.
//!
//! The server of a controller in a slot has a page of presence (`pci_api::presence`), which it polls at ticks. Any controller
//! whose registers stay all ones counts as gone, too. After that no register is accessed: the PCI server takes the pages back.
//! The controller does not return to this incarnation of the server: the supervisor starts another one for what arrives.
//! Neighbours: `recover` recovers from faults, and comes here when there is nothing to recover.

use crate::control_plane::end_requests::end_requests;
use crate::jobs::Job;
use crate::link::Link;
use alloc::vec::Vec;
use blk_api::Status;
use nvme_driver::Health;
use nvme_driver::fault::DeviceFault;
use nvme_driver::interrupts::Vectors;
use nvme_driver::pci;
use nvme_driver::reset::shut_down;
use pci_api::presence::Presence;
use platform::log::{info, warn};
use platform::{Kernel, Platform};
use report::clip;

/// Seconds in which commands in flight may complete before the controller is shut down. The PCI server waits for longer than both
/// take together.
const DRAIN_SECONDS: u64 = 1;

/// Polls the slot at a tick.
pub(crate) fn on_tick<P: Platform>(link: &Link<P>) {
    let Some(arrival) = &link.controller.arrival else { return };
    match arrival.presence() {
        Presence::Present => {}
        Presence::Leaving if arrival.begin_to_leave() => {}
        Presence::Leaving => link.jobs.pass(Job::Leave),
        Presence::Absent => match link.controller.health.get() {
            Health::Gone => {}
            Health::Up | Health::Dead => {
                link.controller.health.set(Health::Down);
                link.controller.admin.fail_command(DeviceFault::Absent);
                link.jobs.pass(Job::Recover);
            }
            // Whatever waits for a command of it waits no longer.
            Health::Down => link.controller.admin.fail_command(DeviceFault::Absent),
        },
    }
}

/// Shuts the controller down, so that nothing that it acknowledged is lost with its power, and lets go of it.
pub(crate) async fn leave<P: Platform>(link: &Link<P>) {
    let controller = &link.controller.registers;
    if !link.controller.health.get().is_over() {
        info!("shutting the controller down");
        wait_until_idle(link).await;
        link.controller.health.set(Health::Down);
        let shut_down = shut_down(&link.platform, controller, || link.controller.tick.wait()).await;
        if let Err(fault) = shut_down.and_then(|()| controller.disable()) {
            warn!("the controller did not shut down: {}", clip::<96>(&alloc::format!("{fault}")).as_str());
        }
    }
    let_go(link, Removal::Gone).await;
}

/// Submits no command from here on, and lets those in flight complete (NVMe base specification 1.4, section 7.6.2).
pub(super) async fn wait_until_idle<P: Platform>(link: &Link<P>) {
    link.with(|data| data.hold_back());
    let limit = link.platform.ticks_per_second().saturating_mul(DRAIN_SECONDS);
    let deadline = link.platform.ticks().saturating_add(limit);
    while link.controller.health.get() == Health::Up
        && !link.with(|data| data.is_idle())
        && link.platform.ticks() < deadline
    {
        link.controller.next_tick().await;
    }
}

/// The way in which a controller is not there any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Removal {
    /// Nothing is in its place.
    Gone,
    /// Another disk is in its place, enabled and without I/O queues.
    Exchanged,
}

/// Ends all sessions' requests, because the controller is gone, and releases the claim of one in a slot. A disk in its place is
/// disabled and not used.
pub(crate) async fn let_go<P: Platform>(link: &Link<P>, removal: Removal) {
    if link.controller.health.replace(Health::Gone) == Health::Gone {
        return;
    }
    let faults = link.controller.faults.get();
    match removal {
        Removal::Exchanged => {
            // It may be gone as well by now.
            let _ = link.controller.registers.disable();
            link.report_failure(&alloc::format!("another disk is in the controller's place, {faults} faults"));
        }
        Removal::Gone if link.controller.arrival.is_some() => info!("the controller is gone"),
        Removal::Gone => link.report_failure(&alloc::format!("the controller is gone, {faults} faults")),
    }
    end_requests(link, Status::DeviceGone);
    if link.controller.arrival.is_some() {
        release_claim(link).await;
    }
    link.with(|data| data.wake());
}

async fn release_claim<P: Platform>(link: &Link<P>) {
    let by = link.controller.vectors.borrow().by();
    // Their handlers end with the claim.
    link.controller.vectors.replace(Vectors::new(Vec::new(), by, link.platform.kernel().irq_masks_messages()));
    if let Err(error) = pci::release(&link.platform, link.controller.server).await {
        warn!("the controller is not released: {}", clip::<96>(&alloc::format!("{error}")).as_str());
    }
    link.controller.space.borrow_mut().end();
}
