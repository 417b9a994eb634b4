//! The end of all requests of a controller that is given up.

use crate::control_plane::administration;
use crate::link::Link;
use blk_api::Status;
use platform::Platform;

/// Takes the windows from the device, and then answers requests in flight with `status`, without a confirmed reset.
pub(super) fn end_requests<P: Platform>(link: &Link<P>, status: Status) {
    link.with(|data| {
        let space = link.controller.space.borrow();
        for (_, session) in data.sessions() {
            space.unmap_pages(&session.window, 0..session.window.pages);
        }
        data.answer_all(|_| status);
        data.poll_all();
    });
    administration::end_without_reset(link);
}
