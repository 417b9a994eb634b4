//! Teardown acknowledgements: the server writes for the supervisor that nothing is left of a dead client's session, so that
//! the client's memory can be recreated.
//!
//! The session itself ends as every other does (`phase`, `teardown`). The supervisor accepts an acknowledgement only for the
//! session's own client. So a server that lies harms its own clients, whose windows it holds anyway. Left out: clients that
//! the supervisor does not restart.

use blk_api::names;
use platform::{Cap, Environment, Incarnation, Kernel, Memory, Notification, OutOfBounds, Platform};

/// The page of acknowledgements, and the supervisor's notification.
pub(crate) struct Acknowledgements<M> {
    page: M,
    supervisor: Cap<Notification>,
}

impl<M: Memory> Acknowledgements<M> {
    /// Creates it from the environment; `None` where no client is restarted.
    ///
    /// # Errors
    /// [`OutOfBounds`] for a page that is not there.
    pub(crate) fn new<P: Platform<Memory = M>>(
        platform: &P,
        environment: &Environment,
    ) -> Result<Option<Self>, OutOfBounds> {
        let Some((region, supervisor)) =
            environment.region(names::TEARDOWN_ACKS).zip(environment.cap(names::TORN_DOWN))
        else {
            return Ok(None);
        };
        Ok(Some(Self { page: platform.memory(region)?, supervisor }))
    }
}

impl<M: Memory> Acknowledgements<M> {
    /// Acknowledges these deaths, each in the client's word.
    pub(crate) fn send(&self, kernel: &impl Kernel, deaths: impl Iterator<Item = (u32, Incarnation)>) {
        // A page that is too short for a word has no acknowledgement: its client stays dead.
        let reported = deaths.filter(|(word, death)| death.acknowledge_teardown(&self.page, *word).is_ok()).count();
        if reported > 0 {
            kernel.signal(self.supervisor);
        }
    }
}
