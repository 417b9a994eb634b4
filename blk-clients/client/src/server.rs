//! The server's lives, as its client sees them: whether the one in which the session was opened goes on, and the next.
//!
//! Left out: what becomes of the session, which is opened again by whoever uses it.

use core::cell::Cell;
use platform::{Environment, Life, Platform, ticks_to_ns};
use report::Report;

/// Seconds that a dead server is waited for.
const PATIENCE_SECONDS: u64 = 10;

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
    polls: bool,
}

impl<P: Platform> Server<P> {
    /// That of a client of this environment, which waits by polling or by sleeping, in its life of now.
    pub(crate) fn of(platform: P, environment: &Environment, polls: bool) -> Self {
        let page = environment.region("life-server").and_then(|region| platform.memory(region).ok());
        let life = page.as_ref().map_or(Ok(Life::FIRST), Life::load).unwrap_or_default();
        Self { platform, page, life: Cell::new(life), client: report::clip(&environment.name), polls }
    }

    /// Whether the server in which the session was opened lives no more.
    pub(crate) fn died(&self) -> bool {
        self.now().is_some_and(|life| life != self.life.get())
    }

    /// Whether there is none that could answer a call.
    pub(crate) fn is_dead(&self) -> bool {
        self.now().is_some_and(|life| !life.is_alive())
    }

    /// Waits until it lives, and takes that life for the one in which the session is opened. Whether it came: `false` after
    /// ten seconds. It is told of by ticks.
    pub(crate) async fn next_life(&self) -> bool {
        let patience = self.platform.ticks_per_second().saturating_mul(PATIENCE_SECONDS);
        let deadline = self.platform.ticks().saturating_add(patience);
        loop {
            match self.now() {
                Some(life) if life.is_alive() => {
                    self.life.set(life);
                    return true;
                }
                Some(_) if self.platform.ticks() < deadline => self.pause().await,
                _ => return false,
            }
        }
    }

    /// Tells that the session is open again, and how many requests were given again.
    pub(crate) fn tell_reconnected(&self, reissued: u32) {
        let at_ns = ticks_to_ns(self.platform.ticks(), self.platform.ticks_per_second());
        let tenant = self.client.clone();
        self.platform.report(&Report::Reconnected { tenant, at_ns, reissued }.encode());
    }

    fn now(&self) -> Option<Life> {
        self.page.as_ref().and_then(|page| Life::load(page).ok())
    }

    async fn pause(&self) {
        if self.polls {
            self.platform.yield_now().await;
        } else {
            self.platform.next_event().await;
        }
    }
}
