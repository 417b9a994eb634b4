//! The server's path: a ring of entries to it, and a ring of completions from it.

use crate::error::OpenError;
use alloc::boxed::Box;
use blk_api::names;
use blk_api::ring::{ClientEnd, RingError};
use blk_api::trace::{Kinds, Tracer, What};
use platform::{Cap, Environment, Kernel, Notification, PAGE_SIZE, Platform, Region};
use telemetry::TELEMETRY;

/// The client's end of the rings, and the server's doorbell.
pub(crate) struct Rings<P: Platform> {
    /// The client's end.
    pub end: ClientEnd<P::Memory>,
    regions: Regions<P>,
    /// The tracer, in a scenario with traces.
    trace: Option<Box<Tracer<P>>>,
}

/// The regions of the rings, and what else the client needs to use them.
pub(crate) struct Regions<P: Platform> {
    client: P::Memory,
    server: P::Memory,
    entries: u32,
    doorbell: Cap<Notification>,
    platform: P,
    telemetry: Option<Region>,
}

impl<P: Platform> Clone for Regions<P> {
    fn clone(&self) -> Self {
        let Self { client, server, entries, doorbell, platform, telemetry } = self;
        let (client, server, platform) = (client.clone(), server.clone(), platform.clone());
        Self { client, server, entries: *entries, doorbell: *doorbell, platform, telemetry: telemetry.clone() }
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
        let (client, server) = (memory(names::RING_CLIENT)?, memory(names::RING_SERVER)?);
        let telemetry = environment.region(TELEMETRY).cloned();
        Ok(Self { client, server, entries, doorbell, platform: platform.clone(), telemetry })
    }

    /// Makes the client's end at index 0. The server starts reading there when it opens the session, so this comes before. Until
    /// then its region has the indices of an earlier session, and the rings must not be used.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    pub(crate) fn begin(&self) -> Result<Rings<P>, RingError> {
        let end = ClientEnd::new(self.client.clone(), self.server.clone(), self.entries)?;
        // The ring of events is all of its telemetry. Who is traced decides the server: this costs a batch a few instructions.
        let tracer = |region: &Region| {
            Tracer::new(&self.platform, region, 0, usize::try_from(region.len).ok()? / PAGE_SIZE, Kinds::ALL)
        };
        let mut trace = self.telemetry.as_ref().and_then(tracer);
        if let Some(trace) = &mut trace {
            trace.mark(What::Opened, 0);
        }
        Ok(Rings { end, regions: self.clone(), trace })
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
        if let Some(trace) = &mut self.trace
            && self.end.has_unpublished()
        {
            trace.mark(What::Published, self.end.submitted());
        }
        if self.end.publish()? {
            self.ring_doorbell(platform);
        }
        Ok(())
    }

    /// Publishes which completions were taken.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    #[inline]
    pub(crate) fn publish_taken(&mut self) -> Result<(), RingError> {
        if let Some(trace) = &mut self.trace
            && self.end.has_taken()
        {
            trace.mark(What::Received, self.end.taken());
        }
        self.end.publish_taken()
    }

    /// Signals the server's notification, needed or not.
    pub(crate) fn ring_doorbell(&self, platform: &P) {
        platform.kernel().signal(self.regions.doorbell);
    }
}
