//! Pages of presence: whether the device of a slot is there. The PCI server writes one for each driver of a slot's device; the
//! driver and the supervisor have it mapped read-only and poll it at ticks.
//!
//! A page of zeroes shows no device. Left out: the reaction (`docs/decisions/0036-controllers-come-and-go.md`).

use platform::{Memory, OutOfBounds};

/// The device in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Presence {
    /// The controller is gone, or there never was one: its registers read all ones. The driver releases its claim without
    /// touching it.
    #[default]
    Absent,
    /// The controller can be claimed.
    Present,
    /// The controller is to be removed: the driver shuts it down and releases its claim.
    Leaving,
}

/// Content of a page of presence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Visit {
    /// Counts the devices that arrived since the PCI server's start, modulo 2^30: another number is another device, or the same
    /// one again. One that was there at the start has number 0.
    pub arrivals: u32,
    /// The last one's state.
    pub presence: Presence,
}

impl Visit {
    const SHIFT: u32 = 2;

    /// The next arrival.
    #[must_use]
    pub const fn next(self) -> Self {
        let most = u32::MAX >> Self::SHIFT;
        Self { arrivals: self.arrivals.wrapping_add(1) & most, presence: Presence::Present }
    }

    /// This arrival in another state.
    #[must_use]
    pub const fn with(self, presence: Presence) -> Self {
        Self { presence, ..self }
    }

    /// Writes it into a page of presence.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the region is not such a page, or read-only.
    pub fn store(self, page: &impl Memory) -> Result<(), OutOfBounds> {
        let state = match self.presence {
            Presence::Absent => 0,
            Presence::Present => 1,
            Presence::Leaving => 2,
        };
        page.store_release_u32(0, self.arrivals << Self::SHIFT | state)
    }

    /// Reads a page of presence.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the region is not a page of presence.
    pub fn load(page: &impl Memory) -> Result<Self, OutOfBounds> {
        let word = page.load_acquire_u32(0)?;
        let presence = match word & 0b11 {
            1 => Presence::Present,
            2 => Presence::Leaving,
            _ => Presence::Absent,
        };
        Ok(Self { arrivals: word >> Self::SHIFT, presence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::fake::Ram;

    #[test]
    fn a_page_of_zeroes_shows_no_device() {
        assert_eq!(Visit::load(&Ram::new(4096)), Ok(Visit { arrivals: 0, presence: Presence::Absent }));
    }

    #[test]
    fn every_state_of_every_arrival_is_read_as_written() {
        let page = Ram::new(4096);
        let mut visit = Visit::default();
        for arrivals in 1..4 {
            visit = visit.next();
            for presence in [Presence::Present, Presence::Leaving, Presence::Absent] {
                visit = visit.with(presence);
                visit.store(&page).unwrap();
                assert_eq!(Visit::load(&page), Ok(Visit { arrivals, presence }));
            }
        }
    }

    #[test]
    fn the_count_of_arrivals_wraps() {
        let page = Ram::new(4096);
        let last = Visit { arrivals: u32::MAX >> 2, presence: Presence::Absent };
        last.store(&page).unwrap();
        assert_eq!(Visit::load(&page), Ok(last));
        assert_eq!(last.next(), Visit { arrivals: 0, presence: Presence::Present });
    }
}
