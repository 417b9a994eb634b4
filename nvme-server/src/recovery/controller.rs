//! Brings the controller up, at the start and after a fault, with the queue pairs of the open sessions.
//!
//! Requests that were in flight are answered with a status of their own. A controller that cannot be brought up is given up:
//! its sessions lose their windows and their requests are answered without it. So is one that is gone (`removal`).

use crate::control_path::bring_up::{Identity, bring_up, reach};
use crate::control_path::functions;
use crate::control_path::provision::make_common;
use crate::control_path::reconcile::{Desired, reconcile};
use crate::controller::device::Health;
use crate::controller::fault::DeviceFault;
use crate::data_path::queues::Queues;
use crate::data_path::session::Session;
use crate::recovery::removal::lose;
use crate::sessions::phase::Cause;
use crate::shared::Shared;
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::queue_sharing::QueueSharing;
use platform::Platform;
use platform::log::info;

/// Times the controller is brought up again after one fault before it counts as dead.
const RESETS: u8 = 3;

/// Brings up a controller that was disabled with nothing in flight, and the open sessions' queue pairs with it; or resets it,
/// when that fails.
pub(crate) async fn bring_up_again<P: Platform>(shared: &Shared<P>) -> Option<Identity> {
    let brought_up = match bring_up_same(shared).await {
        Ok(identity) => restore_use(shared, &identity).await.map(|()| identity),
        Err(fault) => Err(fault),
    };
    match brought_up {
        Ok(identity) => {
            serve_again(shared, &identity);
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
    for attempt in 0..RESETS {
        if attempt > 0 {
            // Another attempt at once would fail likewise: the controller gets a tick.
            shared.device.tick.reset();
            shared.device.tick.wait().await;
        }
        if shared.is_gone() {
            break;
        }
        let reached = reach(shared).await;
        if reached == Err(DeviceFault::Absent) {
            // It had all its time to come back.
            lose(shared).await;
            return None;
        }
        let recovered = match reached {
            Ok(()) => try_recover(shared).await,
            Err(fault) => Err(fault),
        };
        match recovered {
            Ok(identity) => {
                serve_again(shared, &identity);
                return Some(identity);
            }
            Err(fault) => shared.count(fault),
        }
    }
    if shared.is_gone() {
        lose(shared).await;
        return None;
    }
    shared.device.health.set(Health::Dead);
    shared
        .report_failure(&alloc::format!("the controller cannot be brought up, {} faults", shared.device.faults.get()));
    give_up(shared, Status::ControllerReset);
    shared.wake_data_plane();
    None
}

/// Lets commands be submitted again.
fn serve_again<P: Platform>(shared: &Shared<P>, identity: &Identity) {
    shared.device.granted.set(identity.queue_pairs);
    shared.device.health.set(Health::Up);
    for slot in shared.slots.borrow_mut().iter_mut() {
        slot.poll();
    }
    shared.wake_data_plane();
}

/// Gives the controller up: requests in flight are answered with `status`, without a confirmed reset, once the device cannot
/// reach the windows any more.
pub(crate) fn give_up<P: Platform>(shared: &Shared<P>, status: Status) {
    shared.schedule.borrow_mut().reset(shared.platform.ticks());
    for slot in shared.slots.borrow_mut().iter_mut() {
        slot.poll();
        let Some(session) = slot.phase.session() else { continue };
        shared.function.space.borrow().unmap_pages(&session.target.window, 0..session.target.window.pages);
    }
    for index in abort_all(shared, status) {
        if let Some(slot) = shared.slots.borrow_mut().get_mut(index) {
            slot.end(Cause::Expelled);
        }
    }
}

/// Brings up the same controller as before, without I/O queue pairs.
async fn bring_up_same<P: Platform>(shared: &Shared<P>) -> Result<Identity, DeviceFault> {
    let identity = bring_up(shared).await?;
    if all_fit(shared, &identity) {
        Ok(identity)
    } else {
        Err(DeviceFault::Unusable("the controller came back as another"))
    }
}

/// One attempt, with a controller that can be reached.
async fn try_recover<P: Platform>(shared: &Shared<P>) -> Result<Identity, DeviceFault> {
    let identity = bring_up_same(shared).await?;
    shared.schedule.borrow_mut().reset(shared.platform.ticks());
    // The reset is confirmed: nothing is in flight any more, and the requests that were are answered.
    for index in abort_all(shared, Status::ControllerReset) {
        if let Some(slot) = shared.slots.borrow_mut().get_mut(index) {
            slot.end(Cause::Expelled);
        }
    }
    restore_use(shared, &identity).await?;
    Ok(identity)
}

/// Restores what clients use: queue pairs and virtual functions.
async fn restore_use<P: Platform>(shared: &Shared<P>, identity: &Identity) -> Result<(), DeviceFault> {
    create_queues(shared, identity).await?;
    functions::restore(shared).await
}

/// Creates the queue pairs that existed before, which have nothing in flight.
async fn create_queues<P: Platform>(shared: &Shared<P>, identity: &Identity) -> Result<(), DeviceFault> {
    shared.queues.borrow_mut().reset()?;
    make_common(shared, identity)?;
    let desired = in_use(shared);
    reconcile(shared, &desired).await
}

/// The queue pairs that the controller is to have now: shared ones, and those of open sessions.
fn in_use<P: Platform>(shared: &Shared<P>) -> Vec<Desired> {
    let (queues, slots) = (shared.queues.borrow(), shared.slots.borrow());
    let common = shared.config.queue_sharing.common().map_or(0..0, |(queue_pairs, _)| 0..queue_pairs);
    let is_own = shared.config.queue_sharing == QueueSharing::Dedicated;
    let open = slots.iter().filter_map(|slot| slot.phase.session()).filter(|_| is_own);
    let numbers = common.chain(open.flat_map(|session| session.queues.clone()));
    numbers.filter_map(|number| Some(Desired { number, form: Some(queues.get(number)?.form()) })).collect()
}

/// Answers all requests in flight, or submitted in part, with `status`. Returns the sessions whose
/// clients broke the protocol.
fn abort_all<P: Platform>(shared: &Shared<P>, status: Status) -> Vec<usize> {
    let mut slots = shared.slots.borrow_mut();
    let mut broken = Vec::new();
    for command in shared.queues.borrow_mut().drain() {
        let index = usize::from(command.work.session());
        let Some(session) = slots.get_mut(index).and_then(|slot| slot.phase.session_mut()) else { continue };
        session.lose(command, status);
    }
    for (index, slot) in slots.iter_mut().enumerate() {
        let Some(session) = slot.phase.session_mut() else { continue };
        session.cut_short(status);
        if session.publish().is_err() {
            broken.push(index);
        }
    }
    broken
}

/// Whether the open sessions can go on with the controller's identity after a reset.
fn all_fit<P: Platform>(shared: &Shared<P>, identity: &Identity) -> bool {
    let (slots, queues) = (shared.slots.borrow(), shared.queues.borrow());
    slots.iter().filter_map(|slot| slot.phase.session()).all(|session| fits(&queues, identity, session))
}

fn fits<P: Platform>(queues: &Queues<P>, identity: &Identity, session: &Session<P>) -> bool {
    let Session { config, bounds, namespace_blocks, .. } = session;
    let namespace = identity.namespaces.iter().find(|namespace| namespace.nsid.0 == config.nsid);
    let blocks_fit = namespace
        .is_some_and(|namespace| namespace.block_shift == bounds.block_shift && *namespace_blocks <= namespace.blocks);
    blocks_fit && queues.of(session.queues.clone()).all(|queue| queue.max_transfer <= identity.max_transfer)
}
