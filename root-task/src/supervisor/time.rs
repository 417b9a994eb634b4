//! Time: ticks for every component, alarms for the components that ask, and what the supervisor checks at a tick.

use super::Supervisor;
use crate::Services;
use crate::timer::Due;
use alloc::string::ToString;
use iommu_api::blocked::{HAS_ADDRESS, WRITE};
use platform::log::{error, warn};
use platform::{Badge, Kernel, OutOfBounds, Platform};
use report::Report;

/// The bits by which components ask for the alarm ([`Badge::alarm`]).
const ALARMS: u64 = 0x0fff_ffff << 32;

impl<P: Platform, S: Services<P>> Supervisor<P, S> {
    /// Returns the tick or alarm that is due, after it has set alarms for those that ask.
    pub(super) fn due(&mut self, badge: Badge) -> Result<Due, OutOfBounds> {
        let Some(timer) = &mut self.timer else { return Ok(Due::default()) };
        let mut due = Due::default();
        if badge.has(Badge::TICK) {
            timer.disarm()?;
            // Acknowledged before the timer is armed again: an edge that comes while the line is masked is lost, and all ticks with it.
            if self.build.platform.kernel().irq_handler_ack(timer.handler).is_err() {
                error!("the timer's interrupt cannot be acknowledged: no more ticks");
            }
            due = timer.poll()?;
        }
        let asked = badge.0 & ALARMS;
        self.alarms |= asked;
        let lengths_us = self.threads.iter().filter_map(|thread| thread.alarms).flat_map(|own| own.asked_us(asked));
        if asked != 0
            && !due.alarm
            && let Some(shortest_us) = lengths_us.min()
        {
            let meanwhile = timer.set_alarm(shortest_us)?;
            due = Due { tick: due.tick || meanwhile.tick, alarm: meanwhile.alarm };
        }
        Ok(due)
    }

    pub(crate) fn lose_timer(&mut self) -> Due {
        error!("the timer's registers are gone: no more ticks");
        self.timer = None;
        Due::default()
    }

    /// Passes on a tick, an alarm, or both.
    pub(crate) fn time_passed(&mut self, due: Due) {
        if due.alarm {
            self.alarm();
        }
        if due.tick {
            self.tick();
        }
    }

    /// Wakes those that asked for it; one that asked just now is woken a little early.
    fn alarm(&mut self) {
        let kernel = self.build.platform.kernel();
        for thread in self.threads.iter().filter(|thread| thread.is_alive()) {
            if let Some(own) = thread.alarms.filter(|own| own.asked_us(self.alarms).next().is_some()) {
                kernel.signal(own.notification);
            }
        }
        self.alarms = 0;
    }

    fn tick(&mut self) {
        let kernel = self.build.platform.kernel();
        for notification in self.threads.iter().filter(|thread| thread.is_alive()).filter_map(|thread| thread.tick) {
            kernel.signal(notification);
        }
        self.report_blocked();
        self.follow_arrivals();
        self.give_up_on_the_late();
        if self.build.specification.report_caps {
            let living = self.threads.iter().filter(|thread| thread.is_alive()).map(|thread| thread.id);
            if let Err(reason) = self.build.sweep_received(living, &mut self.received) {
                error!("receive cptrs cannot be looked into: {}", reason.to_string().as_str());
            }
        }
    }

    /// Reports transactions that the IOMMU blocked since the last tick.
    pub(super) fn report_blocked(&mut self) {
        for iommu_api::blocked::Blocked { requester_id, flags, times, address } in self.liveness.blocked() {
            let is_write = flags & WRITE != 0;
            let way = if is_write { "write" } else { "read" };
            warn!("function {:x}: a {} at {:#x} was blocked, of {} transactions", requester_id, way, address, times);
            let address = (flags & HAS_ADDRESS != 0).then_some(address);
            let blocked = report::Blocked { requester_id, address, is_write, times };
            self.build.platform.report(&Report::Blocked(blocked).encode());
        }
    }
}
