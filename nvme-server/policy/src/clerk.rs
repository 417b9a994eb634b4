//! Who asks, and what is installed for that.
//!
//! A client asks for the records of some blocks; it gets those that its own session has there, a bounded number at a time
//! and so many times a tick. To install is a call at the server, which answers it at once.
//!
//! When rights change, the book changes first, so that nothing is installed any more by what was; then the server is told
//! to remove what it has of these blocks, which it answers when nothing is in flight that was given before; and what is
//! refused from now on is installed as a refusal. Rights that were given are installed when somebody asks for them.
//!
//! Left out: what to do when the server dies during a call. The supervisor has the call made again at the successor, whose
//! sessions are not open yet, so that it is refused; and who calls one that stays dead is answered by the kernel.

use crate::book::{Book, Numbers};
use crate::changes::Changes;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use blk_api::policy::{
    ASK, Asked, Change, Covered, DONE, INSTALL, RECORDS_AN_ASK, REMOVE, Range, Record, Refusal, SET_SHARE, Share, What,
};
use platform::log::{error, info};
use platform::{Badge, Beginning, Cap, Endpoint, Kernel, Life, Message, Platform, ticks_to_ns};
use report::{Changed, Name, Report, clip};

/// Records that are installed for one client from one tick to the next.
const RECORDS_A_TICK: u32 = 8192;

/// The clerk at the window.
pub(crate) struct Clerk<P: Platform> {
    platform: P,
    /// Its component's.
    name: Name,
    book: Book,
    changes: Changes,
    /// When the change that is due was decided, in ticks, while the server could not be told.
    decided: Option<u64>,
    server: Cap<Endpoint>,
    /// The server's page of lives.
    page: P::Memory,
    /// The server's life that has the shares.
    served: Life,
    /// Shares that were changed, the last for each session.
    shares: Vec<Share>,
    /// By session, records that were installed for it since the last tick.
    installed: Vec<u32>,
}

impl<P: Platform> Clerk<P> {
    /// Of this book, for the server behind `server` whose page of lives is `page`.
    pub(crate) fn new(
        platform: P,
        name: Name,
        book: Book,
        changes: Changes,
        server: Cap<Endpoint>,
        page: P::Memory,
    ) -> Self {
        let installed = vec![0; book.sessions()];
        let served = Life::load(&page).unwrap_or(Life::FIRST);
        let shares = Vec::new();
        Self { served, shares, platform, name, book, changes, decided: None, server, page, installed }
    }

    /// Sessions it knows.
    pub(crate) fn sessions(&self) -> usize {
        self.book.sessions()
    }

    /// A tick has passed: everybody may ask again.
    pub(crate) fn on_tick(&mut self) {
        self.installed.fill(0);
    }

    /// The answer to a call of the client with this badge.
    pub(crate) async fn answer(&mut self, badge: Badge, message: &Message) -> Message {
        let session = usize::try_from(badge.0.wrapping_sub(1)).unwrap_or(usize::MAX);
        let covered = match (message.label, message.payload::<Asked>()) {
            (ASK, Ok(asked)) => self.ask(session, asked).await,
            _ => Err(Refusal::BadRequest),
        };
        covered.map_or_else(Refusal::message, |covered| Message::with(DONE, &covered))
    }

    /// Carries out the changes whose time has come. While the server is dead the book is all there is to change, and the
    /// rest waits for its successor: only then is nothing of the dead one's in flight.
    ///
    /// All of them are written down before the first is carried out: a component that was started again has changes due
    /// that undo each other, and nobody is to be refused for a moment what was given back long ago.
    pub(crate) async fn change_what_is_due(&mut self) {
        self.repeat_shares().await;
        let elapsed_ms = self.elapsed_ms();
        let due = self.changes.write_down(&mut self.book, elapsed_ms);
        if due.is_empty() {
            return;
        }
        let decided = *self.decided.get_or_insert_with(|| self.platform.ticks());
        if !self.server_lives() {
            return;
        }
        for (Change { session, what, .. }, changed) in &due {
            match changed {
                Ok(changed) => match self.carry_out(*session, what, changed).await {
                    Ok(()) => self.report(*session, what, decided),
                    // What an earlier life of ours asked for is still under way, or the server is not there.
                    Err(Refusal::Busy | Refusal::Dead) => return,
                    Err(refusal) => self.fail(&format!("the server refuses it to session {session}: {refusal}")),
                },
                // All changes were tried in their order at the start.
                Err(unsound) => self.fail(&format!("{unsound}")),
            }
            self.changes.done();
        }
        self.decided = None;
    }

    async fn carry_out(&mut self, session: u32, what: &What, changed: &[Numbers]) -> Result<(), Refusal> {
        self.entitle(session, what).await?;
        for numbers in changed {
            self.renew(session, *numbers).await?;
        }
        Ok(())
    }

