//! The controller's clock: the one place where time passes.
//!
//! The next event is the earliest of several moments. [`Controller::advance`] goes from one to the next and executes
//! what is due at each.

use nvme_spec::{Status, StatusCode};
use sim_fault::ControllerEffect;

use crate::admin;
use crate::command::{Finished, Outcome, Stage};
use crate::controller::Controller;
use crate::fault::{Hit, Posting};
use crate::host::Host;
use crate::io;
use crate::record::Event;
use crate::settings::Settings;

impl Controller {
    /// Executes everything that is due up to `now_ns`. Time never goes back: an earlier moment counts as the present
    /// one.
    pub fn advance(&mut self, now_ns: u64, host: &mut dyn Host) {
        self.with_shared(|controller| controller.advance_now(now_ns, host));
    }

    pub(crate) fn advance_now(&mut self, now_ns: u64, host: &mut dyn Host) {
        self.report_notices(host);
        while self.due_ns <= now_ns && self.due_ns != u64::MAX {
            debug_assert_eq!(self.due_ns, self.earliest_ns(), "something changed when the controller goes on");
            self.clock_ns = self.clock_ns.max(self.due_ns);
            self.step(host);
            self.look_ahead();
        }
        self.clock_ns = self.clock_ns.max(now_ns);
    }

