//! Limit of the calls per tick to the NVMe server and to its policy component.
//!
//! Both run before their clients, so work for one client takes processor time from the others.
//! Left out: the answer to a call beyond the allowance, which its receiver decides.

/// A number of units until the next tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    most: u32,
    used: u32,
}

impl Allowance {
    /// `most` units a tick.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        Self { most, used: 0 }
    }

    /// Takes all of `units` or none; returns whether as many were left.
    pub const fn takes(&mut self, units: u32) -> bool {
        let used = self.used.saturating_add(units);
        let fits = used <= self.most;
        if fits {
            self.used = used;
        }
        fits
    }

    /// Restores all units at a tick.
    pub const fn refill(&mut self) {
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_taken_as_there_is_and_again_after_a_tick() {
        let mut allowance = Allowance::new(10);
        for _ in 0..2 {
            assert_eq!(
                [4, 7, 6, 1, u32::MAX, 0].map(|units| allowance.takes(units)),
                [true, false, true, false, false, true]
            );
            allowance.refill();
        }
    }
}
