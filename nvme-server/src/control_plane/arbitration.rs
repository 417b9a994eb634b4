//! Arbitration by the controller, where it can weigh queues (NVM Express base specification 1.4, section 4.13).
//!
//! The server then submits all it has, and the controller chooses among the queues. It weighs queues by class. The class is
//! the session's, or one of three speeds, of which the session has a queue each.

use crate::link::Link;
use blk_api::config::{Class, ClassWeights, SchedulingPolicy};
use blk_api::queue_sharing::QueueSharing;
use nvme_spec::admin::QueuePriority;
use nvme_spec::feature::ArbitrationWeights;
use nvme_spec::registers::Arbitration;
use platform::Platform;

/// The most commands, as a power of two, that a queue may have at its turn, whatever the controller recommends: queues of
/// one class wait for each other's turns.
const MAX_BURST: u8 = 3;

/// The classes of a session's queue pairs, where they are speeds. More of them are as slow as the last.
const SPEEDS: [Class; 3] = [Class::High, Class::Medium, Class::Low];
/// Their weights. A session that uses its slowest queue gets less than its share beside others, even if each of its commands
/// moves as much as the scheduling policy allows and each of theirs as little as possible.
const SPEED_WEIGHTS: ClassWeights = ClassWeights { high: 64, medium: 8, low: 1 };

/// The property by which the controller weighs queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weighing {
    /// None: it treats all queues alike.
    Nothing,
    /// By the classes of their sessions.
    Classes,
    /// By their speeds.
    Speeds,
}

impl Weighing {
    /// The property by which the controller weighs queues: known from the first bring-up on, and constant after it. Sessions that
    /// share queue pairs cannot be weighed in this way.
    pub(crate) fn of<P: Platform>(link: &Link<P>) -> Self {
        if !link.controller.registers.cap().ams_wrr() || link.config.queue_sharing != QueueSharing::Dedicated {
            return Self::Nothing;
        }
        match link.config.policy {
            SchedulingPolicy::Weighted => Self::Classes,
            SchedulingPolicy::DeviceDirect => Self::Speeds,
            _ => Self::Nothing,
        }
    }

    /// The value of CC.AMS.
    pub(crate) const fn arbitration(self) -> Arbitration {
        match self {
            Self::Nothing => Arbitration::RoundRobin,
            Self::Classes | Self::Speeds => Arbitration::WeightedUrgent,
        }
    }
}

/// The class of the queue pair at `place` among those of a session of `class`.
pub(crate) fn class_of_queue(weighing: Weighing, class: Class, place: u16) -> Class {
    match weighing {
        Weighing::Nothing | Weighing::Classes => class,
        Weighing::Speeds => SPEEDS.get(usize::from(place)).copied().unwrap_or(Class::Low),
    }
}

/// The value of the Arbitration feature, for a controller that recommends turns of 2^`burst` commands (RAB), where the
/// configuration has these weights. The number of commands in a turn changes nothing about the shares of classes.
pub(crate) fn weights(weighing: Weighing, configured: ClassWeights, burst: u8) -> ArbitrationWeights {
    let ClassWeights { high, medium, low } = if weighing == Weighing::Speeds { SPEED_WEIGHTS } else { configured };
    // 0 stands for 1. The configuration has 1 to 256.
    let zero_based = |weight: u16| u8::try_from(weight.saturating_sub(1)).unwrap_or(u8::MAX);
    ArbitrationWeights::new()
        .with_burst(burst.min(MAX_BURST))
        .with_high_z(zero_based(high))
        .with_medium_z(zero_based(medium))
        .with_low_z(zero_based(low))
}

/// QPRIO of a class's queues. A controller that does not arbitrate by weight ignores it.
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
        let value = weights(Weighing::Classes, most, ArbitrationWeights::NO_LIMIT);
        assert_eq!((value.high_z(), value.medium_z(), value.low_z(), value.burst()), (255, 2, 0, MAX_BURST));
        assert_eq!(weights(Weighing::Classes, most, 0).burst(), 0);
    }

    #[test]
    fn a_sessions_queue_pairs_have_a_speed_each_whatever_its_class() {
        let classes = |weighing| [0, 1, 2, 3].map(|place| class_of_queue(weighing, Class::Urgent, place));
        assert_eq!(classes(Weighing::Speeds), [Class::High, Class::Medium, Class::Low, Class::Low]);
        assert_eq!(classes(Weighing::Classes), [Class::Urgent; 4]);
        let value = weights(Weighing::Speeds, ClassWeights::default(), 0);
        assert_eq!((value.high_z(), value.medium_z(), value.low_z()), (63, 7, 0));
    }
}
