//! The bare data plane: entries in, completions out.
//!
//! It keeps no state of requests: the caller chooses the user data that completions return. A batch is
//! any number of [`Session::submit`], then one [`Session::publish`]; any number of [`Session::complete`], then one
//! [`Session::release`].
//!
//! Left out: the order of changes of the same blocks, and retries. The caller decides about them
//! ([`Opcode::changes_blocks`](blk_api::request::Opcode::changes_blocks),
//! [`Status::is_undecided`](blk_api::Status::is_undecided)).

use crate::control::Control;
use crate::error::OpenError;
use crate::policy::Policy;
use crate::server::Server;
use alloc::rc::Rc;
use blk_api::names;
use blk_api::policy;
use blk_api::request::Entry;
use blk_api::ring::{ClientEnd, Completed, RingError};
use blk_api::session::Geometry;
use platform::{Cap, Environment, Kernel, Memory, Notification, Platform};

/// Options of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Entries of its rings, a power of two, as in the server's configuration.
    pub ring_entries: u32,
    /// Polls for completions and yields in between, instead of sleeping.
    pub polls: bool,
}

/// An open session.
pub struct Session<P: Platform> {
    platform: P,
    ring: ClientEnd<P::Memory>,
    /// The rings' regions: the client's and the server's.
    regions: (P::Memory, P::Memory),
    doorbell: Cap<Notification>,
    control: Control<P>,
    policy: Option<Policy<P>>,
    server: Rc<Server<P>>,
    window: P::Memory,
    geometry: Geometry,
    options: Options,
}

