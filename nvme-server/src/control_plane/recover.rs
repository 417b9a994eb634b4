//! Brings the controller up, at the start and after a fault, with the queue pairs of the open sessions.
//!
//! Requests that were in flight are answered with a status of their own. Everything that was learnt at the first bring-up is learnt
//! again: sessions keep to what the controller can do now, and one for which it does not suffice any more ends. A controller that
//! cannot be brought up is given up: its sessions lose their windows and their requests are answered without it. So is one that is
//! gone, or exchanged for another (`remove`).

use super::ControlPlane;
use crate::control_plane::end_requests::end_requests;
use crate::control_plane::functions;
use crate::control_plane::identity::Identity;
use crate::control_plane::losses::{end_by_loss, losses};
use crate::control_plane::provision::make_common;
use crate::control_plane::reconcile::{is_refused, reconcile};
use crate::control_plane::remove::{Removal, let_go};
use crate::data_plane::phase::Loss;
use crate::link::Link;
use blk_api::Status;
use nvme_driver::Health;
use nvme_driver::fault::DeviceFault;
use platform::Platform;
use platform::log::info;

/// Times the controller is brought up again after one fault before it counts as dead.
const RESETS: u8 = 3;

impl<P: Platform> ControlPlane<'_, P> {
    /// Brings up a controller that was disabled with nothing in flight, and the open sessions' queue pairs with it; or resets it,
    /// when that fails.
    pub(super) async fn bring_up_again(&mut self) {
        match self.bring_up_idle().await {
            Ok(identity) => self.serve_again(identity),
            Err(fault) => {
                self.link.report_reset(fault);
                self.recover().await;
            }
        }
    }

    /// Brings the controller up and the open sessions' queue pairs with it. Without an identity it is given up.
    pub(super) async fn recover(&mut self) {
        info!("bringing the controller up");
        self.identity = None;
        let (link, mut exchanged) = (self.link, false);
        for attempt in 0..RESETS {
            if attempt > 0 {
                // Another attempt at once would fail likewise: the controller gets a tick.
                link.controller.next_tick().await;
            }
            if link.controller.is_gone() {
                break;
            }
            let reached = link.controller.reach().await;
            if reached == Err(DeviceFault::Absent) {
                // It had all its time to come back.
                return let_go(link, Removal::Gone).await;
            }
            let recovered = match reached {
                Ok(()) => {
                    let is_last = attempt.saturating_add(1) == RESETS;
                    self.try_recover(if is_last { Refused::EndsSessions } else { Refused::Fault }).await
                }
                Err(fault) => Err(fault),
            };
            match recovered {
                Ok(identity) => return self.serve_again(identity),
                Err(fault) => {
                    link.count(fault);
                    exchanged |= fault == DeviceFault::Exchanged;
                }
            }
        }
        if link.controller.is_gone() {
            return let_go(link, Removal::Gone).await;
        }
        if exchanged {
            return let_go(link, Removal::Exchanged).await;
        }
        link.controller.health.set(Health::Dead);
        let faults = link.controller.faults.get();
        link.report_failure(&alloc::format!("the controller cannot be brought up, {faults} faults"));
        end_requests(link, Status::ControllerReset);
    }

    /// Lets commands be submitted again.
    fn serve_again(&mut self, identity: Identity) {
        self.identity = Some(identity);
        self.show_namespaces();
        self.link.controller.health.set(Health::Up);
        self.link.with(|data| data.poll_all());
    }

    /// Brings up a controller that was disabled with nothing in flight. Open sessions keep to what it can do now, and those for
    /// which it does not suffice end.
    async fn bring_up_idle(&mut self) -> Result<Identity, DeviceFault> {
        let identity = self.bring_up().await?;
        fit_sessions(self.link, &identity);
        restore_use(self.link, &identity, Refused::Fault).await?;
        Ok(identity)
    }

    /// An attempt, with a controller that can be reached.
    async fn try_recover(&mut self, refused: Refused) -> Result<Identity, DeviceFault> {
        let identity = self.bring_up().await?;
        // The reset is confirmed: nothing is in flight any more, and the requests that were are answered.
        let losses = losses(self.link, &identity);
        let status = |index: usize| {
            let loss = losses.iter().find(|(of, _)| *of == index);
            loss.map_or(Status::ControllerReset, |(_, loss)| loss.status())
        };
        self.link.with(|data| data.answer_all(status));
        fit_sessions(self.link, &identity);
        restore_use(self.link, &identity, refused).await?;
        Ok(identity)
    }
}

/// The consequence of a queue pair that the controller refuses to create again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refused {
    /// The attempt fails, and the next one may not.
    Fault,
    /// The sessions that need it end, and no others.
    EndsSessions,
}

/// Ends open sessions for which the controller does not suffice, and has the others keep to what it can do.
fn fit_sessions<P: Platform>(link: &Link<P>, identity: &Identity) {
    losses(link, identity).into_iter().for_each(|(index, loss)| end_by_loss(link, index, loss));
    let delays = link.controller.retry_delays.get();
    link.with(|data| data.adapt(identity.max_transfer, identity.abilities, delays));
}

/// Restores what clients use: queue pairs and virtual functions.
async fn restore_use<P: Platform>(link: &Link<P>, identity: &Identity, refused: Refused) -> Result<(), DeviceFault> {
    create_queues(link, identity, refused).await?;
    functions::restore(link).await
}

/// Creates the queue pairs that existed before, which have nothing in flight.
async fn create_queues<P: Platform>(link: &Link<P>, identity: &Identity, refused: Refused) -> Result<(), DeviceFault> {
    link.with(|data| data.reset_queues())?;
    make_common(link, identity)?;
    for (users, desired) in link.with(|data| data.in_use(identity.queue_pairs)) {
        match reconcile(link, &desired).await {
            Err(fault) if is_refused(fault) && refused == Refused::EndsSessions => {
                link.count(fault);
                users.into_iter().for_each(|index| end_by_loss(link, index, Loss::QueuePairs));
            }
            done => done?,
        }
    }
    Ok(())
}
