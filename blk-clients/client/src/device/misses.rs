//! Requests of which the server had no record: the policy component is asked for it, and they are made again.
//!
//! The server may have done a part of such a request before it missed. To do that part again is safe. The server answers
//! only when nothing of the request is going on any more; its range of the window is still leased, so a write brings the
//! same bytes; and no other change of its blocks was let past it (`changes`), so it replaces nothing that is newer. A
//! request that is forbidden is not made again: nothing would change.

use super::{Device, State};
use crate::error::Error;
use blk_api::Status;
use blk_api::policy::Refusal;
use blk_api::ring::Completed;
use platform::Platform;

impl<P: Platform> Device<P> {
    /// Whether there are such requests.
    pub(super) fn has_misses(&self) -> bool {
        let state = self.shared.state.borrow();
        state.slots.missed().is_some() && state.over.is_none()
    }

    /// Makes them again, each when its records are there. Requests without any end as misses.
    pub(super) async fn make_missed_again(&self) {
        loop {
            let Some(entry) = self.shared.state.borrow().slots.missed() else { return };
            let covered = match &self.shared.policy {
                Some(policy) => policy.cover(entry.lba, u64::from(entry.blocks)).await,
                None => Err(Refusal::Dead),
            };
            if self.server_died() {
                // All that is not answered is resubmitted at its successor.
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
    /// The first request that missed is resubmitted, or not.
    fn end_miss(&mut self, again: bool) -> Result<(), Error> {
        let Some(entry) = self.slots.take_missed() else { return Ok(()) };
        if again {
            // The ring has room for as many as there are slots.
            self.session.submit(&entry)?;
            self.session.publish()?;
            return Ok(());
        }
        let status = Status::NotInstalled as u16;
        self.slots.complete(&Completed { user_data: entry.user_data, status, ..Completed::default() })
    }
}
