//! Signals: the sessions that a signal makes ready, and the work of a tick.

use super::DataPlane;
use crate::data_plane::slot::{SessionSlot, completed};
use nvme_driver::Health;
use nvme_driver::fault::DeviceFault;
use platform::{Badge, Platform};

impl<P: Platform> DataPlane<P> {
    /// Makes the sessions ready that the signal may concern.
    #[inline]
    pub(super) fn on_signal(&mut self, badge: Badge) {
        let Self { platform, controller, slots, ready, .. } = self;
        let vectors = controller.vectors.borrow();
        vectors.count(platform, badge, |bit| completed(slots, bit));
        for index in ready.listeners(badge) {
            let Some(slot) = slots.get_mut(index) else { continue };
            let raised = badge.has(slot.vector_bits);
            // Other clients signal with the same bit.
            if raised || (badge.has(slot.client_bit) && slot.budget.hears_signal() && !slot.has_nothing()) {
                slot.place.wake();
            }
            if let Some(session) = slot.phase.session_mut().filter(|_| raised) {
                session.count_interrupt(vectors.by());
            }
        }
    }

    /// Shows statistics, restores clients' budgets and starts stopped interrupts again. Returns a fault of the controller's interrupts.
    pub(super) fn begin_tick(&mut self, wake_ups: u64) -> Option<DeviceFault> {
        let Self { platform, controller, slots, .. } = self;
        let storm = controller.vectors.borrow().on_tick(platform, |bit| completed(slots, bit));
        self.show(wake_ups);
        self.decide_deferred_calls();
        storm
    }

    /// Polls every session once, because a signal may have been lost, and checks timeouts. Returns whether a queue pair is late.
    pub(super) fn end_tick(&mut self) -> bool {
        for slot in &mut self.slots {
            slot.place.wake();
            // The device reaches no window after the controller's end, so the sessions of clients that die then are torn down as
            // any other.
            slot.check_client();
        }
        if self.controller.health.get() != Health::Up {
            return false;
        }
        let Self { platform, queues, schedule, .. } = self;
        let (now, ticks_per_second) = (platform.ticks(), platform.ticks_per_second());
        queues.discount(&mut schedule.batch(now), now, ticks_per_second);
        queues.overdue(now, ticks_per_second).is_some()
    }

    /// Tells the control plane and the policy component about ends of commands that they wait for.
    #[inline]
    pub(super) fn report_ends(&mut self) {
        if !self.removals.is_empty() {
            self.report_removals();
        }
        if self.awaits_idle && self.is_idle() {
            self.awaits_idle = false;
            self.jobs.pass(crate::jobs::Job::ChangeInterrupts);
        }
    }

    /// Returns whether no session has a command in flight.
    pub(crate) fn is_idle(&self) -> bool {
        !self.slots.iter().any(SessionSlot::has_commands)
    }
}
