//! The class says who is looked at first, and nothing is held back: made for tenants with queue pairs of their own.

use crate::patience::Patience;
use crate::policy::{Budget, Commands, Decision, Policy};
use crate::roster::{Lines, Roster};
use crate::share::{SessionId, Share, ShareError, Tenant};
use blk_api::config::Class;

/// The most urgent class first, by weight within it, everything at once: nothing is held back for the device's sake, so
/// what counts is how much of whose the device holds. A class that got nothing for
/// [`PATIENCE_NS`](crate::PATIENCE_NS) goes first, once. Limits hold.
#[derive(Clone, Debug)]
pub struct Dedicated {
    pub(crate) roster: Roster,
    patience: Patience,
}

impl Dedicated {
    /// With everybody idle.
    ///
    /// # Errors
    /// [`ShareError`]: a share that is not allowed, or too many.
    pub fn new(tenants: &[Tenant]) -> Result<Self, ShareError> {
        Ok(Self { roster: Roster::new(tenants, Lines::PerClass)?, patience: Patience::default() })
    }

    /// Whose turn it is among `classes`, the most urgent first.
    pub(crate) fn next_among(&mut self, classes: &[Class], now: u64) -> Decision {
        self.roster.unpark(now);
        let overdue = self.patience.overdue(&mut self.roster, now);
        let overdue = overdue.filter(|one| self.roster.class(*one).is_some_and(|class| classes.contains(&class)));
        let first = overdue.or_else(|| classes.iter().find_map(|class| self.roster.head(*class, now)));
        match first {
            Some(session) => {
                let bytes = self.roster.bytes_left(session, now);
                let commands = if self.roster.is_alone(session) { self.roster.commands_left(session, now) } else { 1 };
                Decision::Serve { session, budget: Budget { commands, bytes, named: bytes, fastest: None } }
            }
            None => Decision::wait(self.roster.next_unpark()),
        }
    }
}

impl Policy for Dedicated {
    fn ready(&mut self, session: SessionId, now: u64) {
        if self.roster.ready(session) {
            self.roster.class(session).into_iter().for_each(|class| self.patience.asked(class, now));
        }
    }

    fn idle(&mut self, session: SessionId) {
        self.roster.idle(session);
    }

    fn next(&mut self, now: u64) -> Decision {
        self.next_among(&Class::ALL, now)
    }

    fn refused(&mut self, session: SessionId, count: u16, now: u64) {
        self.roster.refused(session, count, u64::from(count), now);
    }

    fn submitted(&mut self, commands: Commands, now: u64) {
        let class = self.roster.submitted(&commands, u64::from(commands.count), now);
        class.into_iter().for_each(|class| self.patience.served(class, &self.roster, now));
    }

    fn completed(&mut self, commands: Commands, _: u64, _: u64) {
        self.roster.left_device(&commands);
    }

    fn aborted(&mut self, commands: Commands, _: u64) {
        self.roster.left_device(&commands);
    }

    fn reset(&mut self, _: u64) {
        self.roster.reset();
    }

    fn set_share(&mut self, session: SessionId, share: Share) -> Result<(), ShareError> {
        self.roster.set_share(session, share)
    }

    fn share(&self, session: SessionId) -> Option<Share> {
        self.roster.share(session)
    }

    fn waits(&self, session: SessionId) -> bool {
        self.roster.waits(session)
    }

    fn any_waits(&self) -> bool {
        self.roster.any_waits()
    }

    fn in_device(&self, session: SessionId) -> u32 {
        self.roster.in_device(session)
    }
}
