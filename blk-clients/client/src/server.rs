//! The server's incarnations, as its client sees them: whether the one that opened the session is alive, and the next one.
//!
//! Left out: opening the session again, which its users do.

use crate::control::Control;
use blk_api::names;
use blk_api::session::Refusal;
use core::cell::Cell;
use platform::{Environment, Incarnation, Platform, ticks_to_ns};
use report::milestones::{Milestone, Milestones};
use report::{Reconnected, Report};

/// The server of a session.
pub(crate) struct Server<P: Platform> {
    platform: P,
    /// The server's liveness page; without one, its state is unknown. A client with a function of its own has none.
    page: Option<P::Memory>,
    /// Without a page, whether the session's own function was reset.
    is_lost: Cell<bool>,
    /// The incarnation that opened the session.
    incarnation: Cell<Incarnation>,
    /// The client's name in its reports.
    client: report::Name,
    milestones: Milestones<P::Memory>,
}

impl<P: Platform> Server<P> {
    /// Returns the server of this environment's client, in its present incarnation.
    pub(crate) fn of(platform: P, environment: &Environment) -> Self {
        let page = environment.region(names::LIVENESS_SERVER).and_then(|region| platform.memory(region).ok());
        let incarnation = page.as_ref().map_or(Ok(Incarnation::FIRST), Incarnation::load).unwrap_or_default();
        let milestones = Milestones::of(&platform, environment);
        let (is_lost, client) = (Cell::new(false), report::clip(&environment.name));
        Self { platform, page, is_lost, incarnation: Cell::new(incarnation), client, milestones }
    }

    /// Whether the incarnation that opened the session is dead; for a session with a function of its own, whether that was reset.
    pub(crate) fn died(&self) -> bool {
        match self.now() {
            Some(incarnation) => incarnation != self.incarnation.get(),
            None => self.is_lost.get(),
        }
    }

    /// Records that the session's own function was reset, or was brought up again.
    pub(crate) fn set_lost(&self, is_lost: bool) {
        self.is_lost.set(is_lost);
    }

    /// Waits until the server is alive, and stores that incarnation as the one that opens the session. Returns `false` for a
    /// server that stays dead.
    pub(crate) async fn next_incarnation(&self, control: &Control<P>) -> bool {
        while let Some(incarnation) = self.now() {
            if incarnation.is_alive() {
                self.incarnation.set(incarnation);
                return true;
            }
            // A call to a dead server waits for its successor's answer, or for the kernel's.
            if control.ping().await == Err(Refusal::Dead) {
                break;
            }
        }
        false
    }

    /// Reports that the session is open again, and how many requests were resubmitted.
    pub(crate) fn report_reconnected(&self, reissued: u32) {
        let at_ns = ticks_to_ns(self.platform.ticks(), self.platform.ticks_per_second());
        let tenant = self.client.clone();
        self.platform.report(&Report::Reconnected(Reconnected { tenant, at_ns, reissued }).encode());
        self.milestones.count(Milestone::Reconnected);
    }

    fn now(&self) -> Option<Incarnation> {
        self.page.as_ref().and_then(|page| Incarnation::load(page).ok())
    }
}