    /// Time at which [`advance`](Self::advance) has something to do next. Another controller of the subsystem may change it.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        debug_assert_eq!(self.due_ns, self.earliest_ns(), "something changed when the controller goes on");
        if self.is_concerned() {
            return Some(self.clock_ns);
        }
        (self.due_ns != u64::MAX).then_some(self.due_ns)
    }

    /// Executes one thing that is due: the first of these, when several are.
    fn step(&mut self, host: &mut dyn Host) {
        let now_ns = self.clock_ns;
        let is_due = |moment: Option<u64>| moment.is_some_and(|at_ns| at_ns <= now_ns);
        if is_due(self.faults.next_ns()) {
            self.controller_fault(host);
        } else if is_due(self.registers.next_ns()) {
            self.change_state();
        } else if is_due(self.commands.next_ns()) {
            if let Some(slot) = self.commands.take_due() {
                self.command_due(slot, host);
            }
        } else if is_due(self.fetch_ns) {
            self.fetch(host);
        } else if is_due(self.interrupts.next_ns()) {
            self.interrupts.advance(now_ns, host);
        } else if is_due(self.admin.next_event_ns()) {
            admin::advance(self, host);
        }
    }

    fn command_due(&mut self, slot: u16, host: &mut dyn Host) {
        let Some(&command) = self.commands.get(slot) else { return };
        match command.stage {
            Stage::Execute => {
                let outcome = admin::execute(self, &command, host);
                self.admin_done(slot, outcome);
            }
            Stage::Transfer => io::transfer(self, slot, &command, host),
            Stage::Complete => self.complete(slot, host),
        }
    }

    fn admin_done(&mut self, slot: u16, outcome: Outcome) {
        let (ns, dw0, status) = match outcome {
            Outcome::Done { dw0, status } => (0, dw0, status),
            Outcome::After { ns, dw0, status } => (ns, dw0, status),
            Outcome::Held => {
                if let Some(held) = self.commands.end(slot) {
                    self.journal.event(Event::Held { sq: held.sq, cid: held.sqe.cdw0.cid() });
                }
                self.wake_fetch();
                return;
            }
        };
        if let Some(command) = self.commands.get_mut(slot) {
            command.dw0 = dw0;
        }
        self.finish(slot, status, self.clock_ns.saturating_add(ns));
    }

    /// Schedules the completion of the command in `slot`, whose work is done at `done_ns`.
    pub(crate) fn finish(&mut self, slot: u16, status: Status, done_ns: u64) {
        let completion_ns = self.timing.profile().front_end.completion_ns;
        let Some(command) = self.commands.get_mut(slot) else { return };
        command.status = status;
        self.commands.schedule(slot, Stage::Complete, done_ns.saturating_add(completion_ns));
    }

    /// Completes an admin command that was held.
    pub(crate) fn complete_held(&mut self, cid: u16, dw0: u32, status: Status, host: &mut dyn Host) {
        let finished = Finished { sq: 0, cid, dw0, status, posting: Posting::default() };
        self.post_for(finished, host);
    }

    /// Aborts a command that was fetched and is not completed; false when there is none with this identifier.
    pub(crate) fn abort(&mut self, sq: u16, cid: u16, host: &mut dyn Host) -> bool {
        let found = self.commands.find(|command| command.sq == sq && command.sqe.cdw0.cid() == cid);
        let Some(&slot) = found.first() else { return false };
        self.abandon(slot, Status::new(StatusCode::AbortRequested), host);
        true
    }

    /// Ends a command early with this status.
    pub(crate) fn abandon(&mut self, slot: u16, status: Status, host: &mut dyn Host) {
        if let Some(command) = self.commands.get_mut(slot) {
            command.status = status;
        }
        self.complete(slot, host);
    }

    fn controller_fault(&mut self, host: &mut dyn Host) {
        // A removed controller raises nothing.
        if let Some((number, effect)) = self.faults.take_next().filter(|_| !self.registers.is_removed()) {
            let hit = self.suffer(effect, host);
            self.faults.record(number, hit);
            admin::deliver_events(self, host);
        }
    }

    /// Lets a fault happen now, besides those of the configuration.
    pub fn inject(&mut self, effect: ControllerEffect, host: &mut dyn Host) {
        if !self.registers.is_removed() {
            self.strike(effect, host);
        }
    }

    pub(crate) fn suffer(&mut self, effect: ControllerEffect, host: &mut dyn Host) -> Hit {
        match effect {
            // A message that cannot be sent now must not stay pending: nothing would ever take it back. Software that
            // unmasks the vector before it sets Bus Master Enable would be blamed for it.
            ControllerEffect::SpuriousInterrupt { .. } if !host.is_bus_master() => return Hit::Nothing,
            ControllerEffect::SpuriousInterrupt { vector } => {
                host.interrupt(vector);
                if !self.queues.has_vector(vector) {
                    return Hit::Nothing;
                }
            }
            ControllerEffect::FatalStatus if self.registers.csts.cfs() => return Hit::Nothing,
            ControllerEffect::FatalStatus => self.fail(),
            ControllerEffect::AllOnes { for_ns } => {
                self.registers.hide(self.clock_ns, for_ns);
                return Hit::Later;
            }
            ControllerEffect::StuckQueuePair { pair } => {
                let Some(queue) = self.queues.cq_mut(pair) else { return Hit::Nothing };
                queue.stuck = true;
                return Hit::Later;
            }
            ControllerEffect::NeverReady => {
                self.registers.never_ready();
                return Hit::Later;
            }
            ControllerEffect::Removal => {
                self.registers.remove();
                self.stop();
                self.interrupts.update_pin(host);
            }
            ControllerEffect::PowerLoss => self.power_fails(host),
            ControllerEffect::Event(happening) => return admin::happen(self, happening),
        }
        Hit::Now
    }

    /// Sets CSTS.CFS: no command is executed until a reset.
    pub(crate) fn fail(&mut self) {
        self.registers.set_fatal();
        self.journal.event(Event::Stopped);
        self.commands.clear();
        self.fetch_ns = None;
    }

    /// Drops everything of the driver's: queues, commands, settings. Namespaces and their contents stay.
    pub(crate) fn stop(&mut self) {
        self.journal.event(Event::Stopped);
        self.queues.clear();
        self.arbiter.clear();
        self.commands.clear();
        self.fetch_ns = None;
        self.interrupts.reset();
        self.timing.reset();
        self.reset_subsystem();
        self.registers.resume();
        self.settings = Settings::new(self.config.vectors);
        admin::end_self_test(self);
        self.admin.reset(&mut self.settings, self.limits.queue_pairs, self.clock_ns);
    }
}
