//! Features that a driver relies on, and that an earlier one may have saved in the controller: saved values take effect at each
//! reset (NVM Express base specification 1.4, section 5.21).
//!
//! For each, a driver asks for the value in force and sets it if that is another one. A controller that does not have a feature, or
//! does not let it be changed, refuses; it cannot have been changed before either. Left out: features whose values are harmless,
//! which `docs/quirks.md` lists with the reasons, and those that a driver sets anyway.

use nvme_spec::feature::{self, Feature};
use nvme_spec::{Cid, DataPointer, Nsid, Sqe};

/// A feature with the value that a driver relies on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reliance {
    /// The feature.
    pub feature: Feature,
    /// Bits of the value that matter.
    mask: u32,
    /// The value of these bits.
    value: u32,
    /// The namespace whose feature it is; none for the controller's.
    nsid: Nsid,
}

impl Reliance {
    const fn off(feature: Feature, mask: u32) -> Self {
        Self { feature, mask, value: 0, nsid: Nsid::NONE }
    }

    /// The features of a controller.
    pub const OF_CONTROLLER: [Self; 4] = [
        // Power state 0, the one with the full speed.
        Self::off(Feature::PowerManagement, 0x1f),
        // Completions are announced at once.
        Self::off(Feature::InterruptCoalescing, 0xffff),
        // The controller does not change its power state itself.
        Self::off(Feature::AutonomousPower, 1),
        // It does not fail when nobody sends Keep Alive.
        Self::off(Feature::KeepAliveTimer, u32::MAX),
    ];

    /// The feature of namespace `nsid`: reads of deallocated blocks succeed (DULBE), and errors are recovered from without a limit
    /// of time (TLER).
    #[must_use]
    pub const fn of_namespace(nsid: Nsid) -> Self {
        Self { nsid, ..Self::off(Feature::ErrorRecovery, 0x0001_ffff) }
    }

    /// Get Features. A feature with a data structure has it at `data`, a page.
    #[must_use]
    pub fn get(&self, cid: Cid, data: DataPointer) -> Sqe {
        self.addressed(feature::get_feature(cid, self.feature), data)
    }

    /// Whether `current`, DW0 of Get Features, is another value. Returns the one to set.
    #[must_use]
    pub const fn mended(&self, current: u32) -> Option<u32> {
        if current & self.mask == self.value { None } else { Some(current & !self.mask | self.value) }
    }

    /// Set Features with this value, until the next reset. The data structure is as Get Features left it at `data`.
    #[must_use]
    pub fn set(&self, cid: Cid, value: u32, data: DataPointer) -> Sqe {
        self.addressed(feature::set_feature(cid, self.feature, value), data)
    }

    fn addressed(&self, mut sqe: Sqe, data: DataPointer) -> Sqe {
        sqe.nsid = self.nsid.0;
        if self.feature == Feature::AutonomousPower {
            (sqe.prp1, sqe.prp2) = (data.prp1, data.prp2);
        }
        sqe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_value_that_matters_is_mended() {
        let [power, coalescing, ..] = Reliance::OF_CONTROLLER;
        assert_eq!((coalescing.mended(0), coalescing.mended(0xff07)), (None, Some(0)));
        assert_eq!((power.mended(0x40), power.mended(0x43)), (None, Some(0x40)), "the workload hint stays");
        assert_eq!(Reliance::of_namespace(Nsid(2)).mended(0x1_0005), Some(0));
    }
}
