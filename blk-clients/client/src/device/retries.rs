//! Requests of which the controller gave no verdict: it was reset while they were on their way, or did not answer in time.
//! They are made again, a few times; only then their users learn of it.
//!
//! Such a request may have been done, wholly or in part, and nothing of it is still going on when the server says so. To
//! do it again is safe. A read brings what its blocks hold by then. A change leaves the content that it should have left:
//! its range of the window is still leased, and no other change of its blocks was let past it (`changes`). A flush covers
//! what was acknowledged before its last try, and with that all that was acknowledged before it was asked.
//!
//! What was acknowledged and not flushed stays in the controller's cache when the controller is reset. Only a loss of its
//! power takes it, and nobody can distinguish the two: a flush made again after a loss of power is done, although
//! something acknowledged before it is lost, just as one that was only asked then.
//!
//! What the device failed is its verdict, and is delivered at once.

use super::State;
use crate::error::Error;
use blk_api::Status;
use blk_api::ring::{Completed, RingError};
use platform::Platform;

impl<P: Platform> State<P> {
    /// Takes an answer to the request it is for, or keeps the request to be made again.
    #[inline(always)]
    pub(super) fn deliver(&mut self, completed: &Completed) -> Result<(), Error> {
        if completed.status != Status::Success as u16 && self.is_made_again(completed)? {
            return Ok(());
        }
        self.slots.complete(completed)
    }

    /// Keeps the request to be made again if it is one of those.
    #[cold]
    fn is_made_again(&mut self, completed: &Completed) -> Result<bool, Error> {
        match completed.status() {
            Some(Status::NotInstalled) if self.asks => self.slots.miss(completed),
            Some(status) if status.is_undecided() => self.slots.leave_undecided(completed),
            _ => Ok(false),
        }
    }

    /// Submits what is resubmitted and what waits for no earlier change any more, and publishes it with all else.
    pub(super) fn publish(&mut self) -> Result<(), RingError> {
        while let Some(entry) = self.slots.due() {
            // The ring has room for as many as there are slots, once the server said that it took what it answered.
            if !self.session.submit(&entry)? {
                break;
            }
            self.slots.submit_due();
        }
        self.session.publish()
    }
}
