//! Rights that are taken and given while the system runs. The result of a request must fit the rights that the scenario
//! gives its session at that time.
//!
//! No component reports the time at which a change was carried out. It lies between the time when it is due and
//! [`BOUND_NS`] later, or without a limit if the scenario has faults or kills. A change that waits for a moment is due when the
//! supervisor announces that. After an answer that blocks are forbidden, a
//! session must not reach them until they are due to be given back. Left out: forbidden writes, since a tenant or an extent may
//! be read-only.

use super::session::Flight;
use blk_api::Status;
use blk_api::operation::Right;
use capdl::Scenario;
use capdl::scenario::What;
use control_api::Act;
use sim_check::{BlockRange, Checker, Findings, Subject};
use sim_nvme::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Limit on the time from a change's due time until it is in force: the start of the system, a tick, commands in flight.
const BOUND_NS: u64 = 200_000_000;

/// The changes of rights in a scenario.
pub(crate) struct Rights {
    /// By session, in their order.
    changes: Vec<Vec<Change>>,
    /// The moments that some of them wait for, which have not been announced: the controller and the number, in their order.
    moments: Vec<(String, u16)>,
    bound_ns: u64,
    /// Session, first block, blocks, whether it reads: the time of the first refusal since such a request was last done.
    forbidden: BTreeMap<(u32, u64, u64, bool), u64>,
    /// The session that the operator's last order is about.
    ordered: Option<usize>,
}

struct Change {
    /// The moment that it waits for, and the time at which it is due: without end as long as that is not announced.
    moment: Option<u16>,
    due_ns: u64,
    first: u64,
    end: u64,
    gives: bool,
}

impl Change {
    /// Returns the part of `range` that the change affects, from one block to before another.
    fn part(&self, range: BlockRange) -> Option<(u64, u64)> {
        let part = (self.first.max(range.first), self.end.min(range.first.saturating_add(range.count)));
        (part.0 < part.1).then_some(part)
    }

    fn meets(&self, part: (u64, u64)) -> bool {
        self.first < part.1 && part.0 < self.end
    }

    fn covers(&self, part: (u64, u64)) -> bool {
        self.first <= part.0 && part.1 <= self.end
    }
}

