//! The life of a client: its liveness page, and the incarnation that is served.

use platform::{Incarnation, Memory};

/// A client's liveness page, and the incarnation in which its session was opened.
pub(crate) struct Watched<M> {
    page: M,
    incarnation: Incarnation,
    /// The last death after which the supervisor was notified that nothing is left of the session.
    acknowledged: Incarnation,
}

impl<M: Memory> Watched<M> {
    /// Watches the client with this liveness page, in its first incarnation.
    pub(crate) const fn new(page: M) -> Self {
        Self { page, incarnation: Incarnation::FIRST, acknowledged: Incarnation::FIRST }
    }

    /// Watches the client's present incarnation from now on. A client that died since its call stays dead.
    pub(crate) fn refresh(&mut self) {
        if let Ok(incarnation) = Incarnation::load(&self.page)
            && incarnation.is_alive()
        {
            self.incarnation = incarnation;
        }
    }

    /// The client's death, if the client is dead.
    pub(crate) fn death(&self) -> Option<Incarnation> {
        Incarnation::load(&self.page).ok().filter(|incarnation| !incarnation.is_alive())
    }

    /// The client's death, if the client is dead; each death is returned once.
    pub(crate) fn new_death(&mut self) -> Option<Incarnation> {
        let death = self.death().filter(|death| *death != self.acknowledged)?;
        self.acknowledged = death;
        Some(death)
    }

    /// Returns whether the client that the session was opened for is not alive any more.
    pub(crate) fn died(&self) -> bool {
        Incarnation::load(&self.page).is_ok_and(|incarnation| incarnation != self.incarnation)
    }
}
