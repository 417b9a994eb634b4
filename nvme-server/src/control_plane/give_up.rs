//! The end of all requests of a controller that is given up.

use crate::control_plane::administration;
use crate::link::Link;
use blk_api::Status;
use platform::Platform;

/// Gives the controller up: requests in flight are answered with `status`, without a confirmed reset, once the device cannot
/// reach the windows any more.
pub(super) fn give_up<P: Platform>(link: &Link<P>, status: Status) {
    link.with(|data| {
        let space = link.controller.space.borrow();
        for (_, session) in data.sessions() {
            space.unmap_pages(&session.window, 0..session.window.pages);
        }
        data.answer_all(|_| status);
        data.poll_all();
    });
    administration::give_up(link);
}
