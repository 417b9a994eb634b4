//! After the boot: faults are named, their components stopped or started again, ticks are passed on.
//!
//! A component that faulted is suspended, its page of lives says so, and its peers are ticked, so that they see it. One
//! with a restart policy is started again ([`crate::renewal`]); before that, the PCI server takes the device of a driver
//! back, so that nothing of the dead one's is in flight when its memory is used anew. Whoever waits for an answer from the
//! dead one asks its successor. The PCI server itself ends with its drivers, since nobody else could silence their devices,
//! and is started first: it silences them all, and then says so of each. A client with a policy waits likewise, until its
//! server says that nothing is left of its session: until then a device may reach its window. The PCI server in its turn ends with the
//! IOMMU server, where a component drives the IOMMU. A component without a policy, or that dies too
//! often, stays dead: its memory and its capabilities stay as they are for whoever looks, but for those to its endpoints,
//! which are taken from everybody, and its peers go on.
//!
//! A driver that wants to go on in a moment, long before the next tick, asks for the alarm and is woken by it.
//!
//! Nobody but the kernel can send to the endpoint here: components have the capability in their CSpaces, but it is the
//! kernel that sends through it only when they fault. One that uses it by itself is ended too, and reported like a fault:
//! it would otherwise keep the highest priority of the system busy.

use crate::build::Build;
use crate::life::Lives;
use crate::threads::{State, Thread};
use crate::timer::{ALARM_US, Due, TICK_US, Timer};
use crate::{BuildError, Services};
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;
use capdl_spec::{Burial, Kill, ObjectId, ObjectKind, Specification};
use iommu_api::blocked::{HAS_ADDRESS, WRITE};
use platform::log::{error, info, warn};
use platform::{Badge, CPtr, Event, Kernel, Message, OutOfBounds, Platform, ticks_to_ns};
use report::{FaultKind, Report, clip};

/// Seconds that the PCI server is waited for, before a driver stays dead.
const DEVICE_LIMIT_SECONDS: u64 = 2;
/// Seconds that a client's server is waited for, before the client stays dead: a command may be under way for as long as a
/// server lets one pass, and then until the controller is reset.
const BURIAL_LIMIT_SECONDS: u64 = 180;
/// The bits by which drivers ask for the alarm ([`Badge::alarm`]).
const ALARMS: u64 = 0x0fff_ffff << 32;
/// When somebody is killed whose next life has not begun.
const NEXT_LIFE: u64 = u64::MAX;
/// By its multiples the times of kills in one life after the other are spread (2^32 by the golden ratio).
const SPREAD: u32 = 0x9e37_79b9;
/// Rights of a capability to receive.
const RECEIVE: u8 = 1;

/// A component's fault, in no kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What kind it is.
    pub kind: FaultKind,
    /// The address or capability slot it was about, 0 where there is none.
    pub address: u64,
    /// The instruction.
    pub instruction: u64,
}

/// The root task from now on.
pub struct Supervisor<P: Platform, S: Services<P>> {
    build: Build<P>,
    services: S,
    timer: Option<Timer<S::Timer>>,
    /// Drivers that asked for the alarm, by their bits of [`Badge::alarm`].
    alarms: u64,
    lives: Lives<P>,
    threads: Vec<Thread>,
    /// When it began, in ticks of the clock.
    began: u64,
    /// Whom it is to stop, as if by a fault, that has not been stopped yet.
    kills: Vec<Kill>,
    /// By component the ticks in a row at which a capability lay where it receives them.
    received: BTreeMap<u16, u8>,
}

impl<P: Platform, S: Services<P>> Supervisor<P, S> {
    pub(crate) fn new(
        build: Build<P>,
        services: S,
        timer: Option<Timer<S::Timer>>,
        lives: Lives<P>,
        threads: Vec<Thread>,
        began: u64,
    ) -> Self {
        let kills = build.specification.kills.clone();
        Self { build, services, timer, alarms: 0, lives, threads, began, kills, received: BTreeMap::new() }
    }

    /// The endpoint it waits at; the root task's thread has its notification bound.
    #[must_use]
    pub const fn endpoint(&self) -> CPtr {
        self.build.objects.own.endpoint
    }

