//! Retries of requests without the controller's verdict: it was reset while they were in flight, or did not answer in
//! time. They are made again, a few times; only then their users receive the error.
//!
//! Such a request may have been done, wholly or in part, and none of it is in progress when the server reports it. To do it
//! again is safe. A read, verify or compare is about the content of its blocks at that time. A change leaves the same content as its first
//! try: its range of the window is still leased, and no other change of its blocks was let past it (`changes`). A flush
//! covers everything acknowledged before its last try, which includes everything acknowledged before its first.
//!
//! Acknowledged data that were not flushed stay in the controller's cache when the controller is reset. Only a loss of its
//! power loses them, and the two cannot be distinguished. A flush retried after a loss of power therefore succeeds although
//! data acknowledged before it are lost. A flush first submitted after the loss does the same.
//!
//! A session that waits for a controller that is gone keeps the requests that end with that: they are made again when the server's
//! next incarnation has the controller (`reconnection`).
//!
//! A failure by the device is its verdict, and is delivered at once. A session's own function may ask for a request again later;
//! then it is made again after the controller's delay, as the NVMe server does for its sessions.

use super::State;
use crate::error::Error;
use blk_api::Status;
use blk_api::ring::Completed;
use platform::Platform;

impl<P: Platform> State<P> {
    /// Completes the request of an answer, or keeps the request for a retry.
    #[inline(always)]
    pub(super) fn deliver(&mut self, completed: &Completed) -> Result<(), Error> {
        if completed.status != Status::Success as u16 && self.is_made_again(completed)? {
            return Ok(());
        }
        self.slots.complete(completed)
    }

    /// Keeps the request for a retry if the controller gave no verdict. Returns whether it did.
    #[cold]
    fn is_made_again(&mut self, completed: &Completed) -> Result<bool, Error> {
        match completed.status() {
            Some(Status::NotInstalled) if self.asks => self.slots.miss(completed),
            Some(Status::DeviceGone) if self.waits => self.slots.keep(completed).map(|()| true),
            Some(status) if status.is_undecided() => self.slots.leave_undecided(completed),
            Some(Status::DeviceError) => {
                let retries = self.slots.tries(completed)?;
                let status = nvme_spec::Status::from_raw(completed.device_status);
                let Some(ticks) = self.session.before_retry(status, retries) else { return Ok(false) };
                let due = self.session.platform().ticks().saturating_add(ticks);
                self.slots.make_again(completed, due).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Submits retries and requests that wait for no earlier change any more, and publishes them with all others.
    #[inline]
    pub(super) fn publish(&mut self) -> Result<(), Error> {
        if self.slots.has_due() {
            self.submit_due()?;
        }
        self.session.publish()
    }

    #[cold]
    #[inline(never)]
    fn submit_due(&mut self) -> Result<(), Error> {
        while let Some((place, entry)) = self.slots.due(self.session.platform().ticks()) {
            // The ring has room for as many entries as there are slots, once the server published that it took those it answered.
            if !self.session.submit(&entry)? {
                break;
            }
            self.slots.submit_due(place);
        }
        Ok(())
    }
}
