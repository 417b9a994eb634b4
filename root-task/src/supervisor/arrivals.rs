//! Drivers of hot-plug slots' devices: each arrival is driven by an incarnation of its own.
//!
//! The PCI server counts arrivals in the driver's page of presence (`pci_api::presence`), which the supervisor polls at ticks.
//! A driver that was started before the last arrival is recreated and started, as after a death, but without a fault, and its
//! policy does not count it. Left out: removals. A driver whose device is gone answers its clients itself.

use super::Supervisor;
use crate::Services;
use alloc::vec::Vec;
use pci_api::presence::Presence;
use platform::Platform;
use platform::log::info;

impl<P: Platform, S: Services<P>> Supervisor<P, S> {
    /// Ends the drivers in whose slots another device has arrived. They are started again when the PCI server has seen that.
    pub(super) fn follow_arrivals(&mut self) {
        let arrived = |id: &u16| {
            let visit = self.liveness.visit(*id);
            visit.is_some_and(|visit| {
                visit.presence == Presence::Present && self.arrivals.get(id) != Some(&visit.arrivals)
            })
        };
        let alive = self.threads.iter().filter(|thread| thread.is_alive()).map(|thread| thread.id);
        let late: Vec<u16> = alive.filter(arrived).collect();
        for id in late {
            let now = self.build.platform.ticks();
            if let Some(thread) = self.threads.iter().find(|thread| thread.id == id) {
                info!("a device arrived for {}", thread.name.as_str());
            }
            self.suspend(id, now);
        }
    }

    /// Records that the component `id` is started now, and learns by itself of what has arrived so far.
    pub(super) fn knows_arrivals(&mut self, id: u16) {
        if let Some(visit) = self.liveness.visit(id) {
            self.arrivals.insert(id, visit.arrivals);
        }
    }
}
