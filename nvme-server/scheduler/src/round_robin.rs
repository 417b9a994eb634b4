//! One line for everybody: neither class nor weight counts.

use crate::policy::{Budget, Commands, Decision, Policy};
use crate::roster::{Lines, Roster};
use crate::share::{SessionId, Share, ShareError, Tenant};
use blk_api::config::Class;

/// Command by command, whoever has waited longest: what a driver does that has one set of queues and a lock (SEEDS
/// V9). Limits hold. Latency of anybody is everybody's depth.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    roster: Roster,
}

impl RoundRobin {
    /// With everybody idle.
    ///
    /// # Errors
    /// [`ShareError`]: a share that is not allowed, or too many.
    pub fn new(tenants: &[Tenant]) -> Result<Self, ShareError> {
        Ok(Self { roster: Roster::new(tenants, Lines::One)? })
    }
}

impl Policy for RoundRobin {
    fn ready(&mut self, session: SessionId, _: u64) {
        self.roster.ready(session);
    }

    fn idle(&mut self, session: SessionId) {
        self.roster.idle(session);
    }

    fn next(&mut self, now: u64) -> Decision {
        self.roster.unpark(now);
        match self.roster.head(Class::Urgent, now) {
            Some(session) => {
                let bytes = self.roster.bytes_left(session, now);
                let commands = if self.roster.is_alone(session) { self.roster.commands_left(session, now) } else { 1 };
                Decision::Serve { session, budget: Budget { commands, bytes, named: bytes, fastest: None } }
            }
            None => Decision::wait(self.roster.next_unpark()),
        }
    }

    fn refused(&mut self, session: SessionId, count: u16, now: u64) {
        self.roster.refused(session, count, u64::from(count), now);
    }

    fn submitted(&mut self, commands: Commands, now: u64) {
        self.roster.submitted(&commands, u64::from(commands.count), now);
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
