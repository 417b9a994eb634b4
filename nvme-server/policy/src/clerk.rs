//! Who asks, and what is installed for that.
//!
//! A client asks for the records of some blocks; it gets those that its own session has there, a bounded number at a time
//! and as long as its budget lasts (`budget`). To install is a call at the server, which answers it at once. Left out: what
//! changes of the rights (`enforcer`).

use crate::book::Book;
use crate::budget::{Budgets, CALL, RECORD};
use crate::changes::Changes;
use crate::enforcer::Enforcer;
use crate::interrupts::Interrupts;
use crate::server::Server;
use blk_api::policy::{ASK, Asked, Covered, DONE, RECORDS_AN_ASK, Refusal};
use platform::{Badge, Message, Platform};
use report::Name;

/// The clerk at the window.
pub(crate) struct Clerk<P: Platform> {
    book: Book,
    server: Server<P>,
    enforcer: Enforcer<P>,
    interrupts: Interrupts<P>,
    budgets: Budgets,
}

impl<P: Platform> Clerk<P> {
    /// Of this book, the changes of it and those of `interrupts`, for `server`; a part of component `name`.
    pub(crate) fn new(
        platform: P,
        name: Name,
        book: Book,
        changes: Changes,
        interrupts: Interrupts<P>,
        server: Server<P>,
    ) -> Self {
        let budgets = Budgets::new(book.sessions());
        let enforcer = Enforcer::new(platform, name, changes, &server);
        Self { book, server, enforcer, interrupts, budgets }
    }

    /// Sessions it knows.
    pub(crate) fn sessions(&self) -> usize {
        self.book.sessions()
    }

    /// A tick has passed: everybody may ask again, and changes are due.
    pub(crate) async fn on_tick(&mut self) {
        self.budgets.renew();
        self.change_what_is_due().await;
    }

    /// Carries out the changes whose time has come.
    pub(crate) async fn change_what_is_due(&mut self) {
        self.enforcer.carry_out(&mut self.book, &self.server).await;
        self.interrupts.carry_out(&self.server).await;
    }

    /// The answer to a call of the client with this badge.
    pub(crate) async fn answer(&mut self, badge: Badge, message: &Message) -> Message {
        let session = usize::try_from(badge.0.wrapping_sub(1)).unwrap_or(usize::MAX);
        let covered = match (message.label, message.payload::<Asked>()) {
            _ if !self.budgets.takes(session, CALL) => Err(Refusal::Busy),
            (ASK, Ok(asked)) => self.ask(session, asked).await,
            _ => Err(Refusal::BadRequest),
        };
        covered.map_or_else(Refusal::message, |covered| Message::with(DONE, &covered))
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
            // What is installed is told; for the rest it is asked again.
            if covered >= end || index > 0 && !self.budgets.takes(session, RECORD) {
                break;
            }
            let Some(record) = self.book.record(session, first, index) else { break };
            if !self.server.lives() {
                return Err(Refusal::NoServer);
            }
            self.server.install(&record).await?;
            covered = record.first.saturating_add(record.blocks);
        }
        Ok(Covered { blocks: covered.saturating_sub(first) })
    }
}
