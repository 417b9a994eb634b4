//! Limit of the work that a client may cause in a server from one tick to the next.
//!
//! Servers run before their clients, so work for one client takes processor time from the others. Each server and the policy
//! component counts its own units. Left out: the answer to a call beyond the allowance, which its receiver decides.

/// A number of units, restored at ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    most: u32,
    a_tick: u32,
    used: u32,
}

impl Allowance {
    /// `most` units a tick.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        Self::with_burst(most, most)
    }

    /// `most` units at once, of which a tick restores `a_tick`: a client may do much at its start, and less for ever.
    #[must_use]
    pub const fn with_burst(most: u32, a_tick: u32) -> Self {
        Self { most, a_tick, used: 0 }
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

    /// Restores a tick's units.
    pub const fn refill(&mut self) {
        self.used = self.used.saturating_sub(self.a_tick);
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

    #[test]
    fn a_burst_returns_in_parts() {
        let mut allowance = Allowance::with_burst(10, 3);
        let mut taken = || {
            let taken = (0..).take_while(|_| allowance.takes(1)).count();
            allowance.refill();
            taken
        };
        assert_eq!([taken(), taken(), taken()], [10, 3, 3]);
        for _ in 0..9 {
            allowance.refill();
        }
        assert!(allowance.takes(10) && !allowance.takes(1));
    }
}
