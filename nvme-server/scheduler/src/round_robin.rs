//! A single line for all sessions: neither class nor weight counts.

use crate::flow_table::{FlowTable, Lines};
use crate::policy::{Decision, Policy, Quantum};
use crate::share::{ShareError, Tenant};
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
    #[inline]
    fn flow_table(&self) -> &FlowTable {
        &self.flow_table
    }

    #[inline]
    fn flow_table_mut(&mut self) -> &mut FlowTable {
        &mut self.flow_table
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
}
