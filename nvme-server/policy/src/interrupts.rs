//! Changes the controller's interrupt mode, at moments that the configuration names.
//!
//! The server is asked for the last change that is due until it reports that the change is in force. A restarted server
//! begins with the mode of its configuration, and is asked again. Left out: how the server changes the mode. A change that
//! comes before the one before is finished waits, because the server answers that it is busy.

use crate::server::Server;
use alloc::format;
use alloc::vec::Vec;
use blk_api::config;
use blk_api::policy::{InterruptsChange, Refusal};
use platform::log::{error, info};
use platform::{Environment, Incarnation, Platform, ticks_to_ns};
use report::milestones::Milestones;
use report::{Name, Report, clip};

/// Orders the changes of the interrupt mode.
pub(crate) struct Interrupts<P: Platform> {
    platform: P,
    /// The component's name.
    name: Name,
    /// The moments that have come.
    milestones: Milestones<P::Memory>,
    /// Changes whose moments have not come, in their order, with their numbers from 1.
    pending: Vec<(u16, InterruptsChange)>,
    /// The last one that was due.
    wanted: Option<Wanted>,
}

/// A change that the server is asked for.
#[derive(Clone, Copy)]
struct Wanted {
    number: u16,
    to: config::Interrupts,
    /// When it was decided, in ticks.
    decided: u64,
    /// The server's incarnation in which it is in force.
    in_force: Option<Incarnation>,
}

impl<P: Platform> Interrupts<P> {
    /// An object that orders these changes at their moments.
    pub(crate) fn new(platform: P, environment: &Environment, changes: Vec<InterruptsChange>) -> Self {
        let (name, milestones) = (clip(&environment.name), Milestones::of(&platform, environment));
        Self { platform, name, milestones, pending: (1..).zip(changes).collect(), wanted: None }
    }

    /// Orders the change that is due, until it is in force.
    pub(crate) async fn carry_out(&mut self, server: &Server<P>) {
        self.take_due();
        let (Some(wanted), Some(incarnation)) =
            (self.wanted, server.incarnation().filter(|incarnation| incarnation.is_alive()))
        else {
            return;
        };
        if wanted.in_force == Some(incarnation) {
            return;
        }
        match server.set_interrupts(wanted.to).await {
            Ok(()) => {
                if wanted.in_force.is_none() {
                    self.report(&wanted);
                }
                self.wanted = Some(Wanted { in_force: Some(incarnation), ..wanted });
            }
            // This change or another is under way; or the server is not there.
            Err(Refusal::Busy | Refusal::Dead) => {}
            Err(refusal) => {
                self.wanted = None;
                self.fail(&format!("the interrupts stay as they are: {refusal}"));
            }
        }
    }

    /// Takes the changes that are due. Of several the last one counts: a restarted component does not repeat the others.
    fn take_due(&mut self) {
        let due = self.pending.iter().take_while(|(_, change)| self.milestones.has_come(change.moment)).count();
        if let Some((number, InterruptsChange { to, .. })) = self.pending.drain(..due).next_back() {
            self.wanted = Some(Wanted { number, to, decided: self.platform.ticks(), in_force: None });
        }
    }

    fn report(&self, wanted: &Wanted) {
        let to_ns = |ticks: u64| ticks_to_ns(ticks, self.platform.ticks_per_second());
        let at_ns = to_ns(wanted.decided);
        let took_ns = to_ns(self.platform.ticks()).saturating_sub(at_ns);
        info!("interrupts by {} in {} us", wanted.to.name(), took_ns / 1000);
        let change = report::InterruptsChange {
            policy: self.name.clone(),
            number: wanted.number,
            to: clip(wanted.to.name()),
            at_ns,
            took_ns,
        };
        self.platform.report(&Report::InterruptsChange(change).encode());
    }

    fn fail(&self, reason: &str) {
        error!("a change is not carried out: {}", reason);
        self.platform.report(&Report::Failure { component: self.name.clone(), reason: clip(reason) }.encode());
    }
}
