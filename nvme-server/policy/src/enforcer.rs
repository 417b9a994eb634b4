//! Enforces the changes whose time has come, until they are in force.
//!
//! When rights change, the rights map changes first, so that no record is installed by the old rights any more. Then the
//! server removes its records of these blocks, and refused blocks are installed as refusals. The change is in force when no
//! command that was submitted before is in flight any more. Granted rights are installed when a client asks for them.
//!
//! The server is notified of a session's rights in the order of their changes, and likewise of its share; other changes do
//! not wait for each other. It answers at once, and signals when a longer operation is over. Then and at each tick it is
//! polled again. Clients that ask for records are served meanwhile.
//!
//! Left out: a server that dies during a call. The supervisor has the call made again at the successor, whose sessions are
//! not open yet, so that it is refused. If the server stays dead, the kernel answers the call.

use crate::changes::Changes;
use crate::functions::Functions;
use crate::rights_map::{Numbers, RightsMap};
use crate::server::Server;
use alloc::format;
use alloc::vec::Vec;
use blk_api::policy::{Change, Range, Refusal, Removal, Share, What};
use core::mem;
use platform::log::{error, info};
use platform::{Environment, Incarnation, Platform, ticks_to_ns};
use report::milestones::Milestones;
use report::{Changed, Name, Report, clip};

/// A change whose time has come.
struct Due {
    session: u32,
    what: What,
    /// The blocks it is about.
    numbers: Vec<Numbers>,
    /// When it was decided, in ticks.
    decided: u64,
    /// Whether an operator ordered it, and waits for the outcome.
    is_ordered: bool,
    stage: Stage,
}

/// How far a change has come.
enum Stage {
    /// The server does not know all of the change.
    Decided,
    /// The server knows it. If it took rights, commands that were submitted before may still be in flight.
    Notified(Option<Removal>),
    /// The server refused it.
    Refused(Refusal),
}

/// Brings changes into force.
pub(crate) struct Enforcer<P: Platform> {
    platform: P,
    /// The component's name.
    name: Name,
    changes: Changes,
    /// The moments that have come.
    milestones: Milestones<P::Memory>,
    functions: Functions,
    /// In the order in which they were decided.
    due: Vec<Due>,
    /// The server's incarnation that has the changed shares.
    served: Incarnation,
    /// Shares that were changed, the last for each session.
    shares: Vec<Share>,
    /// The outcome of the operator's last order, once it is over.
    outcome: Option<Result<(), Refusal>>,
}

impl<P: Platform> Enforcer<P> {
    /// An enforcer of these changes at `server`, which has the shares of its configuration.
    pub(crate) fn new(
        platform: P,
        environment: &Environment,
        changes: Changes,
        functions: Functions,
        server: &Server<P>,
    ) -> Self {
        let served = server.incarnation().unwrap_or(Incarnation::FIRST);
        let (name, milestones) = (clip(&environment.name), Milestones::of(&platform, environment));
        Self {
            platform,
            name,
            changes,
            milestones,
            functions,
            due: Vec::new(),
            served,
            shares: Vec::new(),
            outcome: None,
        }
    }

    /// Has a change of the operator carried out, which was applied to the rights map. These are the blocks that it is about.
    pub(crate) fn order(&mut self, session: u32, what: What, numbers: Vec<Numbers>) {
        self.outcome = None;
        self.push(session, what, numbers, true);
    }

    /// As [`Enforcer::order`], for a change whose outcome nobody waits for.
    pub(crate) fn decide(&mut self, session: u32, what: What, numbers: Vec<Numbers>) {
        self.push(session, what, numbers, false);
    }

    fn push(&mut self, session: u32, what: What, numbers: Vec<Numbers>, is_ordered: bool) {
        let decided = self.platform.ticks();
        self.due.push(Due { session, what, numbers, decided, is_ordered, stage: Stage::Decided });
    }

    /// Takes the outcome of the operator's order, once that is over.
    pub(crate) const fn take_outcome(&mut self) -> Option<Result<(), Refusal>> {
        self.outcome.take()
    }

    /// Carries out the changes whose time has come, as far as they go now. While the server is dead only the rights map changes.
    /// The rest waits for the server's successor: only then is no command of the dead one in flight.
    ///
    /// All of them are applied to the rights map before the first is carried out. A restarted component has changes due that
    /// undo each other, and must not refuse a client for a moment what was granted again long ago.
    pub(crate) async fn carry_out(&mut self, rights_map: &mut RightsMap, server: &Server<P>) {
        self.repeat_shares(server).await;
        self.take_due(rights_map);
        if let Err(refusal) = self.functions.carry_out(rights_map, server).await {
            self.fail(&format!("the server refuses a virtual function: {refusal}"));
        }
        while server.is_alive() && self.advance(rights_map, server).await {}
    }

    /// Applies the changes whose time has come to the rights map. They are carried out from now on.
    pub(crate) fn take_due(&mut self, rights_map: &mut RightsMap) {
        let due = self.changes.take_due(rights_map, |moment| self.milestones.has_come(moment));
        for (Change { session, what, .. }, numbers) in due {
            match numbers {
                Ok(numbers) => self.decide(session, what, numbers),
                // All changes were tried in their order at the start.
                Err(unsound) => self.fail(&format!("{unsound}")),
            }
        }
    }