    /// Supervises; never returns.
    pub async fn run(mut self) {
        loop {
            match self.build.platform.next_event().await {
                Event::Signal(badge) => self.signalled(badge),
                Event::Message(badge, message) => self.fault(badge, &message),
            }
        }
    }

    fn signalled(&mut self, badge: Badge) {
        let mut due = self.due(badge).unwrap_or_else(|_| self.lose_timer());
        // Before anybody is stopped: it was said by a PCI server that may be dead after that.
        let silenced = |component: &&capdl_spec::Component| {
            component.driver.is_some_and(|driver| badge.has(Badge::silenced(driver) & !Badge::SIGNAL))
        };
        let specification = alloc::rc::Rc::clone(&self.build.specification);
        for component in specification.components.iter().filter(silenced) {
            self.nothing_goes_on(component.id);
        }
        let mut started = badge.has(Badge::BURIED | Badge::TICK) && self.start_the_buried();
        while due.tick || due.alarm || started {
            if due.alarm {
                self.alarm();
            }
            if due.tick {
                self.tick();
            }
            started = false;
            due = self.kill();
        }
    }

    /// Starts the clients of whose sessions nothing is left. Whether there was one. A signal that was lost costs a tick.
    fn start_the_buried(&mut self) -> bool {
        let waits = |thread: &&Thread| matches!(thread.state, State::Waits { .. });
        let is_buried = |id: u16| self.build.burial(id).is_some_and(|burial| self.lives.is_buried(id, &burial));
        let waiting = self.threads.iter().filter(waits).map(|thread| thread.id);
        let buried: Vec<u16> = waiting.filter(|id| is_buried(*id)).collect();
        for id in &buried {
            self.nothing_goes_on(*id);
        }
        !buried.is_empty()
    }

    fn lose_timer(&mut self) -> Due {
        error!("the timer's registers are gone: no more ticks");
        self.timer = None;
        Due::default()
    }

    /// What the time has come for, with alarms set for those who ask.
    fn due(&mut self, badge: Badge) -> Result<Due, OutOfBounds> {
        let Some(timer) = &mut self.timer else { return Ok(Due::default()) };
        let mut due = Due::default();
        if badge.has(Badge::TICK) {
            timer.disarm()?;
            // Before the timer is armed again: an edge that comes while the line is masked is lost, and with it time.
            if self.build.platform.kernel().irq_handler_ack(timer.handler).is_err() {
                error!("the timer's interrupt cannot be acknowledged: no more ticks");
            }
            due = timer.look()?;
        }
        let asked = badge.0 & ALARMS;
        self.alarms |= asked;
        if asked != 0 && !due.alarm {
            let meanwhile = timer.set_alarm(ALARM_US)?;
            due = Due { tick: due.tick || meanwhile.tick, alarm: meanwhile.alarm };
        }
        Ok(due)
    }

    /// Wakes those who asked for it; who asked just now is woken a little early.
    fn alarm(&mut self) {
        let kernel = self.build.platform.kernel();
        for thread in self.threads.iter().filter(|thread| thread.lives()) {
            let asked = |driver: u8| self.alarms & Badge::alarm(driver) & ALARMS != 0;
            if let Some(alarm) = thread.alarm.filter(|_| thread.driver.is_some_and(asked)) {
                kernel.signal(alarm);
            }
        }
        self.alarms = 0;
    }

    fn tick(&mut self) {
        let kernel = self.build.platform.kernel();
        for notification in self.threads.iter().filter(|thread| thread.lives()).filter_map(|thread| thread.tick) {
            kernel.signal(notification);
        }
        self.report_blocked();
        self.give_up_on_the_late();
        if self.build.specification.report_caps {
            let living = self.threads.iter().filter(|thread| thread.lives()).map(|thread| thread.id);
            if let Err(reason) = self.build.sweep_received(living, &mut self.received) {
                error!("receive slots cannot be looked into: {}", reason.to_string().as_str());
            }
        }
    }

    /// Tells of transactions that the IOMMU blocked since the last tick.
    fn report_blocked(&mut self) {
        for iommu_api::blocked::Blocked { requester_id, flags, times, address } in self.lives.blocked() {
            let is_write = flags & WRITE != 0;
            let way = if is_write { "write" } else { "read" };
            warn!("function {:x}: a {} at {:#x} was blocked, of {} transactions", requester_id, way, address, times);
            let address = (flags & HAS_ADDRESS != 0).then_some(address);
            let blocked = report::Blocked { requester_id, address, is_write, times };
            self.build.platform.report(&Report::Blocked(blocked).encode());
        }
    }

