//! A single line for all sessions: neither class nor weight counts.

use crate::flow_table::{FlowTable, Lines};
use crate::policy::{Commands, Decision, Policy, Quantum};
use crate::share::{SessionId, Share, ShareError, Tenant};
use blk_api::config::Class;

/// Command by command, the session that has waited longest first, as in a driver with one set of queues and a lock
/// (SEEDS V9). Limits hold. The latency of each session depends on the depths of all.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    flow_table: FlowTable,
}

impl RoundRobin {
    /// A policy with all sessions idle.
    ///
    /// # Errors
    /// [`ShareError`]: a share that is not allowed, or too many.
    pub fn new(tenants: &[Tenant]) -> Result<Self, ShareError> {
        Ok(Self { flow_table: FlowTable::new(tenants, Lines::One)? })
    }
}

impl Policy for RoundRobin {
    fn ready(&mut self, session: SessionId, _: u64) {
        self.flow_table.ready(session);
    }

    fn idle(&mut self, session: SessionId) {
        self.flow_table.idle(session);
    }

    fn next(&mut self, now: u64) -> Decision {
        self.flow_table.unpark(now);
        match self.flow_table.head(Class::Urgent, now) {
            Some(session) => {
                let bytes = self.flow_table.bytes_left(session, now);
                let commands =
                    if self.flow_table.is_alone(session) { self.flow_table.commands_left(session, now) } else { 1 };
                Decision::Serve { session, quantum: Quantum { commands, bytes, named: bytes, fastest: None } }
            }
            None => Decision::wait(self.flow_table.next_unpark()),
        }
    }

    fn refused(&mut self, session: SessionId, count: u16, now: u64) {
        self.flow_table.refused(session, count, u64::from(count), now);
    }

    fn submitted(&mut self, commands: Commands, now: u64) {
        self.flow_table.submitted(&commands, u64::from(commands.count), now);
    }

    fn completed(&mut self, commands: Commands, _: u64, _: u64) {
        self.flow_table.left_device(&commands);
    }

    fn aborted(&mut self, commands: Commands, _: u64) {
        self.flow_table.left_device(&commands);
    }

    fn reset(&mut self, _: u64) {
        self.flow_table.reset();
    }

    fn set_share(&mut self, session: SessionId, share: Share) -> Result<(), ShareError> {
        self.flow_table.set_share(session, share)
    }

    fn share(&self, session: SessionId) -> Option<Share> {
        self.flow_table.share(session)
    }

    fn waits(&self, session: SessionId) -> bool {
        self.flow_table.waits(session)
    }

    fn any_waits(&self) -> bool {
        self.flow_table.any_waits()
    }

    fn in_device(&self, session: SessionId) -> u32 {
        self.flow_table.in_device(session)
    }
}
