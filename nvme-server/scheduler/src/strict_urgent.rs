//! For a controller that arbitrates the classes by weight, and takes the urgent one strictly first (NVMe 1.4, 4.13.2).

use crate::dedicated::Dedicated;
use crate::flow_table::FlowTable;
use crate::policy::{Commands, Decision, Policy};
use crate::share::{CLASSES, SessionId, ShareError, Tenant};
use crate::starvation_guard::STARVATION_LIMIT_NS;
use blk_api::config::Class;

/// Submits everything at once, as [`Dedicated`] does, and the controller chooses. The controller would starve the classes
/// below for as long as urgent queues have commands. So nothing more is submitted to those while a class below has had
/// commands in the device for [`STARVATION_LIMIT_NS`](crate::STARVATION_LIMIT_NS) and none of them completed.
#[derive(Clone, Debug)]
pub struct StrictUrgent {
    dedicated: Dedicated,
    /// By class: since when the device owes it a completion, if it holds any of its commands.
    owed: [u64; CLASSES],
}

impl StrictUrgent {
    /// A policy with all sessions idle.
    ///
    /// # Errors
    /// As [`Dedicated::new`].
    pub fn new(tenants: &[Tenant]) -> Result<Self, ShareError> {
        Ok(Self { dedicated: Dedicated::new(tenants)?, owed: [0; CLASSES] })
    }

    /// Whether a class below urgent has waited for too long.
    fn holds_urgent(&self, now: u64) -> bool {
        let flow_table = &self.dedicated.flow_table;
        Class::ALL.into_iter().filter(|class| *class != Class::Urgent && flow_table.load(*class).commands > 0).any(
            |class| {
                let since = self.owed.get(class.index()).copied().unwrap_or(now);
                since.saturating_add(STARVATION_LIMIT_NS) <= now
            },
        )
    }

    /// The device owes the class a completion from now on.
    fn owe(&mut self, class: Option<Class>, now: u64) {
        if let Some(since) = class.and_then(|class| self.owed.get_mut(class.index())) {
            *since = now;
        }
    }
}

impl Policy for StrictUrgent {
    #[inline]
    fn flow_table(&self) -> &FlowTable {
        &self.dedicated.flow_table
    }

    #[inline]
    fn flow_table_mut(&mut self) -> &mut FlowTable {
        &mut self.dedicated.flow_table
    }

    fn ready(&mut self, session: SessionId, now: u64) {
        self.dedicated.ready(session, now);
    }

    fn next(&mut self, now: u64) -> Decision {
        let all = &Class::ALL;
        let (_, below) = all.split_at(1);
        self.dedicated.next_among(if self.holds_urgent(now) { below } else { all }, now)
    }

    fn submitted(&mut self, commands: Commands, now: u64) {
        let class = self.dedicated.flow_table.class(commands.session);
        let begins = |class: &Class| self.dedicated.flow_table.load(*class).commands == 0;
        let begins = class.filter(begins);
        self.owe(begins, now);
        self.dedicated.submitted(commands, now);
    }

    fn completed(&mut self, commands: Commands, submitted_at: u64, now: u64) {
        self.owe(self.dedicated.flow_table.class(commands.session), now);
        self.dedicated.completed(commands, submitted_at, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Kind;
    use crate::share::Share;

    const URGENT: SessionId = SessionId(0);
    const LOW: SessionId = SessionId(1);

    fn both() -> StrictUrgent {
        let tenant = |class| Tenant { share: Share::of(class), highest: class };
        let mut policy = StrictUrgent::new(&[tenant(Class::Urgent), tenant(Class::Low)]).unwrap();
        policy.ready(URGENT, 0);
        policy.ready(LOW, 0);
        policy
    }

    fn one(session: SessionId) -> Commands {
        Commands { session, kind: Kind::Read, bytes: 4096, count: 1 }
    }

    fn served(policy: &mut StrictUrgent, now: u64) -> Option<SessionId> {
        match policy.next(now) {
            Decision::Serve { session, .. } => Some(session),
            _ => None,
        }
    }

    #[test]
    fn urgent_commands_go_first_until_a_lower_class_starves() {
        let mut policy = both();
        policy.submitted(one(LOW), 0);
        policy.idle(LOW);
        assert_eq!(served(&mut policy, STARVATION_LIMIT_NS - 1), Some(URGENT));
        policy.submitted(one(URGENT), STARVATION_LIMIT_NS - 1);
        assert_eq!(served(&mut policy, STARVATION_LIMIT_NS), None, "what urgent queues hold runs out");
        policy.completed(one(URGENT), 0, STARVATION_LIMIT_NS + 1);
        assert_eq!(served(&mut policy, STARVATION_LIMIT_NS + 1), None);
        policy.completed(one(LOW), 0, STARVATION_LIMIT_NS + 2);
        assert_eq!(served(&mut policy, STARVATION_LIMIT_NS + 2), Some(URGENT));
    }

    #[test]
    fn class_without_commands_was_not_delayed_by_the_device() {
        let mut policy = both();
        policy.submitted(one(LOW), STARVATION_LIMIT_NS);
        policy.idle(LOW);
        assert_eq!(served(&mut policy, STARVATION_LIMIT_NS + 1), Some(URGENT));
    }

    #[test]
    fn the_classes_below_go_on_meanwhile() {
        let mut policy = both();
        policy.submitted(one(LOW), 0);
        assert_eq!(served(&mut policy, STARVATION_LIMIT_NS), Some(LOW));
    }
}