    /// Stops those whose time has come, wherever they are. Whose time comes before the next tick has an alarm set for it. What
    /// else the time has come for meanwhile.
    fn kill(&mut self) -> Due {
        let elapsed_us = self.elapsed_us();
        // Who is about to be started again is killed at the first tick or alarm of its next life.
        let waits = |threads: &[Thread], id| {
            threads.iter().any(|thread| thread.id == id && matches!(thread.state, State::Waits { .. }))
        };
        let is_due = |kill: &Kill, threads: &[Thread]| kill.after_us <= elapsed_us && !waits(threads, kill.component);
        while let Some(place) = self.kills.iter().position(|kill| is_due(kill, &self.threads)) {
            let kill = self.kills.swap_remove(place);
            let times = kill.times.saturating_sub(1);
            if times > 0 {
                self.kills.push(Kill { after_us: NEXT_LIFE, times, ..kill });
            }
            if let Some(index) = self.threads.iter().position(|thread| thread.id == kill.component) {
                self.end(index, &Fault { kind: FaultKind::Killed, address: 0, instruction: 0 });
            }
        }
        let to_come = self.kills.iter().filter_map(|kill| kill.after_us.checked_sub(elapsed_us)).filter(|us| *us > 0);
        let next = to_come.min().and_then(|next| u32::try_from(next).ok()).filter(|next| *next < TICK_US);
        let (Some(next), Some(timer)) = (next, &mut self.timer) else { return Due::default() };
        timer.set_alarm(next).unwrap_or_else(|_| self.lose_timer())
    }

    /// The component lives again: it has its time until it is killed in this life, if it is to be.
    fn give_time(&mut self, id: u16) {
        let elapsed_us = self.elapsed_us();
        for kill in self.kills.iter_mut().filter(|kill| kill.component == id && kill.after_us == NEXT_LIFE) {
            let later = u64::from(kill.times.wrapping_mul(SPREAD)).saturating_mul(kill.spread_us.into()) >> u32::BITS;
            kill.after_us = elapsed_us.saturating_add(kill.every_us).saturating_add(later);
        }
    }

    /// Microseconds since the components were started.
    fn elapsed_us(&self) -> u64 {
        let elapsed = self.build.platform.ticks().saturating_sub(self.began);
        ticks_to_ns(elapsed, self.build.platform.ticks_per_second()) / 1000
    }

    /// A device that is not silenced in time may still reach its driver's memory, and one whose server did not end the
    /// session its client's: they stay dead.
    fn give_up_on_the_late(&mut self) {
        let now = self.build.platform.ticks();
        let is_late = |since: u64, seconds: u64| {
            now.saturating_sub(since) > self.build.platform.ticks_per_second().saturating_mul(seconds)
        };
        let stays_dead = |id: u16| {
            let is_ended = |thread: &Thread| thread.id == id && thread.state == State::Ended;
            self.threads.iter().any(is_ended)
        };
        let reason = |thread: &Thread| {
            let State::Waits { since } = thread.state else { return None };
            let server = self.build.buried_by(thread.id);
            match server {
                None => is_late(since, DEVICE_LIMIT_SECONDS).then_some("its device was not taken back in time"),
                Some(server) if stays_dead(server) => Some("nobody can end its session"),
                Some(_) => is_late(since, BURIAL_LIMIT_SECONDS).then_some("its session was not ended in time"),
            }
        };
        let late = self.threads.iter().filter_map(|thread| Some((thread.id, reason(thread)?)));
        let late: Vec<(u16, &str)> = late.collect();
        for (id, reason) in late {
            self.stays_dead(id, reason);
        }
    }

    fn fault(&mut self, badge: Badge, message: &Message) {
        let Some(index) = self.threads.iter().position(|thread| u64::from(thread.id) == badge.0) else {
            return warn!("a message of the unknown badge {} is dropped", badge.0);
        };
        let misuse = Fault { kind: FaultKind::OwnFaultEndpoint, address: 0, instruction: 0 };
        self.end(index, &self.services.fault(message).unwrap_or(misuse));
    }

