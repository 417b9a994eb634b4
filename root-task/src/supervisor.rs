//! After the boot: faults are named, their components stopped or started again, ticks are passed on.
//!
//! A component that faulted is suspended, its liveness page says so, and its peers are ticked, so that they see it. One
//! with a restart policy is started again ([`crate::reinstantiation`]); before that, the PCI server takes the device of a driver
//! back, so that nothing of the dead one's is in flight when its memory is used again. Whoever waits for an answer from the
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
//!
//! The parts: `time` (the timer, ticks, alarms), `deaths` (a component ends, and who ends with it), `restarting` (a component
//! starts again, or is given up), `relations` (who depends on whom, from the specification). Left out: fault injection
//! (`crate::injection`), which only the root task of a test has.

mod deaths;
mod relations;
mod restarting;
mod time;

use crate::Services;
use crate::build::Build;
#[cfg(feature = "fault-injection")]
use crate::injection::Injection;
use crate::liveness::LivenessPages;
use crate::threads::Thread;
use crate::timer::Timer;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use platform::{Badge, CPtr, Event, Platform};
use report::FaultKind;

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
    pub(crate) build: Build<P>,
    services: S,
    pub(crate) timer: Option<Timer<S::Timer>>,
    /// Drivers that asked for the alarm, by their bits of [`Badge::alarm`].
    alarms: u64,
    liveness: LivenessPages<P>,
    pub(crate) threads: Vec<Thread>,
    /// By component the ticks in a row at which a capability lay where it receives them.
    received: BTreeMap<u16, u8>,
}

impl<P: Platform, S: Services<P>> Supervisor<P, S> {
    pub(crate) const fn new(
        build: Build<P>,
        services: S,
        timer: Option<Timer<S::Timer>>,
        liveness: LivenessPages<P>,
        threads: Vec<Thread>,
    ) -> Self {
        Self { build, services, timer, alarms: 0, liveness, threads, received: BTreeMap::new() }
    }

    /// The endpoint it waits at; the root task's thread has its notification bound.
    #[must_use]
    pub const fn endpoint(&self) -> CPtr {
        self.build.objects.own.endpoint
    }

    /// Supervises; never returns.
    pub async fn run(mut self) {
        #[cfg(feature = "fault-injection")]
        let mut injection = Injection::new(&self.build);
        loop {
            match self.build.platform.next_event().await {
                Event::Signal(badge) => self.signalled(badge),
                Event::Message(badge, message) => self.fault(badge, &message),
            }
            #[cfg(feature = "fault-injection")]
            injection.act(&mut self);
        }
    }

    fn signalled(&mut self, badge: Badge) {
        let due = self.due(badge).unwrap_or_else(|_| self.lose_timer());
        self.restart_silenced(badge);
        if badge.has(Badge::TORN_DOWN | Badge::TICK) {
            self.restart_torn_down();
        }
        self.time_passed(due);
    }
}
