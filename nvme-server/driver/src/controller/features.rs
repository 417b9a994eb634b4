//! Features that a driver relies on, and that an earlier one may have saved in the controller: saved values take effect at each
//! reset (NVM Express base specification 1.4, section 5.21).
//!
//! For each, a driver asks for the value in force and sets it if that is another one. A feature that the controller does not have, or
//! does not let be changed, keeps its value. Left out: features whose values are harmless,
//! which `docs/quirks.md` lists with the reasons, and those that a driver sets anyway.

use crate::fault::DeviceFault;
use crate::inquiry::Asks;
use nvme_spec::feature::{self, Feature};
use nvme_spec::{Cid, DataPointer, Nsid, Sqe};
use platform::log::{info, warn};

/// A feature with the value that a driver relies on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reliance {
    /// The feature.
    feature: Feature,
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
    const OF_CONTROLLER: [Self; 4] = [
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
    const fn of_namespace(nsid: Nsid) -> Self {
        Self { nsid, ..Self::off(Feature::ErrorRecovery, 0x0001_ffff) }
    }

    /// Get Features. A feature with a data structure has it at `data`, a page.
    fn get(&self, cid: Cid, data: DataPointer) -> Sqe {
        self.addressed(feature::get_feature(cid, self.feature), data)
    }

    /// Whether `current`, DW0 of Get Features, is another value. Returns the one to set.
    const fn mended(&self, current: u32) -> Option<u32> {
        if current & self.mask == self.value { None } else { Some(current & !self.mask | self.value) }
    }

    /// Set Features with this value, until the next reset. The data structure is as Get Features left it at `data`.
    fn set(&self, cid: Cid, value: u32, data: DataPointer) -> Sqe {
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

/// Sets the features that a driver relies on, of the controller and of these namespaces. One that is refused stays as it is, which the
/// log says.
///
/// # Errors
/// As [`Asks::must`], but for a refusal.
pub async fn set(asks: &mut impl Asks, namespaces: impl Iterator<Item = Nsid>) -> Result<(), DeviceFault> {
    let page = DataPointer::page(asks.page().iova.bits());
    for relied_on in Reliance::OF_CONTROLLER.into_iter().chain(namespaces.map(Reliance::of_namespace)) {
        let current = match asks.must(|cid| relied_on.get(cid, page)).await {
            Ok(cqe) => cqe.dw0,
            Err(DeviceFault::Refused(_)) => continue,
            Err(fault) => return Err(fault),
        };
        let Some(value) = relied_on.mended(current) else { continue };
        let number = relied_on.feature as u8;
        match asks.must(|cid| relied_on.set(cid, value, page)).await {
            Ok(_) => info!("feature {:#x} was {:#x} and is set to {:#x}", number, current, value),
            Err(DeviceFault::Refused(status)) => {
                warn!("feature {:#x} stays {:#x}: status {:#x}", number, current, status.to_raw());
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
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
