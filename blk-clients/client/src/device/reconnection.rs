//! The session opened again after the server died, at the one that was started in its place.
//!
//! What the dead server answered counts: its ring is read once more. What it did not answer is asked again. It may have
//! been done, wholly or in part; the new server has reset the controller before, so that nothing of it is still going on.
//! To do it again leaves the content that it should have left: its range of the window is still leased, and no other change
//! of its blocks was let past it (`changes`).

use super::Device;
use crate::error::Error;
use blk_api::session::Geometry;
use platform::Platform;

/// Times the session is opened while the server dies each time.
const OPENINGS: u32 = 16;

impl<P: Platform> Device<P> {
    /// Whether the server in which the session was opened is not alive any more.
    pub(super) fn server_died(&self) -> bool {
        self.shared.server.died() && self.shared.state.borrow().over.is_none()
    }

    /// Opens the session again if the server died, and asks again what was not answered. Where that cannot be, the session
    /// is over.
    pub(super) async fn reconnect(&self) {
        for _ in 0..OPENINGS {
            if !self.server_died() {
                return;
            }
            if let Err(error) = self.open_again().await {
                return self.shared.state.borrow_mut().end(error);
            }
        }
        if self.server_died() {
            self.shared.state.borrow_mut().end(Error::CLOSED);
        }
    }

    async fn open_again(&self) -> Result<(), Error> {
        if !self.shared.server.next_incarnation(&self.shared.control).await {
            return Err(Error::CLOSED);
        }
        {
            let state = &mut *self.shared.state.borrow_mut();
            // What cannot be read there is asked again.
            let _ = state.take_answers(self.shared.options.ring_entries);
            state.session.begin_again()?;
        }
        let geometry = self.shared.control.reopen().await?;
        // Its queue pairs are the server's and the policy component's business: they may have changed since.
        let Geometry { queue_pairs, depth, .. } = self.shared.geometry;
        if (Geometry { queue_pairs, depth, ..geometry }) != self.shared.geometry {
            return Err(Error::CLOSED);
        }
        if self.shared.server.died() {
            // One that came later has answered. Its rings are to begin again as well, before anything is on them.
            return Ok(());
        }
        let reissued = self.shared.state.borrow_mut().ask_again()?;
        self.shared.server.report_reconnected(reissued);
        Ok(())
    }
}

impl<P: Platform> super::State<P> {
    /// Takes what the server answered, and publishes nothing.
    fn take_answers(&mut self, limit: u32) -> Result<(), Error> {
        for _ in 0..limit {
            let Some(completed) = self.session.complete()? else { break };
            self.deliver(&completed)?;
        }
        Ok(())
    }

    /// Submits again what was not answered; how much that is.
    fn ask_again(&mut self) -> Result<u32, Error> {
        let unanswered = self.slots.submit_all_again();
        for entry in &unanswered {
            // The ring has room for as many as there are slots.
            self.session.submit(entry)?;
        }
        self.session.publish()?;
        Ok(unanswered.len() as u32)
    }
}