    /// The thread's life is over, and with the PCI server's those of its drivers. Who is to live again waits until nothing
    /// that it set going goes on.
    fn end(&mut self, index: usize, fault: &Fault) {
        let now = self.build.platform.ticks();
        let now_ms = ticks_to_ns(now, self.build.platform.ticks_per_second()) / 1_000_000;
        let Some(thread) = self.threads.get_mut(index).filter(|thread| thread.lives()) else { return };
        let id = thread.id;
        let again = thread.restarts.take(now_ms);
        self.stop(id, fault, now);
        let dependents = self.build.dependents(id);
        let with_it = Fault { kind: FaultKind::ServerDied, address: 0, instruction: 0 };
        let mut never_again = Vec::new();
        for dependent in &dependents {
            let thread = self.threads.iter().find(|thread| thread.id == *dependent && thread.lives());
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
            // Who drives a device waits until that is silent, and a client until its session is ended.
            if !self.build.is_driver(next) && self.build.burial(next).is_none() {
                self.nothing_goes_on(next);
            }
        }
    }

    /// Suspends the component `id`, and lets everybody know.
    fn stop(&mut self, id: u16, fault: &Fault, now: u64) {
        let Some(thread) = self.threads.iter_mut().find(|thread| thread.id == id) else { return };
        if self.build.platform.kernel().tcb_suspend(thread.tcb).is_err() {
            error!("{} cannot be suspended, and goes on", thread.name.as_str());
        }
        thread.state = State::Waits { since: now };
        report_fault(&self.build.platform, thread, fault);
        self.lives.turn(id);
        self.tick_peers(id);
    }

    /// The component `id` is dead for good, and so are the drivers that cannot do without it. What a PCI server gave is taken, so
    /// that their devices reach nothing. One that lacks its IOMMU server is started again: it alone can silence the devices.
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

