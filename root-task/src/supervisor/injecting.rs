//! Fault injection in the supervisor: announces moments, and stops components by kill orders, as if they had faulted.

use super::Supervisor;
use crate::boot::{Fault, Services};
use crate::timer::Due;
use alloc::collections::BTreeSet;
use capdl_spec::Role;
use platform::{Kernel, Platform};
use report::FaultKind;

impl<P: Platform, S: Services<P>> Supervisor<P, S> {
    /// Announces the moments that have come, and stops the components that are due. Sets the alarm for what is due before the
    /// next tick.
    pub(super) fn inject(&mut self) {
        let Some(mut injection) = self.injection.take() else { return };
        while injection.is_pending() {
            let elapsed_us = injection.elapsed_us(&self.build.platform);
            if injection.announce(elapsed_us, &self.threads) {
                self.tick_those_that_wait();
            }
            while let Some(component) = injection.next_due(elapsed_us, &self.threads) {
                self.end_by_order(component);
            }
            let elapsed_us = injection.elapsed_us(&self.build.platform);
            injection.plan_restarted(elapsed_us, &self.threads);
            let Some(next_us) = injection.next_before_tick(elapsed_us) else { break };
            let due = self.set_alarm(next_us);
            if due == Due::default() {
                break;
            }
            // The order became due while the alarm was being set.
            self.time_passed(due);
        }
        self.injection = Some(injection);
    }

    /// Signals the clients and policy components that are alive, as at a tick.
    fn tick_those_that_wait(&self) {
        let roles = self.build.specification.components.iter().map(|one| (one.id, one.role));
        let waits: BTreeSet<u16> =
            roles.filter(|(_, role)| matches!(role, Role::Client | Role::Policy)).map(|(id, _)| id).collect();
        let alive = self.threads.iter().filter(|thread| thread.is_alive() && waits.contains(&thread.id));
        for notification in alive.filter_map(|thread| thread.tick) {
            self.build.platform.kernel().signal(notification);
        }
    }

    fn end_by_order(&mut self, component: u16) {
        if let Some(index) = self.threads.iter().position(|thread| thread.id == component) {
            self.end(index, &Fault { kind: FaultKind::Killed, address: 0, instruction: 0 });
        }
    }

    /// Sets the alarm, unless it is set to an earlier time.
    fn set_alarm(&mut self, microseconds: u32) -> Due {
        let Some(timer) = &mut self.timer else { return Due::default() };
        timer.set_alarm(microseconds).unwrap_or_else(|_| self.lose_timer())
    }
}
