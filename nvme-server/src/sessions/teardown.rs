//! The end of a session, after its last command: its queue pairs deleted, its window taken from the device.

use crate::control_path::identity::Identity;
use crate::control_path::reconcile::{Desired, reconcile};
use crate::data_path::session::Session;
use crate::recovery::controller::recover;
use crate::sessions::calls::answer_pending;
use crate::sessions::phase::Cause;
use crate::sessions::slot::completed;
use crate::sessions::windows::unmap_window;
use crate::shared::Shared;
use blk_api::queue_sharing::QueueSharing;
use blk_api::session::{DONE, Refusal};
use nvme_driver::controller::Health;
use platform::log::info;
use platform::{Message, Platform};
use report::{Report, clip};

/// Ends a session that has nothing in flight any more: the queue pairs go, if they are its own, then the window.
pub(crate) async fn tear_down<P: Platform>(shared: &Shared<P>, identity: &mut Option<Identity>, index: usize) {
    let drained = shared.slots.borrow_mut().get_mut(index).and_then(|slot| slot.phase.tear_down());
    let Some((session, cause)) = drained else { return };
    let is_own = shared.config.queue_sharing == QueueSharing::Dedicated;
    if is_own
        && shared.controller.health.get() == Health::Up
        && let Err(fault) = reconcile(shared, &Desired::absent(session.queues.clone())).await
    {
        shared.fail(fault);
    }
    if shared.controller.health.get() == Health::Down {
        // Without deleted queues the window stays the device's until a reset is confirmed.
        *identity = recover(shared).await;
    }
    unmap_window(shared, &session.target.window).await;
    if let Some(slot) = shared.slots.borrow_mut().get_mut(index) {
        slot.phase.over();
    }
    shared.extents.borrow_mut().clear(index);
    shared.schedule.borrow_mut().set_waiting(index, false, shared.platform.ticks());
    report_end(shared, &session, cause);
    shared.controller.vectors.borrow().restart_count(|bit| completed(&shared.slots.borrow(), bit));
    match cause {
        Cause::Closed => answer_pending(shared, index, &Message::new(DONE)),
        Cause::Expelled => answer_pending(shared, index, &Message::new(Refusal::Expelled as u32)),
        Cause::Died => {}
    }
}

fn report_end<P: Platform>(shared: &Shared<P>, session: &Session<P>, cause: Cause) {
    let reason = match cause {
        Cause::Closed => "",
        Cause::Died => "its client died",
        Cause::Expelled => "it broke the ring protocol",
    };
    let statistics = session.statistics;
    let depth = shared.queues.borrow().get(session.queues.start).map_or(0, |queue| queue.form().depth);
    info!("session {} closed after {} requests", session.config.tenant.as_str(), statistics.requests);
    shared.report(&Report::Session(report::Session {
        tenant: clip(&session.config.tenant),
        ended_by: clip(reason),
        requests: statistics.requests,
        refused: statistics.refused,
        commands: statistics.commands,
        read_bytes: statistics.read_bytes,
        written_bytes: statistics.written_bytes,
        errors: statistics.errors,
        doorbells: statistics.doorbells,
        interrupts: session.interrupts,
        notifications: statistics.notifications,
        not_installed: statistics.not_installed,
        forbidden: statistics.forbidden,
        queue_pairs: session.queues.len() as u16,
        depth,
    }));
}
