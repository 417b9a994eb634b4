//! Brings the controller up, at the start and after a fault, with the queue pairs of the open sessions.
//!
//! Requests that were in flight are answered with a status of their own. Everything that was learnt at the first bring-up is learnt
//! again: sessions keep to what the controller can do now, and one for which it does not suffice any more ends. A controller that
//! cannot be brought up is given up: its sessions lose their windows and their requests are answered without it. So is one that is
//! gone, or exchanged for another (`removal`).

use crate::control_path::bring_up::bring_up;
use crate::control_path::functions;
use crate::control_path::identity::{Identity, Namespace};
use crate::control_path::provision::{make_common, users};
use crate::control_path::reconcile::{Desired, is_refused, reconcile};
use crate::control_path::requests::Control;
use crate::data_path::session::Session;
use crate::recovery::give_up::{abort_all, give_up};
use crate::recovery::removal::{Removal, lose};
use crate::sessions::phase::{Cause, Loss, Phase};
use crate::sessions::slot::SessionSlot;
use crate::shared::Shared;
use alloc::vec::Vec;
use blk_api::Status;
use core::ops::Range;
use nvme_driver::controller::Health;
use nvme_driver::fault::DeviceFault;
use platform::Platform;
use platform::log::{info, warn};

/// Times the controller is brought up again after one fault before it counts as dead.
const RESETS: u8 = 3;

/// Brings up a controller that was disabled with nothing in flight, and the open sessions' queue pairs with it; or resets it,
/// when that fails.
pub(crate) async fn bring_up_again<P: Platform>(shared: &Shared<P>) -> Option<Identity> {
    match bring_up_idle(shared).await {
        Ok(identity) => {
            serve_again(shared);
            Some(identity)
        }
        Err(fault) => {
            shared.report_reset(fault);
            recover(shared).await
        }
    }
}

/// Brings the controller up and the open sessions' queue pairs with it. `None` when it is given up.
pub(crate) async fn recover<P: Platform>(shared: &Shared<P>) -> Option<Identity> {
    info!("bringing the controller up");
    let mut exchanged = false;
    for attempt in 0..RESETS {
        if attempt > 0 {
            // Another attempt at once would fail likewise: the controller gets a tick.
            shared.controller.next_tick().await;
        }
        if shared.controller.is_gone() {
            break;
        }
        let reached = shared.controller.reach().await;
        if reached == Err(DeviceFault::Absent) {
            // It had all its time to come back.
            lose(shared, Removal::Gone).await;
            return None;
        }
        let recovered = match reached {
            Ok(()) => {
                let is_last = attempt.saturating_add(1) == RESETS;
                try_recover(shared, if is_last { Refused::EndsSessions } else { Refused::Fault }).await
            }
            Err(fault) => Err(fault),
        };
        match recovered {
            Ok(identity) => {
                serve_again(shared);
                return Some(identity);
            }
            Err(fault) => {
                shared.count(fault);
                exchanged |= fault == DeviceFault::Exchanged;
            }
        }
    }
    if shared.controller.is_gone() {
        lose(shared, Removal::Gone).await;
        return None;
    }
    if exchanged {
        lose(shared, Removal::Exchanged).await;
        return None;
    }
    shared.controller.health.set(Health::Dead);
    shared.report_failure(&alloc::format!(
        "the controller cannot be brought up, {} faults",
        shared.controller.faults.get()
    ));
    give_up(shared, Status::ControllerReset);
    shared.wake_data_plane();
    None
}

/// Lets commands be submitted again.
fn serve_again<P: Platform>(shared: &Shared<P>) {
    shared.controller.health.set(Health::Up);
    for slot in shared.slots.borrow_mut().iter_mut() {
        slot.poll();
    }
    shared.wake_data_plane();
}

/// Brings up a controller that was disabled with nothing in flight. Open sessions keep to what it can do now, and those for
/// which it does not suffice end.
async fn bring_up_idle<P: Platform>(shared: &Shared<P>) -> Result<Identity, DeviceFault> {
    let identity = bring_up(shared).await?;
    fit_sessions(shared, &identity);
    restore_use(shared, &identity, Refused::Fault).await?;
    Ok(identity)
}

/// The consequence of a queue pair that the controller refuses to create again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refused {
    /// The attempt fails, and the next one may not.
    Fault,
    /// The sessions that need it end, and no others.
    EndsSessions,
}

/// One attempt, with a controller that can be reached.
async fn try_recover<P: Platform>(shared: &Shared<P>, refused: Refused) -> Result<Identity, DeviceFault> {
    let identity = bring_up(shared).await?;
    shared.schedule.borrow_mut().reset(shared.platform.ticks());
    // The reset is confirmed: nothing is in flight any more, and the requests that were are answered.
    let losses = losses(shared, &identity);
    let status = |index: usize| losses.get(index).copied().flatten().map_or(Status::ControllerReset, Loss::status);
    for index in abort_all(shared, status) {
        if let Some(slot) = shared.slots.borrow_mut().get_mut(index) {
            slot.end(Cause::Expelled);
        }
    }
    fit_sessions(shared, &identity);
    restore_use(shared, &identity, refused).await?;
    Ok(identity)
}

