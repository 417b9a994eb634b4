//! Liveness pages: a word with a component's present incarnation, or its death. The supervisor writes it into a page that the
//! component's peers have mapped read-only.
//!
//! A component notices a peer's death by polling the word: at a tick, which the supervisor sends when it changes the word, or
//! after a wait without result. Left out: the reaction to a death.

use crate::{Memory, OutOfBounds};

/// A component's incarnations, counted: even while it is alive, odd after it died, until it is restarted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Incarnation(u32);

impl Incarnation {
    /// The incarnation that every component starts with, and that a page of zeroes shows.
    pub const FIRST: Self = Self(0);

    /// The next count, after a death or after a restart.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Whether the component is alive.
    #[must_use]
    pub const fn is_alive(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// Writes it into a liveness page.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the region is not such a page, or read-only.
    pub fn store(self, page: &impl Memory) -> Result<(), OutOfBounds> {
        page.store_release_u32(0, self.0)
    }

    /// Reads a liveness page.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the region is not a liveness page.
    pub fn load(page: &impl Memory) -> Result<Self, OutOfBounds> {
        page.load_acquire_u32(0).map(Self)
    }
}

/// Pages of teardown acknowledgements: written by a server, read by the supervisor. A word for each of its sessions holds the
/// death of the client after which nothing was left of it: no command, no queue pair, no page in reach of the device. A page
/// of zeroes has no acknowledgements, and one for a death is never taken for another's.
impl Incarnation {
    /// Writes that nothing is left of session number `session` after this death.
    ///
    /// # Errors
    /// As [`Incarnation::store`].
    pub fn acknowledge_teardown(self, page: &impl Memory, session: u32) -> Result<(), OutOfBounds> {
        page.store_release_u32(place(session)?, self.0)
    }

    /// Whether a page of teardown acknowledgements shows that nothing is left of session number `session` after this death.
    ///
    /// # Errors
    /// As [`Incarnation::load`].
    pub fn is_teardown_acknowledged(self, page: &impl Memory, session: u32) -> Result<bool, OutOfBounds> {
        Ok(!self.is_alive() && page.load_acquire_u32(place(session)?)? == self.0)
    }
}

/// Offset of the word of session number `session` in a page of teardown acknowledgements.
fn place(session: u32) -> Result<usize, OutOfBounds> {
    usize::try_from(session).ok().and_then(|session| session.checked_mul(4)).ok_or(OutOfBounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "fake")]
    fn a_teardown_ack_is_of_one_session_and_one_death() {
        let page = crate::fake::Ram::new(4096);
        let dead = Incarnation::FIRST.next();
        assert_eq!(Incarnation::FIRST.is_teardown_acknowledged(&page, 1), Ok(false), "who is alive");
        assert_eq!(dead.is_teardown_acknowledged(&page, 1), Ok(false));
        dead.acknowledge_teardown(&page, 1).unwrap();
        assert_eq!(
            (dead.is_teardown_acknowledged(&page, 1), dead.is_teardown_acknowledged(&page, 0)),
            (Ok(true), Ok(false))
        );
        assert_eq!(
            dead.next().next().is_teardown_acknowledged(&page, 1),
            Ok(false),
            "what was said of the death before"
        );
        assert!(dead.acknowledge_teardown(&page, 1024).is_err() && dead.acknowledge_teardown(&page, u32::MAX).is_err());
    }

    #[test]
    fn incarnations_and_deaths_alternate() {
        let dead = Incarnation::FIRST.next();
        assert!(Incarnation::FIRST.is_alive() && !dead.is_alive() && dead.next().is_alive());
        assert_ne!(dead.next(), Incarnation::FIRST);
    }
}
