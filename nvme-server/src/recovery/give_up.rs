//! The end of all requests: of a controller that is given up, or was reset.

use crate::sessions::phase::Cause;
use crate::shared::Shared;
use alloc::vec::Vec;
use blk_api::Status;
use platform::Platform;

/// Gives the controller up: requests in flight are answered with `status`, without a confirmed reset, once the device cannot
/// reach the windows any more.
pub(crate) fn give_up<P: Platform>(shared: &Shared<P>, status: Status) {
    shared.schedule.borrow_mut().reset(shared.platform.ticks());
    for slot in shared.slots.borrow_mut().iter_mut() {
        slot.poll();
        let Some(session) = slot.phase.session() else { continue };
        shared.controller.space.borrow().unmap_pages(&session.target.window, 0..session.target.window.pages);
    }
    for index in abort_all(shared, |_| status) {
        if let Some(slot) = shared.slots.borrow_mut().get_mut(index) {
            slot.end(Cause::Expelled);
        }
    }
}

/// Answers all requests in flight, or submitted in part, with the session's `status`. Returns the sessions whose clients broke the
/// protocol.
pub(crate) fn abort_all<P: Platform>(shared: &Shared<P>, status: impl Fn(usize) -> Status) -> Vec<usize> {
    let mut slots = shared.slots.borrow_mut();
    let mut broken = Vec::new();
    for command in shared.queues.borrow_mut().drain() {
        let index = usize::from(command.work.session());
        let Some(session) = slots.get_mut(index).and_then(|slot| slot.phase.session_mut()) else { continue };
        session.lose(command, status(index));
    }
    for (index, slot) in slots.iter_mut().enumerate() {
        let Some(session) = slot.phase.session_mut() else { continue };
        session.cut_short(status(index));
        if session.publish().is_err() {
            broken.push(index);
        }
    }
    broken
}
