//! Requests that missed a record at the server: the policy component is asked for it, and they are made again.
//!
//! The server may have done a part of such a request before it missed. To do that part again is safe. The server answers
//! only when no part of the request is in progress. Its range of the window is still leased, so a write has the same
//! bytes. No other change of its blocks was let past it (`changes`), so it replaces no newer data. A forbidden request is
//! not made again: the answer would be the same.

use super::{Device, State};
use crate::error::Error;
use blk_api::Status;
use blk_api::policy::Refusal;
use blk_api::ring::Completed;
use platform::Platform;

impl<P: Platform> Device<P> {
    /// Whether there are requests that missed a record.
    pub(super) fn has_misses(&self) -> bool {
        let state = self.shared.state.borrow();
        state.slots.missed().is_some() && state.over.is_none()
    }

    /// Makes them again, each when its records are installed. A request that gets no records ends as a miss.
    pub(super) async fn make_missed_again(&self) {
        loop {
            let Some(entry) = self.shared.state.borrow().slots.missed() else { return };
            let covered = match &self.shared.policy {
                Some(policy) => policy.cover(entry.lba, u64::from(entry.blocks)).await,
                None => Err(Refusal::Dead),
            };
            if self.server_died() {
                // All unanswered requests are resubmitted at its successor.
                return;
            }
            let ended = self.shared.state.borrow_mut().end_miss(covered.is_ok());
            if let Err(error) = ended {
                return self.shared.state.borrow_mut().end(error);
            }
        }
    }
}

impl<P: Platform> State<P> {
    /// Resubmits the first request that missed, or ends it.
    fn end_miss(&mut self, again: bool) -> Result<(), Error> {
        let Some(entry) = self.slots.take_missed() else { return Ok(()) };
        if again {
            // The ring has room for as many entries as there are slots.
            self.session.submit(&entry)?;
            self.session.publish()?;
            return Ok(());
        }
        let status = Status::NotInstalled as u16;
        self.slots.complete(&Completed { user_data: entry.user_data, status, ..Completed::default() })
    }
}
