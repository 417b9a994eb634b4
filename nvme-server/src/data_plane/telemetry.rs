//! Shows the build machine the statistics of the server and its sessions.
//!
//! The path of a request counts latencies in the session's own memory ([`latencies`](super::latencies)). The [pages](super::pages) are
//! written at ticks, and a session's once more when the session ends, so they cost a request nothing. A server without a region of
//! telemetry counts no latencies.

use super::DataPlane;
use crate::data_plane::session::Session;
use blk_api::config::Class;
use blk_api::telemetry as layout;
use nvme_driver::Health;
use platform::Platform;

impl<P: Platform> DataPlane<P> {
    /// Writes the pages of the server, which was woken so many times, and of its open sessions.
    pub(super) fn show(&mut self, wake_ups: u64) {
        let Self { platform, controller, slots, schedule, passes, pages: Some(pages), .. } = self else { return };
        let now = platform.ticks();
        let mut open_sessions = 0u32;
        for (index, slot) in slots.iter_mut().enumerate() {
            let Some(session) = slot.phase.session_mut() else { continue };
            open_sessions = open_sessions.saturating_add(1);
            if pages.wants_others(index) {
                session.trace = pages.tracer(platform, index);
                session.trace_begun();
            }
            pages.write_session(index, contents(session, true, schedule.class(index), now));
        }
        pages.write_server(&layout::Server {
            ticks_per_second: platform.ticks_per_second(),
            written_at: now,
            started_at: pages.started_at,
            wake_ups,
            passes: *passes,
            faults: controller.faults.get(),
            is_up: (controller.health.get() == Health::Up).into(),
            open_sessions,
        });
    }

    /// Writes the page of session `index` for the last time before the session goes.
    pub(super) fn show_end(&mut self, index: usize, session: &mut Session<P>) {
        let Self { platform, schedule, pages: Some(pages), .. } = self else { return };
        pages.write_session(index, contents(session, false, schedule.class(index), platform.ticks()));
    }
}

/// The contents of a session's page.
fn contents<P: Platform>(session: &mut Session<P>, is_open: bool, class: Option<Class>, now: u64) -> layout::Session {
    let class = class.map_or(u32::MAX, Class::number);
    let mut contents = layout::Session { written_at: now, is_open: is_open.into(), class, ..session.contents() };
    if let Some(latencies) = &mut session.latencies {
        latencies.show(&mut contents, now);
    }
    contents
}
