//! The server's lives, as its client sees them: whether the one in which the session was opened goes on, and the next.
//!
//! Left out: what becomes of the session, which is opened again by whoever uses it.

use crate::control::Control;
use blk_api::names;
use blk_api::session::Refusal;
use core::cell::Cell;
use platform::{Environment, Life, Platform, ticks_to_ns};
use report::{Reconnected, Report};

/// The server.
#[derive(Debug)]
pub(crate) struct Server<P: Platform> {
    platform: P,
    /// Its page of lives; without one it is not known whether it lives.
    page: Option<P::Memory>,
    /// The life in which the session was opened.
    life: Cell<Life>,
    /// The name under which the client speaks of itself.
    client: report::Name,
}

impl<P: Platform> Server<P> {
    /// That of a client of this environment, in its life of now.
    pub(crate) fn of(platform: P, environment: &Environment) -> Self {
        let page = environment.region(names::LIFE_SERVER).and_then(|region| platform.memory(region).ok());
        let life = page.as_ref().map_or(Ok(Life::FIRST), Life::load).unwrap_or_default();
        Self { platform, page, life: Cell::new(life), client: report::clip(&environment.name) }
    }

    /// Whether the server in which the session was opened lives no more.
    pub(crate) fn died(&self) -> bool {
        self.now().is_some_and(|life| life != self.life.get())
    }

    /// Waits until it lives, and takes that life for the one in which the session is opened. Whether it came: `false` for
    /// one that stays dead.
    pub(crate) async fn next_life(&self, control: &Control<P>) -> bool {
        while let Some(life) = self.now() {
            if life.is_alive() {
                self.life.set(life);
                return true;
            }
            // A call to the dead waits for its successor's answer, or for the kernel's.
            if control.ping().await == Err(Refusal::Dead) {
                break;
            }
        }
        false
    }

    /// Tells that the session is open again, and how many requests were given again.
    pub(crate) fn tell_reconnected(&self, reissued: u32) {
        let at_ns = ticks_to_ns(self.platform.ticks(), self.platform.ticks_per_second());
        let tenant = self.client.clone();
        self.platform.report(&Report::Reconnected(Reconnected { tenant, at_ns, reissued }).encode());
    }

    fn now(&self) -> Option<Life> {
        self.page.as_ref().and_then(|page| Life::load(page).ok())
    }
}