impl Rights {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut changes: Vec<Vec<Change>> = scenario.tenants.iter().map(|_| Vec::new()).collect();
        let mut moments = Vec::new();
        for (change, number) in scenario.changes.iter().zip(scenario.moments.len() as u16..) {
            let named = scenario.tenants.iter().enumerate().find(|(_, tenant)| tenant.name == change.tenant);
            let Some((session, tenant)) = named else { continue };
            let moment = change.when.at.as_ref().map(|_| number);
            moments.extend(moment.map(|moment| (tenant.controller.clone(), moment)));
            let due_ns = if moment.is_some() { u64::MAX } else { u64::from(change.when.after_ms) * 1_000_000 };
            let runs: Vec<(u64, u64, bool)> = match &change.what {
                What::Revoke(all) => all.iter().map(|run| (run.first, run.blocks, false)).collect(),
                What::Grant(all) => all.iter().map(|run| (run.first, run.blocks, true)).collect(),
                What::Entitle(_) => Vec::new(),
            };
            for (first, blocks, gives) in runs {
                changes[session].push(Change { moment, due_ns, first, end: first + blocks, gives });
            }
        }
        let may_kill = scenario.control.as_ref().is_some_and(|control| control.acts.contains(&Act::Kill));
        let is_calm = scenario.faults.is_empty() && scenario.kills.is_empty() && !may_kill;
        let bound_ns = if is_calm { BOUND_NS } else { u64::MAX };
        Self { changes, moments, bound_ns, forbidden: BTreeMap::new(), ordered: None }
    }

    /// Records that an operator takes or gives a session's rights to blocks: the first one, their number, and whether they are given.
    pub(crate) fn ordered(&mut self, session: usize, (first, blocks, gives): (u64, u64, bool), now_ns: u64) {
        if let Some(changes) = self.changes.get_mut(session) {
            changes.push(Change { moment: None, due_ns: now_ns, first, end: first.saturating_add(blocks), gives });
            self.ordered = Some(session);
        }
    }

    /// Forgets the last order, which was refused.
    pub(crate) fn refused(&mut self) {
        if let Some(changes) = self.ordered.take().and_then(|session| self.changes.get_mut(session)) {
            changes.pop();
        }
    }

    /// Records the moments that were announced meanwhile, as `has_come` shows. A change waits for those before it at its controller.
    pub(crate) fn follow(&mut self, now_ns: u64, has_come: impl Fn(u16) -> bool) {
        let Self { changes, moments, .. } = self;
        let mut waits = BTreeSet::new();
        moments.retain(|(controller, moment)| {
            if waits.contains(controller) || !has_come(*moment) {
                waits.insert(controller.clone());
                return true;
            }
            let due = changes.iter_mut().flatten().filter(|change| change.moment == Some(*moment));
            due.for_each(|change| change.due_ns = now_ns);
            false
        });
    }

    /// Checks the answer to a session's request.
    pub(crate) fn answered(
        &mut self,
        session: u32,
        flight: &Flight,
        status: Option<Status>,
        now_ns: u64,
        findings: &mut Findings,
    ) {
        let reads = flight.opcode.right() == Some(Right::Read);
        let mut wrong = |text: &str, range: &BlockRange| {
            findings.add(now_ns, Checker::Authority, Subject::Session(session), || {
                format!("its request for {} blocks at LBA {} was {text}", range.count, range.first)
            });
        };
        let changes = self.changes.get(session as usize).map(Vec::as_slice).unwrap_or_default();
        match status {
            Some(Status::Forbidden) => {
                if reads
                    && !flight.ranges.iter().any(|range| self.may_be_refused(changes, *range, flight.asked_ns, now_ns))
                    && let Some(range) = flight.ranges.first()
                {
                    wrong("forbidden, although it has the right", range);
                }
                if let [range] = flight.ranges.as_slice() {
                    self.forbidden.entry((session, range.first, range.count, reads)).or_insert(now_ns);
                }
            }
            Some(Status::Success) if !changes.is_empty() => {
                for range in &flight.ranges {
                    if !self.may_be_done(changes, *range, flight.asked_ns, now_ns) {
                        wrong("done, although its rights were taken before", range);
                    }
                }
                let [range] = flight.ranges.as_slice() else { return };
                let key = (session, range.first, range.count, reads);
                let Some(reported_ns) =
                    self.forbidden.get(&key).copied().filter(|reported| *reported < flight.asked_ns)
                else {
                    return;
                };
                let is_given = |change: &Change| {
                    let late_enough = change.due_ns.saturating_add(self.bound_ns) >= reported_ns;
                    change.gives && change.part(*range).is_some() && change.due_ns <= now_ns && late_enough
                };
                if !changes.iter().any(is_given) {
                    wrong("done, although it was reported before that it is forbidden", range);
                }
                self.forbidden.remove(&key);
            }
            _ => {}
        }
    }

    /// Checks a command that the controller of a session's own function finished. Nothing else shows that its rights were taken.
    pub(super) fn commanded(&self, session: u32, record: &Record, now_ns: u64, findings: &mut Findings) {
        let changes = self.changes.get(session as usize).map(Vec::as_slice).unwrap_or_default();
        let range = BlockRange { first: record.slba, count: record.blocks.into() };
        if record.status.is_success() && !self.may_be_done(changes, range, record.fetched_ns, now_ns) {
            findings.add(now_ns, Checker::Authority, Subject::Session(session), || {
                format!(
                    "its function's command for {} blocks at LBA {} was done, although its rights were taken before",
                    range.count, range.first
                )
            });
        }
    }

    /// Whether a right to the blocks may be missing: one was taken, and not all of it was given back long ago.
    fn may_be_refused(&self, changes: &[Change], range: BlockRange, asked_ns: u64, now_ns: u64) -> bool {
        changes.iter().enumerate().any(|(number, taken)| {
            let Some(part) = taken.part(range).filter(|_| !taken.gives && taken.due_ns <= now_ns) else { return false };
            let in_force = |given: &Change| given.due_ns.saturating_add(self.bound_ns) < asked_ns;
            let later = changes.iter().skip(number + 1);
            !later.filter(|given| given.gives && given.covers(part)).any(in_force)
        })
    }

    /// Whether the blocks may be accessed: no right to them was taken long ago, unless a part of it is due again.
    fn may_be_done(&self, changes: &[Change], range: BlockRange, asked_ns: u64, now_ns: u64) -> bool {
        changes.iter().enumerate().all(|(number, taken)| {
            let Some(part) = taken.part(range).filter(|_| !taken.gives) else { return true };
            let in_force = taken.due_ns.saturating_add(self.bound_ns) < asked_ns;
            let mut later = changes.iter().skip(number + 1);
            !in_force || later.any(|given| given.gives && given.meets(part) && given.due_ns <= now_ns)
        })
    }
}
