//! Restarts a component that ended, or gives it up: once its device is silent and its session torn down.

use super::Supervisor;
use crate::thread::{State, Thread};
use crate::{BuildError, Services};
use alloc::string::ToString;
use alloc::vec::Vec;
use platform::log::{error, info};
use platform::{Badge, Kernel, Platform, ticks_to_ns};
use report::{Report, clip};

/// Seconds to wait for the PCI server before a driver stays dead.
const DEVICE_LIMIT_SECONDS: u64 = 2;
/// Seconds to wait for a client's server before the client stays dead. A command may be in flight until the server's timeout,
/// and then until the controller is reset.
const TEARDOWN_LIMIT_SECONDS: u64 = 180;

impl<P: Platform, S: Services<P>> Supervisor<P, S> {
    /// Restarts the drivers whose devices are silent by `badge`.
    ///
    /// The PCI server signalled before any death that is handled later, and may be dead after that.
    pub(super) fn restart_silenced(&mut self, badge: Badge) {
        let silenced = |component: &&capdl_spec::Component| {
            component.driver.is_some_and(|driver| badge.has(Badge::silenced(driver) & !Badge::SIGNAL))
        };
        let specification = alloc::rc::Rc::clone(&self.build.specification);
        for component in specification.components.iter().filter(silenced) {
            let mut threads = self.threads.iter_mut();
            let thread = threads.find(|thread| thread.id == component.id);
            if let Some(State::Waits { is_silent, .. }) = thread.map(|thread| &mut thread.state) {
                *is_silent = true;
            }
            if component.teardown_ack.is_none_or(|teardown_ack| self.liveness.is_torn_down(component.id, &teardown_ack))
            {
                self.nothing_goes_on(component.id);
            }
        }
    }

    /// Restarts the clients whose sessions are torn down. A lost signal costs a tick.
    pub(super) fn restart_torn_down(&mut self) {
        let waits = |thread: &&Thread| match thread.state {
            State::Waits { is_silent, .. } => is_silent || !self.build.is_driver(thread.id),
            State::Alive | State::Ended => false,
        };
        let is_torn_down = |id: u16| {
            self.build.teardown_ack(id).is_some_and(|teardown_ack| self.liveness.is_torn_down(id, &teardown_ack))
        };
        let waiting = self.threads.iter().filter(waits).map(|thread| thread.id);
        let torn_down: Vec<u16> = waiting.filter(|id| is_torn_down(*id)).collect();
        for id in torn_down {
            self.nothing_goes_on(id);
        }
    }

    /// Restarts the component `id`, if it waits for that: its device is silent, or its session torn down.
    pub(super) fn nothing_goes_on(&mut self, id: u16) {
        let ended = self.threads.iter().filter(|thread| matches!(thread.state, State::Ended)).map(|thread| thread.id);
        let ended: Vec<u16> = ended.collect();
        self.report_blocked();
        let Some(thread) = self.threads.iter_mut().find(|thread| thread.id == id) else { return };
        let State::Waits { since, .. } = thread.state else { return };
        let tcb = thread.tcb;
        let reinstantiated = self.build.reinstantiate(id).and_then(|()| {
            // Its capabilities to call components that stay dead are taken again.
            ended.iter().try_for_each(|ended| self.build.take_endpoints(*ended))?;
            let resumed = self.build.platform.kernel().tcb_resume(tcb);
            resumed.map_err(BuildError::refused("start", &thread.name))
        });
        if let Err(reason) = reinstantiated {
            return self.stays_dead(id, &reason.to_string());
        }
        thread.state = State::Alive;
        thread.restarts.count();
        let times = thread.restarts.times();
        info!("{} is started again, {} times so far", thread.name.as_str(), times);
        let name = clip(&thread.name);
        self.liveness.turn(id);
        self.liveness.begin_again(id);
        self.knows_arrivals(id);
        self.ask_again(id);
        self.tick_peers(id);
        let to_ns = |ticks: u64| ticks_to_ns(ticks, self.build.platform.ticks_per_second());
        let (ended_at_ns, now_ns) = (to_ns(since), to_ns(self.build.platform.ticks()));
        let took_ns = now_ns.saturating_sub(ended_at_ns);
        let memory_left_bytes = self.build.allocator.left();
        let restart = report::Restart { name, times, ended_at_ns, took_ns, memory_left_bytes };
        self.build.platform.report(&Report::Restart(restart).encode());
    }

    /// Gives up components whose device was not silenced, or whose session was not torn down, in time: a device may still reach
    /// their memory.
    pub(super) fn give_up_on_the_late(&mut self) {
        let now = self.build.platform.ticks();
        let is_late = |since: u64, seconds: u64| {
            now.saturating_sub(since) > self.build.platform.ticks_per_second().saturating_mul(seconds)
        };
        let stays_dead = |id: u16| {
            let is_ended = |thread: &Thread| thread.id == id && thread.state == State::Ended;
            self.threads.iter().any(is_ended)
        };
        let reason = |thread: &Thread| {
            let State::Waits { since, .. } = thread.state else { return None };
            let server = self.build.acknowledged_by(thread.id);
            match server {
                None => is_late(since, DEVICE_LIMIT_SECONDS).then_some("its device was not taken back in time"),
                Some(server) if stays_dead(server) => Some("nobody can end its session"),
                Some(_) => is_late(since, TEARDOWN_LIMIT_SECONDS).then_some("its session was not ended in time"),
            }
        };
        let late = self.threads.iter().filter_map(|thread| Some((thread.id, reason(thread)?)));
        let late: Vec<(u16, &str)> = late.collect();
        for (id, reason) in late {
            self.stays_dead(id, reason);
        }
    }

    /// Has callers that wait for an answer of the component repeat their call: to its next incarnation, or without result.
    pub(super) fn ask_again(&self, id: u16) {
        let kernel = self.build.platform.kernel();
        for caller in self.build.callers(id) {
            let Some(thread) = self.threads.iter().find(|thread| thread.id == caller && thread.is_alive()) else {
                continue;
            };
            // One whose order this is waits for the supervisor.
            if self.orders == Some(caller) {
                continue;
            }
            // A thread that is suspended and resumed repeats its last system call.
            if kernel.tcb_suspend(thread.tcb).and_then(|()| kernel.tcb_resume(thread.tcb)).is_err() {
                error!("{} may wait for an answer that never comes", thread.name.as_str());
            }
        }
    }

    /// Ticks the components that watch it, so that they poll its liveness page.
    pub(super) fn tick_peers(&self, id: u16) {
        for peer in self.build.watchers(id) {
            let thread = self.threads.iter().find(|thread| thread.id == peer && thread.is_alive());
            if let Some(tick) = thread.and_then(|thread| thread.tick) {
                self.build.platform.kernel().signal(tick);
            }
        }
    }
}
