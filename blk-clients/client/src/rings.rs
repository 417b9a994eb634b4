//! The server's path: a ring of entries to it, and a ring of completions from it.

use crate::error::OpenError;
use blk_api::names;
use blk_api::ring::{ClientEnd, RingError};
use platform::{Cap, Environment, Kernel, Notification, Platform};

/// The client's end of the rings, and the server's doorbell.
pub(crate) struct Rings<P: Platform> {
    /// The client's end.
    pub end: ClientEnd<P::Memory>,
    /// The rings' regions: the client's and the server's.
    regions: (P::Memory, P::Memory),
    entries: u32,
    doorbell: Cap<Notification>,
}

impl<P: Platform> Rings<P> {
    /// Makes the client's end over the environment's regions. The server starts reading at index 0 when it opens the session,
    /// so this comes before.
    ///
    /// # Errors
    /// [`OpenError::Missing`], [`OpenError::Ring`].
    pub(crate) fn new(platform: &P, environment: &Environment, entries: u32) -> Result<Self, OpenError> {
        let memory = |name: &'static str| {
            let region = environment.region(name).ok_or(OpenError::Missing(name))?;
            platform.memory(region).map_err(|_| OpenError::Missing(name))
        };
        let regions = (memory(names::RING_CLIENT)?, memory(names::RING_SERVER)?);
        let doorbell = environment.cap(names::DOORBELL).ok_or(OpenError::Missing(names::DOORBELL))?;
        let end = ClientEnd::new(regions.0.clone(), regions.1.clone(), entries)?;
        Ok(Self { end, regions, entries, doorbell })
    }

    /// Resets the rings, before the session is opened again at another server.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    pub(crate) fn begin_again(&mut self) -> Result<(), RingError> {
        let (client, server) = self.regions.clone();
        self.end = ClientEnd::new(client, server, self.entries)?;
        Ok(())
    }

    /// Publishes the submitted entries to the server, and wakes it if it sleeps.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    #[inline]
    pub(crate) fn publish(&mut self, platform: &P) -> Result<(), RingError> {
        if self.end.publish()? {
            self.ring_doorbell(platform);
        }
        Ok(())
    }

    /// Signals the server's notification, needed or not.
    pub(crate) fn ring_doorbell(&self, platform: &P) {
        platform.kernel().signal(self.doorbell);
    }
}
