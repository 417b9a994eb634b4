//! Sessions that lose what they need: a namespace that is another one, shrank or goes, or queue pairs that the controller grants no more.
//!
//! After a reset nothing is in flight, and a session is lost at once. While the controller works, its sessions first take no more
//! entries and their commands in flight complete, so that nothing reaches a namespace that changes.

use super::ControlPlane;
use crate::control_plane::identity::{Identity, Namespace};
use crate::control_plane::reconcile::reconcile;
use crate::data_plane::operations::Lost;
use crate::data_plane::phase::Loss;
use crate::data_plane::session::Session;
use crate::jobs::Job;
use crate::link::Link;
use alloc::vec::Vec;
use blk_api::queue_sharing::QueueSharing;
use nvme_driver::Health;
use nvme_driver::fault::DeviceFault;
use nvme_driver::plan::Desired;
use platform::Platform;
use platform::log::warn;

/// Seconds in which commands in flight must complete. A controller that takes longer is reset.
const DRAIN_SECONDS: u64 = 10;

impl<P: Platform> ControlPlane<'_, P> {
    /// Ends these sessions for their losses, after their commands in flight.
    pub(super) async fn end_sessions(&mut self, lost: Vec<(usize, Loss)>) {
        let link = self.link;
        for (index, loss) in &lost {
            if link.with(|data| data.leave(*index, *loss)) {
                // The change of its queue pairs waits no longer.
                link.jobs.pass(Job::Reshape);
            }
        }
        let limit = link.platform.ticks_per_second().saturating_mul(DRAIN_SECONDS);
        let deadline = link.platform.ticks().saturating_add(limit);
        while link.with(|data| lost.iter().any(|(index, _)| data.has_commands(*index))) {
            if self.is_down() {
                // Its reset ends them.
                self.recover().await;
            } else if link.platform.ticks() > deadline {
                link.fail(DeviceFault::TimedOut);
            } else {
                link.controller.next_tick().await;
            }
        }
        for (index, loss) in lost {
            let queues = link.with(|data| data.queues_of_lost(index));
            end_by_loss(link, index, loss);
            if link.config.queue_sharing == QueueSharing::Dedicated
                && link.controller.health.get() == Health::Up
                && let Some(queues) = queues
            {
                let absent: Vec<_> = Desired::absent(queues).collect();
                if let Err(fault) = reconcile(link, &absent).await {
                    link.fail(fault);
                }
            }
        }
    }
}

/// The losses by session: what a session needs and the controller has no more.
pub(super) fn losses<P: Platform>(link: &Link<P>, identity: &Identity) -> Vec<(usize, Loss)> {
    link.with(|data| data.sessions().filter_map(|(index, session)| Some((index, loss(identity, session)?))).collect())
}

fn loss<P: Platform>(identity: &Identity, session: &Session<P>) -> Option<Loss> {
    // A namespace that is there is the first of its number. It may have grown before the session was opened, and shrunk since.
    let suffices =
        |namespace: &Namespace| namespace.nsid.0 == session.config.nsid && namespace.blocks >= session.namespace_blocks;
    let is_there = identity.namespaces.iter().any(suffices);
    if !is_there {
        Some(Loss::Namespace)
    } else if session.queues.end > identity.queue_pairs {
        Some(Loss::QueuePairs)
    } else {
        None
    }
}

/// Ends a session that is open and has nothing in flight, because the controller lacks what it needs: its entries are answered
/// with a status of their own, and the device does not reach its window.
pub(super) fn end_by_loss<P: Platform>(link: &Link<P>, index: usize, loss: Loss) {
    let Some(Lost { tenant, window, was_draining }) = link.with(|data| data.end_by_loss(index, loss)) else { return };
    let reason = loss.reason();
    warn!("session {} ended: {}", tenant.as_str(), reason);
    if loss != Loss::Taken {
        link.report_failure(&alloc::format!("the session of {tenant} ended: {reason}"));
    }
    link.controller.space.borrow().unmap_pages(&window, 0..window.pages);
    if was_draining {
        // The change of its queue pairs waits no longer.
        link.jobs.pass(Job::Reshape);
    }
}