impl<P: Platform> Session<P> {
    /// Opens the session that the environment's capability `server` names, and asks the policy component for the records
    /// of its first blocks. A request that misses a record ends here with `Status::NotInstalled`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(platform: P, environment: &Environment, options: Options) -> Result<Self, OpenError> {
        let memory = |name: &'static str| {
            let region = environment.region(name).ok_or(OpenError::Missing(name))?;
            platform.memory(region).map_err(|_| OpenError::Missing(name))
        };
        let (client, server, window) =
            (memory(names::RING_CLIENT)?, memory(names::RING_SERVER)?, memory(names::WINDOW)?);
        let endpoint = environment.cap(names::SERVER).ok_or(OpenError::Missing(names::SERVER))?;
        let doorbell = environment.cap(names::DOORBELL).ok_or(OpenError::Missing(names::DOORBELL))?;
        let control = Control::new(platform.clone(), endpoint);
        let peer = Rc::new(Server::of(platform.clone(), environment));
        // The server starts reading at index 0 when it opens the session, so reset our indices before.
        let ring = ClientEnd::new(client.clone(), server.clone(), options.ring_entries)?;
        let regions = (client, server);
        let geometry = control.reopen().await?;
        let sound = geometry.block_bytes.is_power_of_two()
            && (512..=65536).contains(&geometry.block_bytes)
            && geometry.window_bytes <= window.len() as u64
            && geometry.window_bytes <= u64::from(u32::MAX);
        if !sound {
            return Err(OpenError::BadGeometry);
        }
        let policy = Policy::of(platform.clone(), environment);
        if let Some(policy) = policy.as_ref().filter(|_| geometry.blocks > 0) {
            policy.ask_ahead(geometry.blocks).await;
        }
        Ok(Self { platform, ring, regions, doorbell, control, policy, server: peer, window, geometry, options })
    }

    /// Whether the server in which the session was opened is dead: its unanswered requests will not be answered.
    #[must_use]
    pub fn server_died(&self) -> bool {
        self.server.died()
    }

    /// Opens the session again at the dead server's successor. Everything on the rings is dropped: the caller decides
    /// whether to repeat unanswered requests.
    ///
    /// # Errors
    /// [`OpenError`]: [`OpenError::Dead`] when none is started.
    pub async fn open_again(&mut self) -> Result<(), OpenError> {
        // If the server died during the call, a later successor has answered, and the rings must be reset for it as well.
        while self.server.died() {
            if !self.server.next_incarnation(&self.control).await {
                return Err(OpenError::Dead);
            }
            self.begin_again()?;
            if self.control.reopen().await? != self.geometry {
                return Err(OpenError::BadGeometry);
            }
        }
        self.server.report_reconnected(0);
        Ok(())
    }

    /// Asks the policy component for the records of `blocks` blocks from `first` on, as often as it takes. Does nothing
    /// without such a component.
    ///
    /// # Errors
    /// Its [`policy::Refusal`].
    pub async fn ask_for_records(&self, first: u64, blocks: u64) -> Result<(), policy::Refusal> {
        match &self.policy {
            Some(policy) => policy.cover(first, blocks).await,
            None => Ok(()),
        }
    }

    /// Resets the rings, before the session is opened again at another server.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    pub(crate) fn begin_again(&mut self) -> Result<(), RingError> {
        let (client, server) = self.regions.clone();
        self.ring = ClientEnd::new(client, server, self.options.ring_entries)?;
        Ok(())
    }

    /// The geometry and limits of the session, from the server's answer at opening.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Calls to the server.
    #[must_use]
    pub const fn control(&self) -> &Control<P> {
        &self.control
    }

    /// The server's incarnations.
    pub(crate) const fn server(&self) -> &Rc<Server<P>> {
        &self.server
    }

    /// The policy component, to ask for records.
    pub(crate) const fn policy(&self) -> Option<&Policy<P>> {
        self.policy.as_ref()
    }

    /// The whole window. The device may be writing to the ranges of reads in flight.
    #[must_use]
    pub const fn window(&self) -> &P::Memory {
        &self.window
    }

    /// The platform.
    #[must_use]
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// The options it was opened with.
    #[must_use]
    pub const fn options(&self) -> Options {
        self.options
    }

    /// Puts an entry on the ring; `false` when it is full. The server does not see it before [`Session::publish`].
    ///
    /// # Errors
    /// [`RingError`] when the server's indices cannot be.
    #[inline]
    pub fn submit(&mut self, entry: &Entry) -> Result<bool, RingError> {
        self.ring.submit(entry)
    }

    /// Publishes the submitted entries to the server, and wakes it if it sleeps.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    #[inline]
    pub fn publish(&mut self) -> Result<(), RingError> {
        if self.ring.publish()? {
            self.ring_doorbell();
        }
        Ok(())
    }

    /// Signals the server's notification, needed or not.
    pub fn ring_doorbell(&self) {
        self.platform.kernel().signal(self.doorbell);
    }

    /// Takes the next completion.
    ///
    /// # Errors
    /// [`RingError`] when the server's indices cannot be.
    #[inline]
    pub fn complete(&mut self) -> Result<Option<Completed>, RingError> {
        self.ring.complete()
    }

    /// Publishes to the server which completions were taken.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    #[inline]
    pub fn release(&mut self) -> Result<(), RingError> {
        self.ring.release()
    }

    /// Asks for a signal. Returns `true` when there are completions already, so that the caller must not sleep.
    ///
    /// # Errors
    /// [`RingError`] when the server's indices cannot be.
    pub fn prepare_sleep(&mut self) -> Result<bool, RingError> {
        self.ring.prepare_sleep()
    }

    /// Cancels the request for a signal.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    pub fn awake(&mut self) -> Result<(), RingError> {
        self.ring.awake()
    }

    /// Waits until it is worth polling for completions again: by sleeping, or by yielding once. May return without a
    /// completion.
    ///
    /// # Errors
    /// As [`Session::prepare_sleep`].
    #[inline]
    pub async fn wait(&mut self) -> Result<(), RingError> {
        if self.options.polls {
            // Other components do the work, so polling again at once has no use.
            self.platform.pause();
            self.platform.yield_now().await;
            return Ok(());
        }
        if !self.prepare_sleep()? {
            self.platform.next_event().await;
        }
        self.awake()
    }
}