    /// The component `id`, which waits to be started again, is not. One without a policy never is, and is named as dead
    /// by its fault alone. Nobody can call it any more: who waits for its answer has the kernel's, that there is no such
    /// capability ([`Message::NO_CAPABILITY`]).
    fn stays_dead(&mut self, id: u16, reason: &str) {
        let has_policy = self.build.policy(id).is_some();
        let Some(thread) = self.threads.iter_mut().find(|thread| thread.id == id) else { return };
        let waited = matches!(thread.state, State::Waits { .. });
        if waited && has_policy {
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

    /// Nothing that the component `id` set going goes on: it is started again, if it waits for that.
    fn nothing_goes_on(&mut self, id: u16) {
        let ended = self.threads.iter().filter(|thread| matches!(thread.state, State::Ended)).map(|thread| thread.id);
        let ended: Vec<u16> = ended.collect();
        self.report_blocked();
        let Some(thread) = self.threads.iter_mut().find(|thread| thread.id == id) else { return };
        let State::Waits { since } = thread.state else { return };
        let tcb = thread.tcb;
        let renewed = self.build.renew(id).and_then(|()| {
            // Its rights to call those who stay dead are taken again.
            ended.iter().try_for_each(|ended| self.build.take_endpoints(*ended))?;
            let resumed = self.build.platform.kernel().tcb_resume(tcb);
            resumed.map_err(BuildError::refused("start", &thread.name))
        });
        if let Err(reason) = renewed {
            return self.stays_dead(id, &reason.to_string());
        }
        thread.state = State::Alive;
        thread.restarts.count();
        let times = thread.restarts.times();
        info!("{} is started again, {} times so far", thread.name.as_str(), times);
        let name = clip(&thread.name);
        self.lives.turn(id);
        self.lives.begin_again(id);
        self.give_time(id);
        self.ask_again(id);
        self.tick_peers(id);
        let to_ns = |ticks: u64| ticks_to_ns(ticks, self.build.platform.ticks_per_second());
        let (ended_at_ns, now_ns) = (to_ns(since), to_ns(self.build.platform.ticks()));
        let took_ns = now_ns.saturating_sub(ended_at_ns);
        let memory_left_bytes = self.build.allocator.left();
        let restart = report::Restart { name, times, ended_at_ns, took_ns, memory_left_bytes };
        self.build.platform.report(&Report::Restart(restart).encode());
    }

    /// Whoever waits for an answer of the component asks again: the one that lives now, or in vain.
    fn ask_again(&self, id: u16) {
        let kernel = self.build.platform.kernel();
        for caller in self.build.callers(id) {
            let Some(thread) = self.threads.iter().find(|thread| thread.id == caller && thread.lives()) else {
                continue;
            };
            // A thread that is suspended and resumed does its last system call again.
            if kernel.tcb_suspend(thread.tcb).and_then(|()| kernel.tcb_resume(thread.tcb)).is_err() {
                error!("{} may wait for an answer that never comes", thread.name.as_str());
            }
        }
    }

    /// Those who watch the component look at its page of lives.
    fn tick_peers(&self, id: u16) {
        for peer in self.build.watchers(id) {
            let thread = self.threads.iter().find(|thread| thread.id == peer && thread.lives());
            if let Some(tick) = thread.and_then(|thread| thread.tick) {
                self.build.platform.kernel().signal(tick);
            }
        }
    }
}

impl<P: Platform> Build<P> {
    fn component(&self, id: u16) -> Option<&capdl_spec::Component> {
        self.specification.components.iter().find(|component| component.id == id)
    }

    fn policy(&self, id: u16) -> Option<capdl_spec::RestartPolicy> {
        self.component(id)?.restart
    }

    fn is_driver(&self, id: u16) -> bool {
        self.component(id).is_some_and(|component| component.driver.is_some())
    }

    fn burial(&self, id: u16) -> Option<Burial> {
        self.component(id)?.burial
    }

    /// The server that says when nothing is left of the client's session.
    fn buried_by(&self, id: u16) -> Option<u16> {
        let Specification { components, mappings, .. } = &*self.specification;
        let page = self.burial(id)?.page;
        let writer = mappings.iter().find(|mapping| mapping.object == page && mapping.writable)?.vspace;
        components.iter().find(|component| component.vspace == writer).map(|component| component.id)
    }

    /// Components that end with it: first those that name it, then those that name one of these.
    fn dependents(&self, id: u16) -> Vec<u16> {
        let mut found: Vec<u16> = Vec::new();
        let mut next = Some(id);
        let mut place = 0usize;
        while let Some(server) = next {
            let named = self.specification.components.iter().filter(|one| one.ends_with == Some(server));
            let new: Vec<u16> = named.map(|one| one.id).filter(|one| *one != id && !found.contains(one)).collect();
            found.extend(new);
            next = found.get(place).copied();
            place = place.saturating_add(1);
        }
        found
    }

    /// Components that have its page of lives mapped.
    fn watchers(&self, id: u16) -> Vec<u16> {
        let Specification { components, mappings, .. } = &*self.specification;
        let Some(life) = self.component(id).and_then(|component| component.life) else { return Vec::new() };
        let watches = |vspace| mappings.iter().any(|mapping| mapping.vspace == vspace && mapping.object == life);
        components.iter().filter(|component| watches(component.vspace)).map(|component| component.id).collect()
    }

    /// Endpoints at which it receives.
    fn endpoints(&self, id: u16) -> Vec<ObjectId> {
        let Specification { caps, objects, .. } = &*self.specification;
        let Some(component) = self.component(id) else { return Vec::new() };
        let is_endpoint = |id: u32| objects.get(id as usize).is_some_and(|object| object.kind == ObjectKind::Endpoint);
        let own = caps.iter().filter(|run| run.cnode == component.cnode && run.rights & RECEIVE != 0);
        own.map(|run| run.object).filter(|object| is_endpoint(*object)).collect()
    }

    /// Takes every capability to the endpoints at which it receives, whoever has it.
    fn take_endpoints(&self, id: u16) -> Result<(), BuildError> {
        for endpoint in self.endpoints(id) {
            let slot = self.boot.slot(CPtr::new(self.objects.slots(endpoint)?.start));
            let revoked = self.platform.kernel().cnode_revoke(slot);
            revoked.map_err(BuildError::refused("revoke", "an endpoint"))?;
        }
        Ok(())
    }

    /// Components that hold a capability to an endpoint at which it receives.
    fn callers(&self, id: u16) -> Vec<u16> {
        let Specification { components, caps, .. } = &*self.specification;
        let received = self.endpoints(id);
        let calls = |cnode| caps.iter().any(|run| run.cnode == cnode && received.contains(&run.object));
        let others = components.iter().filter(|other| other.id != id && calls(other.cnode));
        others.map(|other| other.id).collect()
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
