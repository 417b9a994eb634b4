//! Operations on sessions, for the control plane.

use super::DataPlane;
use crate::data_plane::phase::{Cause, Loss, Phase};
use crate::data_plane::queues::Allotment;
use crate::data_plane::session::{Abilities, Session};
use crate::data_plane::slot::{SessionSlot, completed};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use blk_api::Status;
use core::ops::Range;
use nvme_driver::dma::Window;
use nvme_driver::retry::RetryDelays;
use platform::{Incarnation, Kernel, Platform};

/// A session that lost what it needs.
pub(crate) struct Lost {
    pub tenant: String,
    pub window: Window,
    /// A change of its queue pairs waited for it.
    pub was_draining: bool,
}

impl<P: Platform> DataPlane<P> {
    /// The sessions that there are, with their numbers.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (usize, &Session<P>)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.phase.session()?)))
    }

    /// The queue pairs that session `index` has at its next opening.
    pub(crate) fn allotment(&self, index: usize) -> Option<Allotment> {
        self.slots.get(index).map(|slot| slot.allotment)
    }

    /// Installs an open session.
    pub(crate) fn install(&mut self, index: usize, mut session: Session<P>) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if let Some(pages) = &mut self.pages {
            pages.opened(index, self.platform.ticks());
            session.latencies = Some(session.new_latencies());
            session.trace = pages.tracer(&self.platform, index);
            session.trace_opened();
        }
        slot.listen_to_vectors(self.controller.vectors.borrow().bits_of(session.queues.clone()));
        slot.phase = Phase::Open(Box::new(session));
        slot.place.wake();
    }

    /// Takes out session `index`, which has ended and has nothing in flight, and the cause.
    pub(crate) fn take(&mut self, index: usize) -> Option<(Box<Session<P>>, Cause)> {
        let (mut session, cause) = self.slots.get_mut(index)?.phase.tear_down()?;
        self.show_end(index, &mut session);
        Some((session, cause))
    }

    /// Ends the teardown of session `index`: its records go, and its client may open it again.
    pub(crate) fn forget(&mut self, index: usize) {
        let now = self.platform.ticks();
        if let Some(slot) = self.slots.get_mut(index) {
            slot.phase.over();
        }
        self.extents.clear(index);
        self.schedule.set_waiting(index, false, now);
        self.restart_count();
    }

    /// Has sessions take no writes while the media is read-only, from now on.
    pub(crate) fn set_media_read_only(&mut self, is_read_only: bool) {
        self.media_is_read_only = is_read_only;
        for session in self.slots.iter_mut().filter_map(|slot| slot.phase.session_mut()) {
            session.bounds.writable = session.config.writable && !is_read_only;
        }
    }

    /// Polls all sessions.
    pub(crate) fn poll_all(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.place.wake());
        self.wake();
    }

    /// Wakes the event loop, so that it polls the ready sessions.
    pub(crate) fn wake(&self) {
        self.platform.kernel().signal(self.nudge);
    }

    /// Submits no command from here on, so that those in flight come to an end.
    pub(crate) fn hold_back(&mut self) {
        self.holds_back = true;
    }

    /// Has the change of the interrupt mode go on when no command is in flight.
    pub(crate) fn await_idle(&mut self) {
        self.awaits_idle = true;
    }

    /// Submits commands again.
    pub(crate) fn go_on(&mut self) {
        (self.holds_back, self.awaits_idle) = (false, false);
        self.wake();
    }

    /// Notes that the controller was reset, or reaches no window any more: all requests in flight, or submitted in part, are answered
    /// with the session's `status`.
    pub(crate) fn answer_all(&mut self, status: impl Fn(usize) -> Status) {
        let Self { platform, slots, queues, schedule, .. } = self;
        schedule.reset(platform.ticks());
        for command in queues.take_commands() {
            let index = usize::from(command.work.session());
            let Some(session) = slots.get_mut(index).and_then(|slot| slot.phase.session_mut()) else { continue };
            session.answer_unfinished(command, status(index));
        }
        for (index, slot) in slots.iter_mut().enumerate() {
            let Some(session) = slot.phase.session_mut() else { continue };
            session.cut_short(status(index));
            if session.publish().is_err() {
                slot.end(Cause::Expelled);
            }
        }
    }

    /// Has open session `index` take no entries from now on, because the controller will lack what it needs. Returns whether a change of
    /// its queue pairs waited for it.
    pub(crate) fn leave(&mut self, index: usize, loss: Loss) -> bool {
        let now = self.platform.ticks();
        let Some(slot) = self.slots.get_mut(index) else { return false };
        let was_draining = matches!(slot.phase, Phase::Draining(_));
        slot.phase.leave(loss);
        slot.place.wake();
        self.schedule.set_waiting(index, false, now);
        self.wake();
        was_draining
    }

    /// Whether session `index` has a command in flight.
    pub(crate) fn has_commands(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(SessionSlot::has_commands)
    }

    /// Ends open session `index`, which has nothing in flight, because the controller lacks what it needs: its entries are answered
    /// with a status of their own.
    pub(crate) fn end_by_loss(&mut self, index: usize, loss: Loss) -> Option<Lost> {
        let slot = self.slots.get_mut(index)?;
        let was_draining = matches!(slot.phase, Phase::Draining(_));
        let session = slot.phase.losable_mut()?;
        session.cut_short(loss.status());
        // Its client is answered once more when it is polled. A ring-index error has no consequence any more.
        let _ = session.publish();
        let lost = Lost { tenant: session.config.tenant.clone(), window: session.window, was_draining };
        slot.phase.note_loss(loss);
        slot.place.wake();
        Some(lost)
    }

    /// Has the sessions keep to what the controller can do now: commands of `max_transfer` bytes, these operations and delays. A
    /// session that lost what it needs submits none.
    pub(crate) fn adapt(&mut self, max_transfer: u64, abilities: Abilities, delays: RetryDelays) {
        let Self { slots, queues, .. } = self;
        for session in slots.iter_mut().filter_map(|slot| slot.phase.session_mut()) {
            session.adapt(queues.max_transfer(session.queues.clone(), max_transfer), abilities, delays);
        }
    }

    /// The numbers of the queue pairs of session `index`, if it is open and stays so.
    pub(crate) fn queues_of(&mut self, index: usize) -> Option<Range<u16>> {
        self.slots.get_mut(index)?.phase.serving_mut().map(|session| session.queues.clone())
    }

    /// The numbers of the queue pairs of session `index`, if it is open and can lose what it needs.
    pub(crate) fn queues_of_lost(&mut self, index: usize) -> Option<Range<u16>> {
        self.slots.get_mut(index)?.phase.losable_mut().map(|session| session.queues.clone())
    }

    /// Has these queue pairs of session `index` take nothing from now on. Returns whether the session has nothing in flight. Otherwise
    /// the control plane gets a job when the last command has ended.
    pub(crate) fn quiesce(&mut self, index: usize, numbers: Range<u16>) -> bool {
        self.stop_queues(numbers);
        let Some(slot) = self.slots.get_mut(index) else { return true };
        if !slot.has_commands() {
            return true;
        }
        slot.phase.begin_to_drain();
        slot.place.wake();
        self.wake();
        false
    }

    /// Gives session `index` these queue pairs.
    pub(crate) fn replace_queues(&mut self, index: usize, numbers: Range<u16>) {
        let Self { controller, slots, queues, .. } = self;
        let Some(slot) = slots.get_mut(index) else { return };
        let max_transfer = queues.of(numbers.clone()).map(|queue| queue.queue.max_transfer).min();
        if let Some(session) = slot.phase.session_mut() {
            session.set_queues(numbers.clone(), max_transfer.unwrap_or_default());
        }
        slot.listen_to_vectors(controller.vectors.borrow().bits_of(numbers));
        self.restart_count();
    }

    /// Ends a change of the queue pairs of session `index`, which has `allotment` from now on, or what it had.
    pub(crate) fn end_change(&mut self, index: usize, allotment: Option<Allotment>) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.allotment = allotment.unwrap_or(slot.allotment);
            slot.phase.go_on();
            slot.place.wake();
        }
        self.resume_queues(self.config.queue_pairs_of(index));
        self.wake();
    }

    /// Has sessions listen to the controller's vectors, which are others now.
    pub(crate) fn listen_to_vectors(&mut self) {
        let Self { controller, slots, .. } = self;
        let vectors = controller.vectors.borrow();
        for slot in slots.iter_mut() {
            if let Some(queues) = slot.phase.session().map(|session| session.queues.clone()) {
                slot.listen_to_vectors(vectors.bits_of(queues));
            }
        }
        drop(vectors);
        self.restart_count();
    }

    /// Restarts the count of interrupts, because completions counted before are counted no more.
    fn restart_count(&self) {
        self.controller.vectors.borrow().restart_count(|bit| completed(&self.slots, bit));
    }

    /// The deaths, in their clients' words, of clients of whose sessions nothing is left. Each is returned once.
    pub(crate) fn acknowledge_deaths(&mut self) -> Vec<(u32, Incarnation)> {
        let numbered = (0..).zip(&mut self.slots);
        numbered.filter_map(|(word, slot)| Some((word, slot.acknowledge_death()?))).collect()
    }
}
