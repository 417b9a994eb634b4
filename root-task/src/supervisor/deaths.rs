//! The end of a component: by a fault, with a server that it needs, or for good.

use super::Supervisor;
use crate::Services;
use crate::boot::Fault;
use crate::thread::{State, Thread};
use alloc::string::ToString;
use alloc::vec::Vec;
use platform::log::{error, warn};
use platform::{Badge, Kernel, Message, Platform, ticks_to_ns};
use report::{FaultKind, Report, clip};

impl<P: Platform, S: Services<P>> Supervisor<P, S> {
    pub(super) fn fault(&mut self, badge: Badge, message: &Message) {
        let Some(index) = self.threads.iter().position(|thread| u64::from(thread.id) == badge.0) else {
            return warn!("a message of the unknown badge {} is dropped", badge.0);
        };
        let misuse = Fault { kind: FaultKind::OwnFaultEndpoint, address: 0, instruction: 0 };
        self.end(index, &self.services.fault(message).unwrap_or(misuse));
    }

    /// Ends the component of this thread, and with a server the components that depend on it. One that is to be restarted waits
    /// until its device is silent and its session torn down.
    pub(crate) fn end(&mut self, index: usize, fault: &Fault) {
        let now = self.build.platform.ticks();
        let now_ms = ticks_to_ns(now, self.build.platform.ticks_per_second()) / 1_000_000;
        let Some(thread) = self.threads.get_mut(index).filter(|thread| thread.is_alive()) else { return };
        let id = thread.id;
        let again = thread.restarts.take(now_ms);
        self.stop(id, fault, now);
        let dependents = self.build.dependents(id);
        let with_it = Fault { kind: FaultKind::ServerDied, address: 0, instruction: 0 };
        let mut never_again = Vec::new();
        for dependent in &dependents {
            let thread = self.threads.iter().find(|thread| thread.id == *dependent && thread.is_alive());
            let Some(may_live) = thread.map(|thread| thread.restarts.has_any()) else { continue };
            self.stop(*dependent, &with_it, now);
            never_again.extend((!may_live).then_some(*dependent));
        }
        for dependent in never_again {
            self.stays_dead(dependent, "it is never started again");
        }
        if !again {
            return self.stays_dead(id, "it died too often");
        }
        for next in core::iter::once(id).chain(dependents) {
            // A driver waits until its device is silent, and a client until its session is ended.
            if !self.build.is_driver(next) && self.build.teardown_ack(next).is_none() {
                self.nothing_goes_on(next);
            }
        }
    }

    /// Suspends the component `id` for a fault, and notifies its peers.
    fn stop(&mut self, id: u16, fault: &Fault, now: u64) {
        self.suspend(id, now);
        if let Some(thread) = self.threads.iter().find(|thread| thread.id == id) {
            report_fault(&self.build.platform, thread, fault);
        }
    }

    /// Suspends it, whatever the reason, and notifies its peers.
    pub(super) fn suspend(&mut self, id: u16, now: u64) {
        let Some(thread) = self.threads.iter_mut().find(|thread| thread.id == id) else { return };
        if self.build.platform.kernel().tcb_suspend(thread.tcb).is_err() {
            error!("{} cannot be suspended, and goes on", thread.name.as_str());
        }
        thread.state = State::Waits { since: now, is_silent: false };
        self.liveness.turn(id);
        self.tick_peers(id);
    }

    /// Gives up the restart for which the component `id` waits. A component without a restart policy is never restarted, and only its
    /// fault is reported. No component can call it any more: a caller that waits for its answer gets the kernel's, that there is
    /// no such capability ([`Message::NO_CAPABILITY`]).
    pub(super) fn stays_dead(&mut self, id: u16, reason: &str) {
        let has_restart_policy = self.build.restart_policy(id).is_some();
        let Some(thread) = self.threads.iter_mut().find(|thread| thread.id == id) else { return };
        let waited = matches!(thread.state, State::Waits { .. });
        if waited && has_restart_policy {
            error!("{} stays dead: {}", thread.name.as_str(), reason);
            let reason = clip(&alloc::format!("stays dead: {reason}"));
            let component = thread.name.clone();
            self.build.platform.report(&Report::Failure { component, reason }.encode());
        }
        thread.state = State::Ended;
        if let Err(reason) = self.build.take_endpoints(id) {
            error!("calls to the dead wait without end: {}", reason.to_string().as_str());
        }
        self.ask_again(id);
        self.leave_without(id);
    }

    /// Gives up the drivers that depend on the component `id`, which is dead for good. The capabilities that a PCI server gave
    /// them are taken, so that their devices reach nothing. A PCI server that lacks its IOMMU server is restarted: it alone can
    /// silence the devices.
    fn leave_without(&mut self, id: u16) {
        let dependents = self.build.dependents(id);
        let (drivers, servers): (Vec<u16>, Vec<u16>) =
            dependents.into_iter().partition(|one| self.build.is_driver(*one));
        if servers.is_empty()
            && !drivers.is_empty()
            && let Err(reason) = self.build.take_all(id)
        {
            error!("devices may still reach memory: {}", reason.to_string().as_str());
        }
        for driver in drivers {
            self.stays_dead(driver, "a server that it needs stays dead");
        }
        for server in servers {
            self.nothing_goes_on(server);
        }
    }
}

fn report_fault<P: Platform>(platform: &P, thread: &Thread, fault: &Fault) {
    let Fault { kind, address, instruction } = *fault;
    let what = match kind {
        FaultKind::Read => "a read",
        FaultKind::Write => "a write",
        FaultKind::Execute => "an instruction fetch",
        FaultKind::Capability => "a capability",
        FaultKind::UnknownSyscall => "a system call",
        FaultKind::Exception(_) => "an exception",
        FaultKind::Killed => "an order of the scenario",
        FaultKind::ServerDied => "the death of a server that it needs",
        FaultKind::OwnFaultEndpoint => "a message of its own to its fault endpoint",
    };
    error!("{} is ended: {} at {:#x}, instruction {:#x}", thread.name.as_str(), what, address, instruction);
    let name = clip(&thread.name);
    let fault = report::Fault { component: thread.id, name, kind, address, instruction };
    platform.report(&Report::Fault(fault).encode());
}
