//! Who weighs the sessions against each other: the controller, where it can (NVM Express base specification 1.4,
//! section 4.13), so that the server gives all it has and what waits in the queues is chosen by the controller.

use crate::shared::Shared;
use blk_api::config::{Class, ClassWeights, PolicyKind};
use blk_api::queues::Queues;
use nvme_spec::admin::QueuePriority;
use nvme_spec::feature::ArbitrationWeights;
use nvme_spec::registers::Arbitration;
use platform::Platform;

/// The most commands, as a power of two, that a queue may have at its turn, whatever the controller recommends: queues of
/// one class wait for each other's turns.
const MAX_BURST: u8 = 3;

impl<P: Platform> Shared<P> {
    /// Whether the controller does the weighing: known from the first bring-up on, and the same ever after. It weighs queues,
    /// so it cannot where sessions share them.
    pub(crate) fn arbitrates_by_weight(&self) -> bool {
        let can = self.device.controller.cap().ams_wrr() && self.config.queues == Queues::Dedicated;
        self.config.policy == PolicyKind::Weighted && can
    }

    /// The value of CC.AMS.
    pub(crate) fn arbitration(&self) -> Arbitration {
        if self.arbitrates_by_weight() { Arbitration::WeightedUrgent } else { Arbitration::RoundRobin }
    }
}

/// The value of the Arbitration feature, for a controller that recommends turns of 2^`burst` commands (RAB). The number of
/// commands in a turn changes nothing about the shares of classes.
pub(crate) fn weights(weights: ClassWeights, burst: u8) -> ArbitrationWeights {
    let ClassWeights { high, medium, low } = weights;
    // 0 stands for 1. The configuration has 1 to 256.
    let zero_based = |weight: u16| u8::try_from(weight.saturating_sub(1)).unwrap_or(u8::MAX);
    ArbitrationWeights::new()
        .with_burst(burst.min(MAX_BURST))
        .with_high_z(zero_based(high))
        .with_medium_z(zero_based(medium))
        .with_low_z(zero_based(low))
}

/// QPRIO of a class's queues. It means nothing to a controller that does not arbitrate by weight.
pub(crate) const fn priority(class: Class) -> QueuePriority {
    match class {
        Class::Urgent => QueuePriority::Urgent,
        Class::High => QueuePriority::High,
        Class::Medium => QueuePriority::Medium,
        Class::Low => QueuePriority::Low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_zero_based_and_turns_are_short() {
        let most = ClassWeights { high: ClassWeights::MOST, medium: 3, low: 1 };
        let value = weights(most, ArbitrationWeights::NO_LIMIT);
        assert_eq!((value.high_z(), value.medium_z(), value.low_z(), value.burst()), (255, 2, 0, MAX_BURST));
        assert_eq!(weights(most, 0).burst(), 0);
    }
}