    /// Notifies the server of the changes that it does not know, and then polls which changes are in force. Returns whether one
    /// is over, so that those that waited for it can follow.
    async fn advance(&mut self, rights_map: &RightsMap, server: &Server<P>) -> bool {
        let mut all = mem::take(&mut self.due);
        let mut untold = Vec::new();
        for due in &mut all {
            let kind = (due.session, matches!(due.what, What::Entitle(_)));
            if matches!(due.stage, Stage::Decided) && !untold.contains(&kind) {
                due.stage = match self.notify(due, rights_map, server).await {
                    Ok(removal) => Stage::Notified(removal),
                    // A change of an earlier incarnation of ours is still under way, or this one; or the server is not there.
                    Err(Refusal::Busy | Refusal::Dead) => Stage::Decided,
                    Err(refusal) => Stage::Refused(refusal),
                };
            }
            if matches!(due.stage, Stage::Decided) {
                untold.push(kind);
            }
        }
        let before = all.len();
        for due in all {
            let in_force = match &due.stage {
                Stage::Decided => Err(Refusal::Busy),
                Stage::Notified(None) => Ok(()),
                Stage::Notified(Some(removal)) => server.drained(removal).await,
                Stage::Refused(refusal) => Err(*refusal),
            };
            match in_force {
                Ok(()) => {
                    self.report(&due, rights_map.tenant(due.session));
                    self.outcome = if due.is_ordered { Some(Ok(())) } else { self.outcome };
                }
                Err(Refusal::Busy | Refusal::Dead) => self.due.push(due),
                Err(refusal) if due.is_ordered => self.outcome = Some(Err(refusal)),
                Err(refusal) => self.fail(&format!("the server refuses it to session {}: {refusal}", due.session)),
            }
        }
        self.due.len() < before
    }

    /// Has the server remove its records of these blocks, and installs refusals where the session has no rights any more; or
    /// sets a share. Returns the last removal.
    async fn notify(
        &mut self,
        due: &Due,
        rights_map: &RightsMap,
        server: &Server<P>,
    ) -> Result<Option<Removal>, Refusal> {
        if self.functions.has(due.session) {
            let in_force = self.functions.is_in_force(due.session, rights_map);
            return if in_force { Ok(None) } else { Err(Refusal::Busy) };
        }
        if let What::Entitle(entitlement) = &due.what {
            let share = Share::new(due.session, entitlement);
            server.set_share(&share).await?;
            self.shares.retain(|earlier| earlier.session != share.session);
            self.shares.push(share);
        }
        let mut last = None;
        for &Numbers { first, blocks } in &due.numbers {
            last = Some(server.remove(&Range { session: u64::from(due.session), first, blocks }).await?);
            let end = first.saturating_add(blocks);
            let index = usize::try_from(due.session).unwrap_or(usize::MAX);
            let records = (0..).map_while(|place| rights_map.record(index, first, place));
            for record in records.take_while(|record| record.first < end).filter(|record| record.rights == 0) {
                match server.install(&record).await {
                    // A client that opens the session later asks for its records.
                    Ok(()) | Err(Refusal::NotOpen(_)) => {}
                    Err(refusal) => return Err(refusal),
                }
            }
        }
        Ok(last)
    }

    /// Sets the changed shares again at a restarted server, which begins with the shares of its configuration.
    async fn repeat_shares(&mut self, server: &Server<P>) {
        let Some(incarnation) =
            server.incarnation().filter(|incarnation| *incarnation != self.served && incarnation.is_alive())
        else {
            return;
        };
        for share in &self.shares {
            match server.set_share(share).await {
                Ok(()) => {}
                // All of them are set again at the next tick.
                Err(Refusal::Busy | Refusal::Dead) => return,
                Err(refusal) => {
                    self.fail(&format!("the server refuses session {} its share: {refusal}", share.session))
                }
            }
        }
        self.served = incarnation;
    }

    fn report(&self, due: &Due, tenant: &str) {
        let to_ns = |ticks: u64| ticks_to_ns(ticks, self.platform.ticks_per_second());
        let what = match &due.what {
            What::Revoke(all) => Changed::Revoked { blocks: sum(all.iter().map(|blocks| blocks.blocks)) },
            What::Grant(all) => Changed::Granted { blocks: sum(all.iter().map(|extent| extent.blocks)) },
            What::Entitle(_) => Changed::Entitled,
        };
        let at_ns = to_ns(due.decided);
        let took_ns = to_ns(self.platform.ticks()).saturating_sub(at_ns);
        info!("rights of {} changed in {} us", tenant, took_ns / 1000);
        let change = report::Change { policy: self.name.clone(), tenant: clip(tenant), what, at_ns, took_ns };
        self.platform.report(&Report::Change(change).encode());
    }

    fn fail(&self, reason: &str) {
        error!("a change is not carried out: {}", reason);
        self.platform.report(&Report::Failure { component: self.name.clone(), reason: clip(reason) }.encode());
    }
}

fn sum(blocks: impl Iterator<Item = u64>) -> u64 {
    blocks.fold(0, u64::saturating_add)
}
