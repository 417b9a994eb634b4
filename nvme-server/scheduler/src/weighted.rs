//! Shares the device's time: by weight between classes, and by weight between the sessions of one.
//!
//! Does the arbitration of the NVMe standard's weighted round robin with urgent priority class in the server, for
//! controllers that lack it (CAP.AMS). It counts the cost of commands instead of their number.

use crate::contention::ContentionTracker;
use crate::flow_table::{FlowTable, Lines, Load};
use crate::in_flight_limit::InFlightLimit;
use crate::policy::{Commands, Decision, Policy, Quantum};
use crate::share::{CLASSES, SessionId, Share, ShareError, Tenant};
use crate::starvation_guard::StarvationGuard;
use blk_api::config::{Class, ClassWeights};

/// Urgent first, as far as its sessions' limits go; the others by weight. The device gets as much as keeps it busy and no
/// more (the depth of SFQ(D)), because the device would decide the order otherwise. A class that got nothing for
/// [`STARVATION_LIMIT_NS`](crate::STARVATION_LIMIT_NS) goes first, once. Limits hold.
#[derive(Clone, Debug)]
pub struct Weighted {
    flow_table: FlowTable,
    starvation: StarvationGuard,
    contention: ContentionTracker,
    in_flight_limit: InFlightLimit,
    weights: [u64; CLASSES],
    /// The start of each class's next command, in a virtual time that all classes share.
    begins: [u64; CLASSES],
    /// The start of the command that was served last.
    time: u64,
}

/// Parts of a nanosecond that the classes' virtual time counts, so that weights divide it finely.
const PRECISION: u64 = 64;

impl Weighted {
    /// A policy with all sessions idle.
    ///
    /// # Errors
    /// [`ShareError`]: a share that is not allowed, or too many.
    pub fn new(tenants: &[Tenant], weights: ClassWeights) -> Result<Self, ShareError> {
        let ClassWeights { high, medium, low } = weights;
        Ok(Self {
            flow_table: FlowTable::new(tenants, Lines::PerClass)?,
            starvation: StarvationGuard::default(),
            contention: ContentionTracker::default(),
            in_flight_limit: InFlightLimit::new(),
            weights: [1, high, medium, low].map(|weight| u64::from(weight.max(1))),
            begins: [0; CLASSES],
            time: 0,
        })
    }

    /// Whether the session has the device to itself: no other waits or is only away for a moment, and no other class has
    /// sessions. One of those could come and find too much before it.
    fn has_device(&self, session: SessionId, now: u64) -> bool {
        let beside = self.contention.seen_beside(session);
        self.flow_table.is_alone(session)
            && self.flow_table.class(session).is_some_and(|class| !self.flow_table.has_other(class))
            && beside.is_none_or(|at| now >= at.saturating_add(self.starvation.length()))
    }

    /// The session whose turn it is and its quantum, if the device may get more.
    fn in_turn(&mut self, now: u64) -> Option<(SessionId, Quantum)> {
        let first = Class::ALL.into_iter().find_map(|class| self.flow_table.head(class, now))?;
        if self.has_device(first, now) {
            return Some((first, Quantum::ALL));
        }
        if let Some(session) = self.flow_table.head(Class::Urgent, now) {
            // Commands of the others in the device do not hold it up.
            let quantum =
                self.in_flight_limit.admits(self.flow_table.load(Class::Urgent), self.flow_table.total(), now)?;
            return Some((session, quantum));
        }
        let mut least: Option<(u64, SessionId)> = None;
        for class in [Class::High, Class::Medium, Class::Low] {
            let Some(session) = self.flow_table.head(class, now) else { continue };
            let begin = self.begins.get(class.index()).copied().unwrap_or(0);
            if least.is_none_or(|(other, _)| begin < other) {
                least = Some((begin, session));
            }
        }
        let (_, session) = least?;
        let held = self.flow_table.total();
        Some((session, self.in_flight_limit.admits(held, held, now)?))
    }

    /// Charges the class for a turn of this cost.
    fn charge(&mut self, class: Class, cost: u64) {
        let (Some(begin), Some(weight)) = (self.begins.get_mut(class.index()), self.weights.get(class.index())) else {
            return;
        };
        self.time = self.time.max(*begin);
        let length = cost.saturating_mul(PRECISION).checked_div(*weight).unwrap_or(cost);
        *begin = begin.saturating_add(length.max(1));
    }

    /// The class was away: it starts where the others are.
    fn joins(&mut self, class: Class) {
        if let Some(begin) = self.begins.get_mut(class.index()) {
            *begin = self.time.max(*begin);
        }
    }
}

impl Policy for Weighted {
    #[inline]
    fn flow_table(&self) -> &FlowTable {
        &self.flow_table
    }

    #[inline]
    fn flow_table_mut(&mut self) -> &mut FlowTable {
        &mut self.flow_table
    }

    fn ready(&mut self, session: SessionId, now: u64) {
        if self.flow_table.ready(session)
            && let Some(class) = self.flow_table.class(session)
        {
            self.starvation.asked(class, now);
            self.joins(class);
        }
    }

    fn next(&mut self, now: u64) -> Decision {
        self.flow_table.unpark(now);
        let overdue = self.starvation.overdue(&mut self.flow_table, now);
        match overdue.map(|session| (session, Quantum::ONE)).or_else(|| self.in_turn(now)) {
            Some((session, quantum)) => {
                Decision::Serve { session, quantum: self.flow_table.within_limits(session, quantum, now) }
            }
            None => {
                let (limit, starvation) = (self.flow_table.next_unpark(), self.starvation.next_end(&self.flow_table));
                Decision::wait([limit, starvation].into_iter().flatten().min())
            }
        }
    }

    fn refused(&mut self, session: SessionId, count: u16, now: u64) {
        let cost = self.in_flight_limit.cost.charge(Load { commands: u64::from(count), bytes: 0 });
        self.flow_table.refused(session, count, cost, now);
    }

    fn submitted(&mut self, commands: Commands, now: u64) {
        let cost = self.in_flight_limit.cost.charge(Load::of(&commands));
        if let Some(class) = self.flow_table.submitted(&commands, cost, now) {
            self.contention.seen(commands.session, now);
            self.in_flight_limit.submitted(self.flow_table.total(), now);
            self.starvation.served(class, &self.flow_table, now);
            self.starvation.learn(cost, commands.count);
            self.charge(class, cost);
        }
    }

    fn completed(&mut self, commands: Commands, submitted_at: u64, now: u64) {
        if self.flow_table.left_device(&commands).is_some() {
            self.contention.seen(commands.session, now);
            self.starvation.completed(now);
            let held = self.flow_table.total();
            self.in_flight_limit.completed(&commands, held, submitted_at, now);
        }
    }

    fn reset(&mut self, _: u64) {
        self.flow_table.reset();
        self.in_flight_limit.reset();
    }

    fn set_share(&mut self, session: SessionId, share: Share) -> Result<(), ShareError> {
        self.flow_table.set_share(session, share)?;
        // The session may be the first one in its line.
        self.joins(share.class);
        Ok(())
    }
}