/// By session, what it needs and the controller has no more.
pub(crate) fn losses<P: Platform>(shared: &Shared<P>, identity: &Identity) -> Vec<Option<Loss>> {
    let slots = shared.slots.borrow();
    slots.iter().map(|slot| slot.phase.session().and_then(|session| loss(identity, session))).collect()
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

/// Ends open sessions for which the controller does not suffice, and has the others keep to what it can do.
fn fit_sessions<P: Platform>(shared: &Shared<P>, identity: &Identity) {
    for (index, loss) in losses(shared, identity).into_iter().enumerate() {
        if let Some(loss) = loss {
            lose_session(shared, index, loss);
            continue;
        }
        let (queues, mut slots) = (shared.queues.borrow(), shared.slots.borrow_mut());
        if let Some(session) = slots.get_mut(index).and_then(|slot| slot.phase.session_mut()) {
            let max_transfer = queues.max_transfer(session.queues.clone(), identity.max_transfer);
            session.adapt(max_transfer, identity.abilities, shared.controller.retry_delays.get());
        }
    }
}

/// Ends a session that is open and has nothing in flight, because the controller lacks what it needs: its entries are answered
/// with a status of their own, and the device does not reach its window.
fn lose_session<P: Platform>(shared: &Shared<P>, index: usize, loss: Loss) {
    let mut slots = shared.slots.borrow_mut();
    let Some(slot) = slots.get_mut(index) else { return };
    let was_draining = matches!(slot.phase, Phase::Draining(_));
    let Some(session) = slot.phase.serving_mut() else { return };
    session.cut_short(loss.status());
    // Its client is answered once more when it is polled. A ring-index error has no consequence any more.
    let _ = session.publish();
    let (tenant, reason) = (session.config.tenant.as_str(), loss.reason());
    warn!("session {} ended: {}", tenant, reason);
    shared.report_failure(&alloc::format!("the session of {tenant} ended: {reason}"));
    shared.controller.space.borrow().unmap_pages(&session.target.window, 0..session.target.window.pages);
    slot.phase.lose(loss);
    slot.poll();
    if was_draining {
        // Its reconfiguration waits no longer.
        shared.control.pass(Control::Reconfigure);
    }
}

/// Restores what clients use: queue pairs and virtual functions.
async fn restore_use<P: Platform>(
    shared: &Shared<P>,
    identity: &Identity,
    refused: Refused,
) -> Result<(), DeviceFault> {
    create_queues(shared, identity, refused).await?;
    functions::restore(shared).await
}

/// Creates the queue pairs that existed before, which have nothing in flight.
async fn create_queues<P: Platform>(
    shared: &Shared<P>,
    identity: &Identity,
    refused: Refused,
) -> Result<(), DeviceFault> {
    shared.queues.borrow_mut().reset()?;
    make_common(shared, identity)?;
    for (users, desired) in in_use(shared, identity) {
        match reconcile(shared, &desired).await {
            Err(fault) if is_refused(fault) && refused == Refused::EndsSessions => {
                shared.count(fault);
                users.into_iter().for_each(|index| lose_session(shared, index, Loss::QueuePairs));
            }
            done => done?,
        }
    }
    Ok(())
}

/// The queue pairs that the controller is to have now, with the sessions that need them: shared ones one by one, or those of each
/// open session. None is above the controller's grant.
fn in_use<P: Platform>(shared: &Shared<P>, identity: &Identity) -> Vec<(Vec<usize>, Vec<Desired>)> {
    let (queues, slots) = (shared.queues.borrow(), shared.slots.borrow());
    let desired = |numbers: Range<u16>| -> Vec<Desired> {
        let granted = numbers.start..numbers.end.min(identity.queue_pairs);
        granted.filter_map(|number| Some(Desired { number, form: Some(queues.get(number)?.form()) })).collect()
    };
    let open = || slots.iter().enumerate().filter(|(_, slot)| slot.phase.has_queues());
    if let Some((queue_pairs, _)) = shared.config.queue_sharing.common() {
        let one = |number: u16| {
            let users =
                users(shared, number).filter(|index| slots.get(*index).is_some_and(|slot| slot.phase.has_queues()));
            (users.collect(), desired(number..number.saturating_add(1)))
        };
        return (0..queue_pairs).map(one).collect();
    }
    let own = |(index, slot): (usize, &SessionSlot<P>)| {
        Some((Vec::from([index]), desired(slot.phase.session()?.queues.clone())))
    };
    open().filter_map(own).collect()
}
