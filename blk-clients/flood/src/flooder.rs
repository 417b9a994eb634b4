//! The flooder: its session, which it reopens when needed, and its turns.

use crate::counts::{Counts, count};
use blk_api::names;
use blk_client::{OpenError, Options, Refusal, Session};
use platform::{Cap, Endpoint, Environment, Notification, Platform};
use workload::{Flood, FloodKind};

/// The server stays dead: there is nothing left to flood.
pub(crate) struct ServerStaysDead;

/// The result of one step of a flood.
pub(crate) type Step = Result<(), ServerStaysDead>;

/// The flooder.
pub(crate) struct Flooder<'a, P: Platform> {
    pub(crate) platform: P,
    /// Without the capability to call the policy component: opening a session then asks for no record.
    environment: Environment,
    options: Options,
    pub(crate) flood: &'a Flood,
    pub(crate) server: Option<Cap<Endpoint>>,
    pub(crate) policy: Option<Cap<Endpoint>>,
    doorbell: Option<Cap<Notification>>,
    pub(crate) session: Option<Session<P>>,
    /// Entries of the session that are not answered yet.
    pub(crate) in_flight: u32,
    /// Bytes of the blocks of one request of this turn.
    pub(crate) request_bytes: u64,
    /// The policy component was asked for records since the session was opened.
    pub(crate) asked: bool,
    /// The next block for which records are asked.
    pub(crate) next_record: u64,
    pub(crate) counts: Counts,
}

impl<'a, P: Platform> Flooder<'a, P> {
    /// Makes a flooder with counts of zero.
    pub(crate) fn new(platform: P, mut environment: Environment, options: Options, flood: &'a Flood) -> Self {
        let (server, policy) = (environment.cap(names::SERVER), environment.cap(names::POLICY));
        let doorbell = environment.cap(names::DOORBELL);
        environment.caps.retain(|run| run.name != names::POLICY);
        Self {
            platform,
            environment,
            options,
            flood,
            server,
            policy,
            doorbell,
            session: None,
            in_flight: 0,
            request_bytes: 0,
            asked: false,
            next_record: 0,
            counts: Counts::default(),
        }
    }

    /// Floods for the configured time, or until the server stays dead, and closes the session. Returns the counts.
    pub(crate) async fn run(mut self) -> Counts {
        // Without a server there is no session to close.
        let _ = self.flood_in_turns().await;
        let _ = self.close().await;
        self.counts
    }

    async fn flood_in_turns(&mut self) -> Step {
        let end = match self.flood.milliseconds {
            0 => u64::MAX,
            milliseconds => self.after(milliseconds),
        };
        let kinds = &self.flood.kinds;
        while !kinds.is_empty() && self.platform.ticks() < end {
            for kind in kinds {
                self.turn(*kind, end.min(self.after(self.flood.turn_milliseconds))).await?;
            }
        }
        Ok(())
    }

    /// Returns the clock's ticks in so many milliseconds from now.
    fn after(&self, milliseconds: u64) -> u64 {
        let ticks = u128::from(milliseconds).saturating_mul(self.platform.ticks_per_second().into());
        let ticks = u64::try_from(ticks.checked_div(1000).unwrap_or(0)).unwrap_or(u64::MAX);
        self.platform.ticks().saturating_add(ticks)
    }

    async fn turn(&mut self, kind: FloodKind, end: u64) -> Step {
        // Records that were installed before would be found.
        if kind == FloodKind::NotInstalled && self.asked {
            self.close().await?;
        }
        while self.platform.ticks() < end {
            self.step(kind).await?;
        }
        Ok(())
    }

    async fn step(&mut self, kind: FloodKind) -> Step {
        match kind {
            FloodKind::OpenClose => {
                self.close().await?;
                self.open().await
            }
            FloodKind::Signals => {
                self.open().await?;
                self.signal_without_result().await;
                Ok(())
            }
            FloodKind::Calls => {
                self.open().await?;
                self.call().await;
                Ok(())
            }
            FloodKind::PolicyCalls => {
                self.open().await?;
                self.ask(0, 1).await;
                Ok(())
            }
            FloodKind::Evictions => {
                self.open().await?;
                self.ask_for_the_next().await;
                Ok(())
            }
            FloodKind::Requests
            | FloodKind::Invalid
            | FloodKind::Forbidden
            | FloodKind::NotInstalled
            | FloodKind::TooLarge
            | FloodKind::Zeroes => {
                self.open().await?;
                self.request(kind).await
            }
        }
    }

    /// Opens the session unless it is open, at the server's successor if the server died. A refusal leaves it closed: a flood
    /// that needs no session goes on.
    async fn open(&mut self) -> Step {
        let outcome = match &mut self.session {
            Some(session) if !session.server_died() => return Ok(()),
            Some(session) => session.open_again().await,
            None => {
                let opened = Session::open(self.platform.clone(), &self.environment, self.options).await;
                opened.map(|session| self.session = Some(session))
            }
        };
        count(&mut self.counts.openings);
        self.in_flight = 0;
        self.asked = false;
        match outcome {
            Ok(()) => Ok(()),
            Err(OpenError::Dead) => {
                self.session = None;
                Err(ServerStaysDead)
            }
            Err(_) => {
                self.session = None;
                Ok(())
            }
        }
    }

    /// Closes the session, if there is one. The next one resets the rings, so the server must have read the last entry.
    pub(crate) async fn close(&mut self) -> Step {
        let Some(session) = self.session.take() else { return Ok(()) };
        self.in_flight = 0;
        match session.control().close().await {
            Err(Refusal::Dead) => Err(ServerStaysDead),
            // Not open: the server died meanwhile, or ended the session.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Signals the server.
    pub(crate) fn signal(&mut self) {
        use platform::Kernel as _;
        match self.doorbell {
            Some(doorbell) => self.platform.kernel().signal(doorbell),
            None => self.platform.pause(),
        }
        count(&mut self.counts.signals);
    }
}
