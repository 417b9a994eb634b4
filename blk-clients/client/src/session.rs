//! The bare data plane: entries in, completions out.
//!
//! A session has one of two paths. By the server's path, entries are on a ring that the NVMe server reads, and it submits the
//! commands ([`mod@crate::rings`]). By the function path, the client submits them itself, to a virtual function of its own
//! ([`mod@crate::virtual_function`]). The environment decides: a client with a call to the PCI server has a function.
//!
//! It keeps no state of requests: the caller chooses the user data that completions return. A batch is
//! any number of [`Session::submit`], then one [`Session::publish`]; any number of [`Session::complete`], then one
//! [`Session::publish_taken`].
//!
//! Left out: the order of changes of the same blocks, and retries. The caller decides about them
//! ([`Opcode::changes_blocks`](blk_api::request::Opcode::changes_blocks),
//! [`Status::is_undecided`](blk_api::Status::is_undecided)).

use crate::control::Control;
use crate::error::{Error, FunctionFault, OpenError};
use crate::policy::Policy;
use crate::rings::{Regions, Rings};
use crate::server::Server;
use crate::virtual_function::{Failed, Taken, VirtualFunction};
use alloc::boxed::Box;
use alloc::rc::Rc;
use blk_api::names;
use blk_api::policy;
use blk_api::request::Entry;
use blk_api::ring::{Completed, RingError};
use blk_api::session::Geometry;
use nvme_driver::{DeviceFault, PciError};
use platform::{Cap, Endpoint, Environment, Memory, Platform};

/// Options of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Entries of its rings, a power of two, as in the server's configuration.
    pub ring_entries: u32,
    /// Polls for completions and yields in between, instead of sleeping.
    pub polls: bool,
    /// Keeps requests while the controller is gone, and submits them again when it is back. A session that is not opened yet does
    /// not wait.
    pub waits: bool,
}

/// An open session.
pub struct Session<P: Platform> {
    platform: P,
    path: Path<P>,
    control: Control<P>,
    policy: Option<Policy<P>>,
    server: Rc<Server<P>>,
    window: P::Memory,
    geometry: Geometry,
    options: Options,
}

/// The way of the session's requests to the controller. The tag is a byte of its own: it is asked for several times a request.
#[repr(u8)]
enum Path<P: Platform> {
    /// By the NVMe server.
    Server(Rings<P>),
    /// None: no server has the session open. The rings are not touched, because the server's region is that of a dead one.
    Closed(Regions<P>),
    /// By a virtual function of its own.
    VirtualFunction(Box<VirtualFunction<P>>),
}

