//! The end of a session, after its last command: its queue pairs deleted, its window taken from the device.

use super::ControlPlane;
use crate::control_plane::reconcile::reconcile;
use crate::control_plane::windows::unmap_window;
use crate::data_plane::phase::Cause;
use crate::data_plane::session::Session;
use crate::link::Link;
use alloc::vec::Vec;
use blk_api::queue_sharing::QueueSharing;
use blk_api::session::{DONE, Refusal};
use nvme_driver::Health;
use nvme_driver::plan::Desired;
use platform::log::info;
use platform::{Message, Platform};
use report::{Report, clip};

impl<P: Platform> ControlPlane<'_, P> {
    /// Ends a session that has nothing in flight any more: the queue pairs go, if they are its own, then the window.
    pub(super) async fn tear_down(&mut self, index: usize) {
        let link = self.link;
        let Some((session, cause)) = link.with(|data| data.take(index)) else { return };
        if link.config.queue_sharing == QueueSharing::Dedicated && link.controller.health.get() == Health::Up {
            let absent: Vec<_> = Desired::absent(session.queues.clone()).collect();
            if let Err(fault) = reconcile(link, &absent).await {
                link.fail(fault);
            }
        }
        if self.is_down() {
            // Without deleted queues the window stays the device's until a reset is confirmed.
            self.recover().await;
        }
        unmap_window(link, &session.window).await;
        link.with(|data| data.forget(index));
        report_end(link, &session, cause);
        match cause {
            Cause::Closed => link.with(|data| data.answer(index, &Message::new(DONE))),
            Cause::Expelled => link.with(|data| data.answer(index, &Message::new(Refusal::Expelled as u32))),
            Cause::Died => {}
        }
    }
}

fn report_end<P: Platform>(link: &Link<P>, session: &Session<P>, cause: Cause) {
    let reason = match cause {
        Cause::Closed => "",
        Cause::Died => "its client died",
        Cause::Expelled => "it broke the ring protocol",
    };
    let statistics = session.statistics;
    let depth = link.with(|data| data.form(session.queues.start)).map_or(0, |form| form.depth);
    info!("session {} closed after {} requests", session.config.tenant.as_str(), statistics.requests);
    link.report(&Report::Session(report::Session {
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