    /// Gives the session the share that `what` says, if it is about one.
    async fn entitle(&mut self, session: u32, what: &What) -> Result<(), Refusal> {
        let What::Entitle(entitlement) = what else { return Ok(()) };
        let share = Share::new(session, entitlement);
        self.set_share(&share).await?;
        self.shares.retain(|earlier| earlier.session != session);
        self.shares.push(share);
        Ok(())
    }

    /// A server that was started again has the shares of its configuration: those that changed since are set again.
    async fn repeat_shares(&mut self) {
        let Ok(life) = Life::load(&self.page) else { return };
        if life == self.served || !life.is_alive() {
            return;
        }
        for share in &self.shares {
            match self.set_share(share).await {
                Ok(()) => {}
                // All of them again at the next tick.
                Err(Refusal::Busy | Refusal::Dead) => return,
                Err(refusal) => {
                    self.fail(&format!("the server refuses session {} its share: {refusal}", share.session))
                }
            }
        }
        self.served = life;
    }

    async fn set_share(&self, share: &Share) -> Result<(), Refusal> {
        self.call(&Message::with(SET_SHARE, share)).await
    }

    /// Makes the server forget these blocks, and refuse what nobody may do with them any more.
    async fn renew(&self, session: u32, numbers: Numbers) -> Result<(), Refusal> {
        let Numbers { first, blocks } = numbers;
        let range = Range { session: u64::from(session), first, blocks };
        self.call(&Message::with(REMOVE, &range)).await?;
        let index = usize::try_from(session).unwrap_or(usize::MAX);
        let end = first.saturating_add(blocks);
        let records = (0..).map_while(|place| self.book.record(index, first, place));
        for record in records.take_while(|record| record.first < end).filter(|record| record.rights == 0) {
            match self.call(&Message::with(INSTALL, &record)).await {
                // Who opens it asks.
                Ok(()) | Err(Refusal::NotOpen(_)) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }

    fn report(&self, session: u32, what: &What, decided: u64) {
        let to_ns = |ticks: u64| ticks_to_ns(ticks, self.platform.ticks_per_second());
        let what = match what {
            What::Revoke(all) => Changed::Revoked { blocks: sum(all.iter().map(|blocks| blocks.blocks)) },
            What::Grant(all) => Changed::Granted { blocks: sum(all.iter().map(|extent| extent.blocks)) },
            What::Entitle(_) => Changed::Entitled,
        };
        let tenant = self.book.tenant(session);
        let at_ns = to_ns(decided);
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
    fn elapsed_ms(&self) -> u64 {
        // The page is there, or there would be no clerk.
        let Beginning(began) = Beginning::load(&self.page).unwrap_or_default();
        let elapsed = self.platform.ticks().saturating_sub(began);
        ticks_to_ns(elapsed, self.platform.ticks_per_second()) / 1_000_000
    }

    fn server_lives(&self) -> bool {
        Life::load(&self.page).is_ok_and(Life::is_alive)
    }

    async fn call(&self, message: &Message) -> Result<(), Refusal> {
        let answer = self.platform.kernel().call(self.server, message).await;
        if answer.label == DONE { Ok(()) } else { Err(Refusal::of(&answer)) }
    }

    async fn ask(&mut self, session: usize, asked: Asked) -> Result<Covered, Refusal> {
        let Asked { first, blocks } = asked;
        let has = self.book.blocks(session).ok_or(Refusal::NoSession(session as u64))?;
        if blocks == 0 {
            return Err(Refusal::Empty { first });
        }
        let end = first.checked_add(blocks).filter(|end| *end <= has);
        let end = end.ok_or(Refusal::BeyondSession { first, blocks, has })?;
        let mut covered = first;
        for index in 0..RECORDS_AN_ASK {
            if covered >= end {
                break;
            }
            let Some(record) = self.book.record(session, first, index) else { break };
            match self.install(session, record).await {
                Ok(()) => covered = record.first.saturating_add(record.blocks),
                // What is installed is told; for the rest it is asked again.
                Err(Refusal::Busy) if covered > first => break,
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(Covered { blocks: covered.saturating_sub(first) })
    }

    async fn install(&mut self, session: usize, record: Record) -> Result<(), Refusal> {
        if !self.server_lives() {
            return Err(Refusal::NoServer);
        }
        let installed = self.installed.get_mut(session).ok_or(Refusal::NoSession(session as u64))?;
        if *installed >= RECORDS_A_TICK {
            return Err(Refusal::Busy);
        }
        *installed = installed.saturating_add(1);
        self.call(&Message::with(INSTALL, &record)).await
    }
}

fn sum(blocks: impl Iterator<Item = u64>) -> u64 {
    blocks.fold(0, u64::saturating_add)
}
