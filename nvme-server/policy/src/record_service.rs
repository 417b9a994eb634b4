//! The record service: answers clients that ask for records, and installs the records at the server.
//!
//! A client asks for the records of some blocks. It gets those of its own session, a bounded number at a time and as long
//! as its budget lasts (`budget`). An install is a call at the server, which answers it at once. Left out: changes of rights
//! (`enforcer`).

use crate::budget::{Budgets, CALL, RECORD};
use crate::enforcer::Enforcer;
use crate::interrupts::Interrupts;
use crate::operator::Operator;
use crate::rights_map::RightsMap;
use crate::server::Server;
use blk_api::orders;
use blk_api::policy::{ASK, Asked, Covered, DONE, RECORDS_AN_ASK, Refusal};
use platform::{Badge, Message, Platform};

/// Answers clients' requests for records.
pub(crate) struct RecordService<P: Platform> {
    rights_map: RightsMap,
    server: Server<P>,
    enforcer: Enforcer<P>,
    interrupts: Interrupts<P>,
    operator: Option<Operator<P>>,
    budgets: Budgets,
}

impl<P: Platform> RecordService<P> {
    /// A service for this rights map and its changes at `server`.
    pub(crate) fn new(
        rights_map: RightsMap,
        enforcer: Enforcer<P>,
        interrupts: Interrupts<P>,
        operator: Option<Operator<P>>,
        server: Server<P>,
    ) -> Self {
        let budgets = Budgets::new(rights_map.sessions());
        Self { rights_map, server, enforcer, interrupts, operator, budgets }
    }

    /// Carries out what earlier incarnations were ordered and the changes that are due, before any client is served.
    pub(crate) async fn take_over(&mut self) {
        self.enforcer.take_due(&mut self.rights_map);
        if let Some(operator) = &mut self.operator {
            operator.repeat(&mut self.rights_map, &mut self.enforcer);
        }
        self.change_what_is_due().await;
    }

    /// Sessions it knows.
    pub(crate) fn sessions(&self) -> usize {
        self.rights_map.sessions()
    }

    /// Handles a tick: refills the budgets of all sessions, and carries out the changes that are due.
    pub(crate) async fn on_tick(&mut self) {
        self.budgets.refill();
        self.change_what_is_due().await;
    }

    /// Carries out the changes whose time has come.
    pub(crate) async fn change_what_is_due(&mut self) {
        self.enforcer.carry_out(&mut self.rights_map, &self.server).await;
        self.interrupts.carry_out(&self.server).await;
        if let Some(operator) = &mut self.operator {
            operator.look(&mut self.enforcer);
        }
    }

    /// The answer to a call of the client with this badge, or of the control component.
    pub(crate) async fn answer(&mut self, badge: Badge, message: &Message) -> Message {
        if let Some(operator) = self.operator.as_mut().filter(|_| badge.has(orders::BADGE)) {
            let answer = operator.answer(badge.0, message, &mut self.rights_map, &mut self.enforcer);
            self.change_what_is_due().await;
            return answer;
        }
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
        let has = self.rights_map.blocks(session).ok_or(Refusal::NoSession(session as u64))?;
        if blocks == 0 {
            return Err(Refusal::Empty { first });
        }
        let end = first.checked_add(blocks).filter(|end| *end <= has);
        let end = end.ok_or(Refusal::BeyondSession { first, blocks, has })?;
        let mut covered = first;
        for index in 0..RECORDS_AN_ASK {
            // The answer reports the installed blocks; the client asks again for the rest.
            if covered >= end || index > 0 && !self.budgets.takes(session, RECORD) {
                break;
            }
            let Some(record) = self.rights_map.record(session, first, index) else { break };
            if !self.server.is_alive() {
                return Err(Refusal::NoServer);
            }
            self.server.install(&record).await?;
            covered = record.first.saturating_add(record.blocks);
        }
        Ok(Covered { blocks: covered.saturating_sub(first) })
    }
}
