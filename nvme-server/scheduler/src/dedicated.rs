//! The most urgent class goes first, and nothing is held back: for tenants with queue pairs of their own.

use crate::flow_table::{FlowTable, Lines};
use crate::policy::{Commands, Decision, Policy, Quantum};
use crate::share::{SessionId, ShareError, Tenant};
use crate::starvation_guard::StarvationGuard;
use blk_api::config::Class;

/// The most urgent class first, by weight within it, everything at once. Nothing is held back for the device's sake, so
/// shares depend on how many commands of each session the device holds. A class that got nothing for
/// [`STARVATION_LIMIT_NS`](crate::STARVATION_LIMIT_NS) goes first, once. Limits hold.
#[derive(Clone, Debug)]
pub struct Dedicated {
    pub(crate) flow_table: FlowTable,
    starvation: StarvationGuard,
}

impl Dedicated {
    /// A policy with all sessions idle.
    ///
    /// # Errors
    /// [`ShareError`]: a share that is not allowed, or too many.
    pub fn new(tenants: &[Tenant]) -> Result<Self, ShareError> {
        Ok(Self { flow_table: FlowTable::new(tenants, Lines::PerClass)?, starvation: StarvationGuard::default() })
    }

    /// Returns the session whose turn it is among `classes`, the most urgent class first.
    pub(crate) fn next_among(&mut self, classes: &[Class], now: u64) -> Decision {
        self.flow_table.unpark(now);
        let overdue = self.starvation.overdue(&mut self.flow_table, now);
        let overdue = overdue.filter(|one| self.flow_table.class(*one).is_some_and(|class| classes.contains(&class)));
        let first = overdue.or_else(|| classes.iter().find_map(|class| self.flow_table.head(*class, now)));
        match first {
            Some(session) => {
                let bytes = self.flow_table.bytes_left(session, now);
                let commands =
                    if self.flow_table.is_alone(session) { self.flow_table.commands_left(session, now) } else { 1 };
                Decision::Serve { session, quantum: Quantum { commands, bytes, named: bytes, fastest: None } }
            }
            None => Decision::wait(self.flow_table.next_unpark()),
        }
    }
}

impl Policy for Dedicated {
    #[inline]
    fn flow_table(&self) -> &FlowTable {
        &self.flow_table
    }

    #[inline]
    fn flow_table_mut(&mut self) -> &mut FlowTable {
        &mut self.flow_table
    }

    fn ready(&mut self, session: SessionId, now: u64) {
        if self.flow_table.ready(session) {
            self.flow_table.class(session).into_iter().for_each(|class| self.starvation.asked(class, now));
        }
    }

    fn next(&mut self, now: u64) -> Decision {
        self.next_among(&Class::ALL, now)
    }

    fn submitted(&mut self, commands: Commands, now: u64) {
        let class = self.flow_table.submitted(&commands, u64::from(commands.count), now);
        class.into_iter().for_each(|class| self.starvation.served(class, &self.flow_table, now));
    }
}
