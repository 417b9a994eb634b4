//! The presence of a controller in a slot, which may be removed (`pci_api::presence`).
//!
//! Left out: what becomes of commands when the controller goes.

use core::cell::Cell;
use pci_api::names;
use pci_api::presence::{Presence, Visit};
use platform::{Environment, Memory, Platform};

/// The arrival of the controller that was claimed.
pub struct Arrival<M> {
    page: M,
    /// The arrivals in its slot up to this one.
    arrivals: u32,
    /// The controller's removal is under way.
    leaves: Cell<bool>,
}

impl<M: Memory> Arrival<M> {
    /// The arrival that the slot of the environment's controller shows now, whether there is a controller or not. `None` for a
    /// controller that stays.
    pub fn of<P: Platform<Memory = M>>(platform: &P, environment: &Environment) -> Option<Self> {
        let page = platform.memory(environment.region(names::PRESENCE)?).ok()?;
        let arrivals = Visit::load(&page).unwrap_or_default().arrivals;
        Some(Self { page, arrivals, leaves: Cell::new(false) })
    }

    /// The state of the controller that was there at first. Another one in its place does not count.
    pub fn presence(&self) -> Presence {
        let visit = Visit::load(&self.page).unwrap_or_default();
        if visit.arrivals == self.arrivals { visit.presence } else { Presence::Absent }
    }

    /// Notes that the controller's removal is under way. Returns whether that was known.
    pub fn begin_to_leave(&self) -> bool {
        self.leaves.replace(true)
    }
}