impl<P: Platform> Session<P> {
    /// Opens the session that the environment's capability `server` names, and asks the policy component for the records
    /// of its first blocks. A request that misses a record ends here with `Status::NotInstalled`. With a call to the PCI server in
    /// place of that capability, brings the client's own function up instead.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(platform: P, environment: &Environment, options: Options) -> Result<Self, OpenError> {
        let window = environment.region(names::WINDOW).and_then(|region| platform.memory(region).ok());
        let window = window.ok_or(OpenError::Missing(names::WINDOW))?;
        let endpoint = environment.cap(names::SERVER);
        let control = Control::new(platform.clone(), endpoint);
        let server = Rc::new(Server::of(platform.clone(), environment));
        if environment.cap::<Endpoint>(pci_api::names::PCI).is_some() {
            let environment = Rc::new(environment.clone());
            let (function, geometry) = loop {
                match VirtualFunction::open(&platform, &environment, options).await {
                    // Without the function it is not known what it is like.
                    Err(error) if error.is_withdrawn() => drop(platform.next_event().await),
                    opened => break opened?,
                }
            };
            let path = Path::VirtualFunction(Box::new(function));
            return Ok(Self { platform, path, control, policy: None, server, window, geometry, options });
        }
        endpoint.ok_or(OpenError::Missing(names::SERVER))?;
        // Before the session is opened.
        let path = Path::Server(Regions::of(&platform, environment, options.ring_entries)?.begin()?);
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
        Ok(Self { platform, path, control, policy, server, window, geometry, options })
    }

    /// Closes the session. The server finishes its requests first; a function is released, and what it has in flight is lost.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Device`].
    pub async fn close(&mut self) -> Result<(), Error> {
        match self.close_virtual_function() {
            Some(pci) => give_back(&self.platform, pci).await,
            None => Ok(self.control.close().await?),
        }
    }

    /// Ends the session's own function, if it has one. Returns the PCI server's endpoint, to give it back.
    pub(crate) fn close_virtual_function(&mut self) -> Option<Cap<Endpoint>> {
        match &mut self.path {
            Path::Server(_) | Path::Closed(_) => None,
            Path::VirtualFunction(function) => {
                function.close();
                Some(function.pci())
            }
        }
    }

    /// Whether the server in which the session was opened is dead, or the session's own function was reset: unanswered requests
    /// will not be answered.
    #[must_use]
    pub fn server_died(&self) -> bool {
        self.server.died() || matches!(self.path, Path::Closed(_))
    }

    /// Opens the session again at the dead server's successor, or brings its function up again. Everything on the rings is dropped: the caller decides
    /// whether to repeat unanswered requests. After an error the session is not open, and this can be called again.
    ///
    /// # Errors
    /// [`OpenError`]: [`OpenError::Dead`] when none is started.
    pub async fn open_again(&mut self) -> Result<(), OpenError> {
        if let Some(environment) = self.virtual_function_environment() {
            return match VirtualFunction::open(&self.platform, &environment, self.options).await {
                Ok((function, geometry)) => self.take_virtual_function(function, geometry),
                Err(error) => self.refuse_withdrawn(error),
            };
        }
        // If the server died during the call, a later successor has answered, and the rings must be reset for it as well.
        while self.server_died() {
            if !self.server.next_incarnation(&self.control).await {
                return Err(OpenError::Dead);
            }
            let rings = self.begin_again()?;
            if self.control.reopen().await? != self.geometry {
                return Err(OpenError::BadGeometry);
            }
            self.take_rings(rings);
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

    /// Resets the rings, before the session is opened again at another server. The session has none until it takes these.
    ///
    /// # Errors
    /// [`RingError::BadRegion`], also for a session with a function of its own, which has no rings.
    pub(crate) fn begin_again(&mut self) -> Result<Rings<P>, RingError> {
        let regions = match &self.path {
            Path::Server(rings) => rings.regions(),
            Path::Closed(regions) => regions,
            Path::VirtualFunction(_) => return Err(RingError::BadRegion),
        };
        let rings = regions.begin();
        self.path = Path::Closed(regions.clone());
        rings
    }

    /// Goes on with these rings: a server has opened the session over them.
    pub(crate) fn take_rings(&mut self, rings: Rings<P>) {
        self.path = Path::Server(rings);
    }

    /// The PCI server's endpoint, for a session with a function of its own: no server finishes its requests.
    pub(crate) const fn virtual_function(&self) -> Option<Cap<Endpoint>> {
        match &self.path {
            Path::Server(_) | Path::Closed(_) => None,
            Path::VirtualFunction(function) => Some(function.pci()),
        }
    }

    /// Whether the session's own function was silent too long: what is in flight has no answer in time.
    pub(crate) fn timed_out(&self) -> bool {
        match &self.path {
            Path::Server(_) | Path::Closed(_) => false,
            Path::VirtualFunction(function) => function.fault() == DeviceFault::TimedOut,
        }
    }

    /// Ticks to wait before a request is made again that the session's own function failed with `status` after this many retries.
    /// `None` when it has failed; a server retries itself.
    pub(crate) fn before_retry(&self, status: nvme_spec::Status, retries: u8) -> Option<u64> {
        let Path::VirtualFunction(function) = &self.path else { return None };
        let delay_ms = function.retry_delays().before_retry(status, retries)?;
        Some(self.platform().ticks_per_second().saturating_mul(delay_ms.into()) / 1000)
    }

    /// The environment by which a session's own function is brought up.
    pub(crate) fn virtual_function_environment(&self) -> Option<Rc<Environment>> {
        match &self.path {
            Path::Server(_) | Path::Closed(_) => None,
            Path::VirtualFunction(function) => Some(function.environment()),
        }
    }

    /// Goes on with its function brought up again, which must be like before.
    ///
    /// # Errors
    /// [`OpenError::BadGeometry`].
    pub(crate) fn take_virtual_function(
        &mut self,
        function: VirtualFunction<P>,
        geometry: Geometry,
    ) -> Result<(), OpenError> {
        if geometry != self.geometry {
            return Err(OpenError::BadGeometry);
        }
        self.path = Path::VirtualFunction(Box::new(function));
        self.server.set_lost(false);
        Ok(())
    }

    /// Goes on without its function after this error, if that was withdrawn: requests are forbidden until it is granted again.
    ///
    /// # Errors
    /// The error, for another reason.
    pub(crate) fn refuse_withdrawn(&mut self, error: OpenError) -> Result<(), OpenError> {
        match &mut self.path {
            Path::VirtualFunction(function) if error.is_withdrawn() => function.withdraw()?,
            Path::VirtualFunction(_) | Path::Server(_) | Path::Closed(_) => return Err(error),
        }
        self.server.set_lost(false);
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

    /// Writes of tail doorbells for this session: the server's, or its own.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub async fn doorbells(&self) -> Result<u64, Error> {
        match self.own_doorbells() {
            Some(doorbells) => Ok(doorbells),
            None => Ok(self.control.statistics().await?.doorbells),
        }
    }

    /// Doorbells that the client counted itself, for a session with a function of its own.
    pub(crate) fn own_doorbells(&self) -> Option<u64> {
        match &self.path {
            Path::Server(_) | Path::Closed(_) => None,
            Path::VirtualFunction(function) => Some(function.doorbells()),
        }
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

    /// Submits an entry; `false` when there is no room for it. It takes effect with [`Session::publish`]. While the session of a
    /// client that [waits](Options::waits) is not open, the entry is dropped like others without an answer.
    ///
    /// # Errors
    /// [`Error::Ring`] when the server's indices cannot be; [`Error::Device`]; [`Error::CLOSED`] while the session is not open.
    #[inline(always)]
    pub fn submit(&mut self, entry: &Entry) -> Result<bool, Error> {
        match &mut self.path {
            Path::Server(rings) => Ok(rings.end.submit(entry)?),
            Path::VirtualFunction(function) => {
                let submitted = function.submit(entry);
                // One comparison for the usual result.
                if submitted == Ok(true) {
                    return Ok(true);
                }
                submitted.map_err(|Failed| self.failure())
            }
            Path::Closed(_) => self.drop_entry(),
        }
    }

    /// The result of an entry that no server takes.
    #[cold]
    #[inline(never)]
    const fn drop_entry(&self) -> Result<bool, Error> {
        if self.options.waits { Ok(true) } else { Err(Error::CLOSED) }
    }

    /// The error of a function that failed.
    #[cold]
    #[inline(never)]
    fn failure(&self) -> Error {
        match &self.path {
            Path::Server(_) | Path::Closed(_) => Error::CLOSED,
            Path::VirtualFunction(function) => function.fault().into(),
        }
    }

    /// Publishes the submitted entries to the server, and wakes it if it sleeps; or rings the function's doorbell.
    ///
    /// # Errors
    /// [`Error::Ring`], [`Error::Device`].
    #[inline(always)]
    pub fn publish(&mut self) -> Result<(), Error> {
        match &mut self.path {
            Path::Server(rings) => Ok(rings.publish(&self.platform)?),
            Path::VirtualFunction(function) => Ok(function.ring()?),
            Path::Closed(_) => Ok(()),
        }
    }

    /// Signals the server's notification, needed or not. Does nothing on the function path.
    pub fn ring_doorbell(&self) {
        if let Path::Server(rings) = &self.path {
            rings.ring_doorbell(&self.platform);
        }
    }

    /// Takes the next completion.
    ///
    /// # Errors
    /// [`Error::Ring`] when the server's indices cannot be; [`Error::Device`] when the function failed, or its completion is
    /// impossible.
    #[inline(always)]
    pub fn complete(&mut self) -> Result<Option<Completed>, Error> {
        match &mut self.path {
            Path::Server(rings) => Ok(rings.end.complete()?),
            Path::VirtualFunction(function) => {
                let (user_data, taken) = function.complete();
                // One comparison for the usual result.
                if taken == Taken::Success {
                    return Ok(Some(Completed { user_data, ..Completed::default() }));
                }
                match function.go_on(taken) {
                    Taken::Nothing => Ok(None),
                    Taken::Success | Taken::Other => Ok(Some(function.other())),
                    Taken::Failed => lost(&self.server, function.fault()).map(|()| None),
                }
            }
            Path::Closed(_) => Ok(None),
        }
    }

    /// Publishes which completions were taken.
    ///
    /// # Errors
    /// [`Error::Ring`], [`Error::Device`].
    #[inline(always)]
    pub fn publish_taken(&mut self) -> Result<(), Error> {
        match &mut self.path {
            Path::Server(rings) => Ok(rings.publish_taken()?),
            Path::VirtualFunction(function) => Ok(function.publish_taken()?),
            Path::Closed(_) => Ok(()),
        }
    }

    /// Asks for a signal. Returns `true` when there are completions already, so that the caller must not sleep.
    ///
    /// # Errors
    /// As [`Session::complete`].
    #[inline(always)]
    pub fn prepare_sleep(&mut self) -> Result<bool, Error> {
        match &mut self.path {
            Path::Server(rings) => Ok(rings.end.prepare_sleep()?),
            Path::VirtualFunction(function) => {
                function.prepare_sleep().or_else(|fault| lost(&self.server, fault).map(|()| true))
            }
            Path::Closed(_) => Ok(false),
        }
    }

    /// Cancels the request for a signal.
    ///
    /// # Errors
    /// [`Error::Ring`].
    pub fn awake(&mut self) -> Result<(), Error> {
        match &mut self.path {
            Path::Server(rings) => Ok(rings.end.awake()?),
            // It interrupts, awaited or not.
            Path::VirtualFunction(_) | Path::Closed(_) => Ok(()),
        }
    }

    /// Waits until it is worth polling for completions again: by sleeping, or by pausing and yielding. May return without a
    /// completion. A session with a function of its own yields after a pause without a completion, and after one of 16 other
    /// ones.
    ///
    /// # Errors
    /// As [`Session::prepare_sleep`].
    #[inline]
    pub async fn wait(&mut self) -> Result<(), Error> {
        if self.options.polls {
            let yields = match &mut self.path {
                // Other components do the work, so polling again at once has no use.
                Path::Server(_) | Path::Closed(_) => {
                    self.platform.pause();
                    true
                }
                Path::VirtualFunction(function) => function.pause(),
            };
            if yields {
                self.platform.yield_now().await;
            }
            return Ok(());
        }
        if !self.prepare_sleep()? {
            self.platform.next_event().await;
        }
        self.awake()
    }
}

/// The fault ends the session, unless it shows that the controller was reset: the function can be brought up again then, and so can
/// one that is silent. One that is absent may be under reset, because it was withdrawn; the PCI server knows that.
#[cold]
#[inline(never)]
fn lost<P: Platform>(server: &Server<P>, fault: DeviceFault) -> Result<(), Error> {
    if !fault.shows_reset() && !matches!(fault, DeviceFault::Absent | DeviceFault::TimedOut) {
        return Err(fault.into());
    }
    server.set_lost(true);
    Ok(())
}

/// Gives a function back to the PCI server, which resets it: it reaches no memory any more.
pub(crate) async fn give_back<P: Platform>(platform: &P, pci: Cap<Endpoint>) -> Result<(), Error> {
    match nvme_driver::pci::release(platform, pci).await {
        // One that was withdrawn reaches no memory, and was reset.
        Ok(()) | Err(PciError::Refused(pci_api::Refusal::NotReady | pci_api::Refusal::NotClaimed)) => Ok(()),
        Err(_) => Err(Error::Device(FunctionFault::Unusable)),
    }
}
