//! The drivers' deaths, and the ends of resets: both are noticed at the supervisor's ticks and before each request.
//!
//! A dead driver's function is silenced, then its claim is taken back, and then the supervisor is notified. A function under
//! reset must not be accessed and is silent: a death of its driver is noticed when the reset is over.

use super::Server;
use pci_api::names;
use platform::log::warn;
use platform::{Cap, Environment, Incarnation, Kernel, Memory, Notification, Platform};

/// A driver's liveness page.
#[derive(Debug)]
pub(super) struct Watched<M> {
    page: M,
    known: Incarnation,
    /// Notifies the supervisor that nothing of the dead driver is in flight.
    silenced: Cap<Notification>,
    /// The driver is dead, and the supervisor is notified from this time on.
    silent_at_ns: Option<u64>,
}

impl<M: Memory> Watched<M> {
    /// The page of driver number `driver`. `None` if the environment lacks something.
    pub(super) fn new<P: Platform<Memory = M>>(platform: &P, environment: &Environment, driver: u32) -> Option<Self> {
        let region = environment.region(&names::liveness(driver))?;
        let page = platform.memory(region).ok()?;
        let known = Incarnation::load(&page).ok()?;
        Some(Self { page, known, silenced: environment.cap_at(names::SILENCED, driver)?, silent_at_ns: None })
    }
}

impl<P: Platform> Server<P> {
    /// Notifies the supervisor of drivers that were dead when the server started. They died with its previous incarnation, and
    /// their devices are silent by now.
    pub(super) fn notify_of_the_dead(&self) {
        for watched in self.watched_drivers.iter().filter(|watched| !watched.known.is_alive()) {
            self.resources.kernel().signal(watched.silenced);
        }
    }

    /// Ends resets of physical functions whose time is over.
    pub(super) fn settle(&mut self) {
        let Self { resources, functions, provisions, note, claims, watched_drivers, .. } = self;
        for provision in provisions.iter_mut().filter(|provision| provision.is_resetting()) {
            let physical = functions.iter().find(|function| function.bdf == provision.physical());
            let claimed = claims.iter_mut().zip(watched_drivers.iter()).find_map(|(claim, watched)| {
                let claim = claim.as_mut().filter(|claim| claim.bdf() == provision.physical())?;
                Some((claim, watched))
            });
            // Both exist: a claim of a function under reset does not end.
            if let (Some(physical), Some((claim, watched))) = (physical, claimed)
                && provision.settle(resources, note, physical, claim)
                && Incarnation::load(&watched.page) == Ok(watched.known)
            {
                claim.restart(resources);
            }
        }
    }

    /// Takes back dead drivers' claims, and notifies the supervisor.
    pub(super) fn check_liveness(&mut self) {
        for driver in 0..self.watched_drivers.len() {
            self.check_driver(driver);
        }
    }

    fn check_driver(&mut self, driver: usize) {
        if self.is_function_resetting(driver) {
            return; // It is silent, and not to be accessed. A death is noticed when it is.
        }
        let Some(watched) = self.watched_drivers.get_mut(driver) else { return };
        let Ok(incarnation) = Incarnation::load(&watched.page) else { return };
        if core::mem::replace(&mut watched.known, incarnation) != incarnation {
            let mut silent_at_ns = 0;
            if let Some(claim) = self.claims.get_mut(driver).and_then(Option::take) {
                let bdf = claim.bdf();
                claim.close(&mut self.resources);
                warn!("{:x}:{:x}.{} is taken back from a dead driver", bdf.bus(), bdf.device(), bdf.function());
                // A virtual function is under reset now. The driver's next incarnation can claim it afterwards.
                silent_at_ns = self.resources.resets.ready_at_ns(bdf);
            }
            watched.silent_at_ns = (!incarnation.is_alive()).then_some(silent_at_ns);
            if let Some(Some(budget)) = self.budgets.get_mut(driver) {
                budget.forget(&self.resources);
            }
        }
        if watched.silent_at_ns.is_some_and(|at_ns| at_ns <= self.resources.now_ns()) {
            watched.silent_at_ns = None;
            self.resources.kernel().signal(watched.silenced);
        }
    }

    /// Whether a driver has claimed a function that is under reset: a physical one that gets virtual ones, or one that was
    /// withdrawn.
    pub(super) fn is_function_resetting(&self, driver: usize) -> bool {
        let Some(claim) = self.claims.get(driver).and_then(Option::as_ref) else { return false };
        if claim.is_withdrawn() {
            return self.resources.is_under_reset(claim.bdf());
        }
        self.provisions.iter().any(|provision| provision.is_resetting() && provision.physical() == claim.bdf())
    }
}
