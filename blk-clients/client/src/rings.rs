//! The server's path: a ring of entries to it, and a ring of completions from it.

use crate::error::OpenError;
use blk_api::names;
use blk_api::ring::{ClientEnd, RingError};
use platform::{Cap, Environment, Kernel, Notification, Platform};

/// The client's end of the rings, and the server's doorbell.
pub(crate) struct Rings<P: Platform> {
    /// The client's end.
    pub end: ClientEnd<P::Memory>,
    regions: Regions<P>,
}

/// The regions of the rings, and what else the client needs to use them.
pub(crate) struct Regions<P: Platform> {
    client: P::Memory,
    server: P::Memory,
    entries: u32,
    doorbell: Cap<Notification>,
}

impl<P: Platform> Clone for Regions<P> {
    fn clone(&self) -> Self {
        let Self { client, server, entries, doorbell } = self;
        Self { client: client.clone(), server: server.clone(), entries: *entries, doorbell: *doorbell }
    }
}

impl<P: Platform> Regions<P> {
    /// The environment's regions, for rings of `entries` entries.
    ///
    /// # Errors
    /// [`OpenError::Missing`].
    pub(crate) fn of(platform: &P, environment: &Environment, entries: u32) -> Result<Self, OpenError> {
        let memory = |name: &'static str| {
            let region = environment.region(name).ok_or(OpenError::Missing(name))?;
            platform.memory(region).map_err(|_| OpenError::Missing(name))
        };
        let doorbell = environment.cap(names::DOORBELL).ok_or(OpenError::Missing(names::DOORBELL))?;
        Ok(Self { client: memory(names::RING_CLIENT)?, server: memory(names::RING_SERVER)?, entries, doorbell })
    }

    /// Makes the client's end at index 0. The server starts reading there when it opens the session, so this comes before. Until
    /// then its region has the indices of an earlier session, and the rings must not be used.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    pub(crate) fn begin(&self) -> Result<Rings<P>, RingError> {
        let end = ClientEnd::new(self.client.clone(), self.server.clone(), self.entries)?;
        Ok(Rings { end, regions: self.clone() })
    }
}

impl<P: Platform> Rings<P> {
    /// The regions that they are in.
    pub(crate) const fn regions(&self) -> &Regions<P> {
        &self.regions
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
        platform.kernel().signal(self.regions.doorbell);
    }
}
