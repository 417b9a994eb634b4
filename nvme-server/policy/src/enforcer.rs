//! Changes whose time has come, until they are in force.
//!
//! When rights change, the rights map changes first, so that nothing is installed any more by what was; then the server removes
//! what it has of these blocks, and what is refused from now on is installed as a refusal; in force it is when nothing is in
//! flight any more that was given before. Rights that were given are installed when somebody asks for them.
//!
//! The server is notified of a session's rights in the order of their changes, and likewise of its share; nothing else waits for
//! anything. It answers at once and signals when something is over that takes time; then and at each tick it is asked
//! again. Whoever asks for records is served meanwhile.
//!
//! Left out: what to do when the server dies during a call. The supervisor has the call made again at the successor, whose
//! sessions are not open yet, so that it is refused; and who calls one that stays dead is answered by the kernel.

use crate::changes::Changes;
use crate::rights_map::{Numbers, RightsMap};
use crate::server::Server;
use alloc::format;
use alloc::vec::Vec;
use blk_api::policy::{Change, Range, Refusal, Removal, Share, What};
use core::mem;
use platform::log::{error, info};
use platform::{Incarnation, Platform, ticks_to_ns};
use report::{Changed, Name, Report, clip};

/// A change whose time has come.
struct Due {
    session: u32,
    what: What,
    /// The blocks it is about.
    numbers: Vec<Numbers>,
    /// When it was decided, in ticks.
    decided: u64,
    stage: Stage,
}

/// How far a change has come.
enum Stage {
    /// The server does not know all of it.
    Decided,
    /// It does. Commands that were submitted before may be in flight, where it took rights.
    Notified(Option<Removal>),
    /// It will not have it.
    Refused(Refusal),
}

/// Whoever sees to it that changes come into force.
pub(crate) struct Enforcer<P: Platform> {
    platform: P,
    /// Its component's.
    name: Name,
    changes: Changes,
    /// In the order in which they were decided.
    due: Vec<Due>,
    /// The server's incarnation that has the shares.
    served: Incarnation,
    /// Shares that were changed, the last for each session.
    shares: Vec<Share>,
}

impl<P: Platform> Enforcer<P> {
    /// Of these changes, at `server`, which has the shares of its configuration.
    pub(crate) fn new(platform: P, name: Name, changes: Changes, server: &Server<P>) -> Self {
        let served = server.incarnation().unwrap_or(Incarnation::FIRST);
        Self { platform, name, changes, due: Vec::new(), served, shares: Vec::new() }
    }

    /// Carries out the changes whose time has come, as far as they go now. While the server is dead the rights map is all there is
    /// to change, and the rest waits for its successor: only then is nothing of the dead one's in flight.
    ///
    /// All of them are written down before the first is carried out: a component that was started again has changes due
    /// that undo each other, and nobody is to be refused for a moment what was given back long ago.
    pub(crate) async fn carry_out(&mut self, rights_map: &mut RightsMap, server: &Server<P>) {
        self.repeat_shares(server).await;
        let decided = self.platform.ticks();
        for (Change { session, what, .. }, numbers) in self.changes.take_due(rights_map, self.elapsed_ms(server)) {
            match numbers {
                Ok(numbers) => self.due.push(Due { session, what, numbers, decided, stage: Stage::Decided }),
                // All changes were tried in their order at the start.
                Err(unsound) => self.fail(&format!("{unsound}")),
            }
        }
        while server.is_alive() && self.advance(rights_map, server).await {}
    }

    /// Notifies the server of what it does not know, and then polls what is in force. Whether something is over, so that what it
    /// held up can follow.
    async fn advance(&mut self, rights_map: &RightsMap, server: &Server<P>) -> bool {
        let mut all = mem::take(&mut self.due);
        let mut untold = Vec::new();
        for due in &mut all {
            let kind = (due.session, matches!(due.what, What::Entitle(_)));
            if matches!(due.stage, Stage::Decided) && !untold.contains(&kind) {
                due.stage = match self.notify(due, rights_map, server).await {
                    Ok(removal) => Stage::Notified(removal),
                    // What an earlier incarnation of ours asked for is still under way, or this; or the server is not there.
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
                Ok(()) => self.report(&due, rights_map.tenant(due.session)),
                Err(Refusal::Busy | Refusal::Dead) => self.due.push(due),
                Err(refusal) => self.fail(&format!("the server refuses it to session {}: {refusal}", due.session)),
            }
        }
        self.due.len() < before
    }

    /// Has the server forget these blocks, and refuse what nobody may do with them any more; or set a share. What it
    /// removed last.
    async fn notify(
        &mut self,
        due: &Due,
        rights_map: &RightsMap,
        server: &Server<P>,
    ) -> Result<Option<Removal>, Refusal> {
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
                    // Who opens it asks.
                    Ok(()) | Err(Refusal::NotOpen(_)) => {}
                    Err(refusal) => return Err(refusal),
                }
            }
        }
        Ok(last)
    }

    /// A server that was started again has the shares of its configuration: those that changed since are set again.
    async fn repeat_shares(&mut self, server: &Server<P>) {
        let Some(incarnation) =
            server.incarnation().filter(|incarnation| *incarnation != self.served && incarnation.is_alive())
        else {
            return;
        };
        for share in &self.shares {
            match server.set_share(share).await {
                Ok(()) => {}
                // All of them again at the next tick.
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

    /// Milliseconds since the system began.
    fn elapsed_ms(&self, server: &Server<P>) -> u64 {
        server.elapsed_ms(self.platform.ticks(), self.platform.ticks_per_second())
    }
}

fn sum(blocks: impl Iterator<Item = u64>) -> u64 {
    blocks.fold(0, u64::saturating_add)
}
