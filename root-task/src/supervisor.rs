//! The supervisor, after the boot: reports faults, stops or restarts their components, passes on ticks.
//!
//! A component that faulted is suspended, its liveness page shows it, and its peers are ticked, so that they see it. One
//! with a restart policy is restarted ([`crate::reinstantiation`]). Before that, the PCI server takes the device of a driver
//! back, so that nothing of the dead one is in flight when its memory is used again. A caller that waits for an answer from
//! the dead component repeats its call to the next incarnation. If the PCI server dies, its drivers end with it, because no
//! other component could silence their devices. It is restarted first: it silences all devices, and then signals it for each.
//! A client with a restart policy waits likewise, until its server acknowledges the teardown of its session, because until then a
//! device may reach its window. The PCI server in its turn ends with the IOMMU server, where a component drives the IOMMU.
//! A component without a restart policy, or that dies too often, stays dead. Its memory and capabilities stay as they are, for
//! inspection, and its peers go on. Capabilities to its endpoints are taken from all components.
//!
//! A driver that wants to go on in a moment, long before the next tick, asks for the alarm and is woken by it.
//!
//! Beside the control component (`orders`), only the kernel should send to the endpoint here, when a component faults: the capability
//! for that lies in the component's CSpace. A component that uses it by itself is ended too, and reported like a fault: it would otherwise keep the highest
//! priority of the system busy.
//!
//! The parts: `time` (the timer, ticks, alarms), `deaths` (the end of a component and of those that end with it),
//! `restarting` (a component is restarted, or given up), `arrivals` (devices in hot-plug slots), `relations` (dependencies between components, from the
//! specification). Left out: fault injection (`crate::injection`), which only the root task of a test has.

mod arrivals;
mod deaths;
#[cfg(feature = "fault-injection")]
mod injecting;
mod orders;
mod relations;
mod restarting;
mod time;

use crate::Services;
#[cfg(feature = "fault-injection")]
use crate::injection::Injection;
use crate::liveness::LivenessPages;
#[cfg(feature = "fault-injection")]
use crate::moments::Moments;
use crate::state::Build;
use crate::thread::Thread;
use crate::timer::Timer;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use control_api::supervisor;
use platform::{Badge, CPtr, Event, Kernel, Platform};

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
    /// By driver of a hot-plug slot's device: the number of arrivals when it was started.
    arrivals: BTreeMap<u16, u32>,
    /// The control component, while its order is carried out.
    orders: Option<u16>,
    #[cfg(feature = "fault-injection")]
    injection: Option<Injection<P>>,
}

impl<P: Platform, S: Services<P>> Supervisor<P, S> {
    pub(crate) fn new(
        build: Build<P>,
        services: S,
        timer: Option<Timer<S::Timer>>,
        liveness: LivenessPages<P>,
        threads: Vec<Thread>,
    ) -> Self {
        // No component has run: nothing has arrived.
        let arrivals = liveness.drivers().map(|driver| (driver, 0)).collect();
        Self {
            build,
            services,
            timer,
            alarms: 0,
            liveness,
            threads,
            received: BTreeMap::new(),
            arrivals,
            orders: None,
            #[cfg(feature = "fault-injection")]
            injection: None,
        }
    }

    /// The supervisor with fault injection, whose times count from now on.
    #[cfg(feature = "fault-injection")]
    pub(crate) fn injecting(self, moments: Moments<P>) -> Self {
        let injection = Some(Injection::new(&self.build, moments));
        Self { injection, ..self }
    }

    /// The endpoint it waits at; the root task's thread has its notification bound.
    #[must_use]
    pub fn endpoint(&self) -> CPtr {
        self.build.own_endpoint()
    }

    /// Supervises; never returns.
    pub async fn run(mut self) {
        loop {
            #[cfg(feature = "fault-injection")]
            self.inject();
            match self.build.platform.next_event().await {
                Event::Signal(badge) => self.signalled(badge),
                Event::Message(badge, message) if badge.has(supervisor::BADGE) => {
                    let answer = self.ordered(badge, &message);
                    self.build.platform.kernel().reply(&answer);
                }
                Event::Message(badge, message) => self.fault(badge, &message),
            }
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
