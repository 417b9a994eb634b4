//! Feature values: current, default and saved (sections 5.13 and 5.21).
//!
//! Plain tables. The commands that use them are in [`super::feature_commands`]; [`Features::apply`] copies the values
//! that the data path uses into the core's [`Settings`].

use std::collections::BTreeMap;

use nvme_spec::feature::{
    ArbitrationWeights, AsyncEvents, AutonomousPower, Capabilities, ErrorRecovery, Feature, IdleTransition,
    InterruptCoalescing, InterruptVector, NumberOfQueues, PowerManagement, Select, TemperatureThreshold,
    WriteAtomicity, WriteCache,
};

use super::health::Thresholds;
use crate::settings::{Coalescing, Settings};

/// Transitions of an idle controller: one for each power state that there can be.
pub(super) const TRANSITIONS: usize = 32;

/// A value for each feature.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    arbitration: ArbitrationWeights,
    pub(crate) power: PowerManagement,
    pub(crate) thresholds: Thresholds,
    /// By NSID; only namespaces for which it was ever set.
    recovery: BTreeMap<u32, ErrorRecovery>,
    write_cache: WriteCache,
    /// The numbers granted; `None` before the first request.
    queues: Option<NumberOfQueues>,
    coalescing: InterruptCoalescing,
    /// By vector.
    uncoalesced: Vec<bool>,
    atomicity: WriteAtomicity,
    pub(crate) events: AsyncEvents,
    pub(crate) keep_alive_ms: u32,
    autonomous: AutonomousPower,
    /// By power state.
    transitions: [IdleTransition; TRANSITIONS],
}

/// Inputs of the defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) vectors: u16,
    pub(crate) queue_pairs: u16,
    pub(crate) warning_kelvin: u16,
}

/// The three values of every feature.
#[derive(Debug)]
pub(crate) struct Features {
    default: Values,
    saved: Values,
    current: Values,
    most_queues: NumberOfQueues,
}

/// Whether Set Features changes the saved value too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    UntilReset,
    Saved,
}

/// The selector of one value of a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Which {
    pub(crate) nsid: u32,
    pub(crate) cdw11: u32,
}

impl Features {
    pub(crate) fn new(shape: Shape) -> Self {
        let default = Values::new(shape);
        let most_queues = NumberOfQueues::pairs(shape.queue_pairs).unwrap_or_default();
        Self { saved: default.clone(), current: default.clone(), default, most_queues }
    }

    /// Starts with a value that was saved before, of a controller with this number of namespaces.
    pub(crate) fn start_with(&mut self, fid: u8, value: u32, namespaces: u32) {
        let Some(feature) = Feature::from_raw(fid).filter(|feature| capabilities(*feature).saveable()) else { return };
        let nsids = if capabilities(feature).of_namespace() { 1..=namespaces } else { 0..=0 };
        for nsid in nsids {
            self.set(feature, Which { nsid, cdw11: value }, Keep::Saved);
        }
    }

    /// The values in force.
    pub(crate) const fn current(&self) -> &Values {
        &self.current
    }

    /// Returns a value as DW0 of Get Features reports it. [`Select::Supported`] is [`capabilities`].
    pub(crate) fn get(&self, feature: Feature, which: Which, select: Select) -> u32 {
        let values = match select {
            Select::Current => &self.current,
            Select::Default => &self.default,
            Select::Saved => &self.saved,
            Select::Supported => return capabilities(feature).into_bits(),
        };
        values.get(feature, which).unwrap_or(self.most_queues.into_bits())
    }

    /// Sets a value that was found valid.
    pub(crate) fn set(&mut self, feature: Feature, which: Which, keep: Keep) {
        self.current.set(feature, which);
        if keep == Keep::Saved {
            self.saved.set(feature, which);
        }
    }

    /// Returns the I/O queues granted of those requested.
    pub(crate) fn grant(&self, asked: NumberOfQueues) -> NumberOfQueues {
        NumberOfQueues::new()
            .with_sqs_z(asked.sqs_z().min(self.most_queues.sqs_z()))
            .with_cqs_z(asked.cqs_z().min(self.most_queues.cqs_z()))
    }

    /// Returns a value of the autonomous power state transitions: whether there are any, and which.
    pub(super) fn transitions(&self, select: Select) -> (AutonomousPower, [IdleTransition; TRANSITIONS]) {
        let values = match select {
            Select::Current | Select::Supported => &self.current,
            Select::Default => &self.default,
            Select::Saved => &self.saved,
        };
        (values.autonomous, values.transitions)
    }

    /// Sets the autonomous power state transitions, which were found valid.
    pub(super) fn set_transitions(&mut self, value: AutonomousPower, table: [IdleTransition; TRANSITIONS], keep: Keep) {
        let set = |values: &mut Values| (values.autonomous, values.transitions) = (value, table);
        set(&mut self.current);
        if keep == Keep::Saved {
            set(&mut self.saved);
        }
    }

    /// Records that the controller enters this power state of its own accord.
    pub(crate) fn enter_power_state(&mut self, state: u8) {
        self.current.power = self.current.power.with_state(state);
    }

    /// Resets with the controller, which then has this many queue pairs: the saved values take effect.
    pub(crate) fn reset(&mut self, queue_pairs: u16) {
        self.most_queues = NumberOfQueues::pairs(queue_pairs).unwrap_or_default();
        self.current = self.saved.clone();
    }

    /// Grants no more I/O queue pairs than these until the next reset.
    pub(crate) fn limit_queues(&mut self, queue_pairs: u16) {
        self.most_queues = NumberOfQueues::pairs(queue_pairs).unwrap_or_default();
    }

    /// Copies the values into the data path's settings.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        settings.arbitration = self.current.arbitration;
        settings.write_cache = self.current.write_cache.enabled();
        settings.queues = self.current.queues;
        settings.coalescing = Coalescing {
            threshold_z: self.current.coalescing.threshold_z(),
            time_100us: self.current.coalescing.time(),
        };
        settings.uncoalesced.clone_from(&self.current.uncoalesced);
    }
}

/// Returns the capabilities of a feature.
pub(crate) const fn capabilities(feature: Feature) -> Capabilities {
    let changeable = Capabilities::new().with_changeable(true);
    match feature {
        Feature::ErrorRecovery => changeable.with_saveable(true).with_of_namespace(true),
        Feature::NumberOfQueues
        | Feature::Timestamp
        | Feature::KeepAliveTimer
        | Feature::PowerManagement
        | Feature::HostBehavior
        | Feature::HostId => changeable,
        _ => changeable.with_saveable(true),
    }
}

impl Values {
    /// Returns the transition that an idle controller makes in a power state, if there is one.
    pub(super) fn transition(&self, state: u8) -> Option<IdleTransition> {
        let transition = self.transitions.get(usize::from(state)).copied()?;
        (self.autonomous.enabled() && transition.idle_ms() != 0).then_some(transition)
    }

    fn new(shape: Shape) -> Self {
        Self {
            arbitration: ArbitrationWeights::new(),
            power: PowerManagement::new(),
            thresholds: Thresholds::new(shape.warning_kelvin),
            recovery: BTreeMap::new(),
            write_cache: WriteCache::new().with_enabled(true),
            queues: None,
            coalescing: InterruptCoalescing::new(),
            uncoalesced: vec![false; usize::from(shape.vectors)],
            atomicity: WriteAtomicity::new(),
            events: AsyncEvents::new(),
            keep_alive_ms: 0,
            autonomous: AutonomousPower::new(),
            transitions: [IdleTransition::new(0, 0); TRANSITIONS],
        }
    }

    /// Returns `None` for the number of queues before a request.
    fn get(&self, feature: Feature, which: Which) -> Option<u32> {
        Some(match feature {
            Feature::Arbitration => self.arbitration.into_bits(),
            Feature::PowerManagement => self.power.into_bits(),
            Feature::TemperatureThreshold => {
                let threshold = TemperatureThreshold::from_bits(which.cdw11);
                let band = self.thresholds.band(threshold.sensor());
                u32::from(if threshold.under() != 0 { band.under } else { band.over })
            }
            Feature::ErrorRecovery => self.recovery.get(&which.nsid).copied().unwrap_or_default().into_bits(),
            Feature::VolatileWriteCache => self.write_cache.into_bits(),
            Feature::NumberOfQueues => self.queues?.into_bits(),
            Feature::InterruptCoalescing => self.coalescing.into_bits(),
            Feature::InterruptVector => {
                let vector = InterruptVector::from_bits(which.cdw11).vector();
                let disabled = self.uncoalesced.get(usize::from(vector)).copied().unwrap_or_default();
                InterruptVector::new().with_vector(vector).with_coalescing_disabled(disabled).into_bits()
            }
            Feature::WriteAtomicity => self.atomicity.into_bits(),
            Feature::AsyncEvents => self.events.into_bits(),
            Feature::KeepAliveTimer => self.keep_alive_ms,
            Feature::AutonomousPower => self.autonomous.into_bits(),
            _ => 0,
        })
    }

    fn set(&mut self, feature: Feature, which: Which) {
        let value = which.cdw11;
        match feature {
            Feature::Arbitration => self.arbitration = ArbitrationWeights::from_bits(value),
            Feature::PowerManagement => self.power = PowerManagement::from_bits(value),
            Feature::TemperatureThreshold => {
                let threshold = TemperatureThreshold::from_bits(value);
                for band in self.thresholds.bands_mut(threshold.sensor()) {
                    let place = if threshold.under() != 0 { &mut band.under } else { &mut band.over };
                    *place = threshold.kelvin();
                }
            }
            Feature::ErrorRecovery => {
                self.recovery.insert(which.nsid, ErrorRecovery::from_bits(value));
            }
            Feature::VolatileWriteCache => self.write_cache = WriteCache::from_bits(value),
            Feature::NumberOfQueues => self.queues = Some(NumberOfQueues::from_bits(value)),
            Feature::InterruptCoalescing => self.coalescing = InterruptCoalescing::from_bits(value),
            Feature::InterruptVector => {
                let vector = InterruptVector::from_bits(value);
                if let Some(place) = self.uncoalesced.get_mut(usize::from(vector.vector())) {
                    *place = vector.coalescing_disabled();
                }
            }
            Feature::WriteAtomicity => self.atomicity = WriteAtomicity::from_bits(value),
            Feature::AsyncEvents => self.events = AsyncEvents::from_bits(value),
            Feature::KeepAliveTimer => self.keep_alive_ms = value,
            Feature::AutonomousPower => self.autonomous = AutonomousPower::from_bits(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { vectors: 3, queue_pairs: 4, warning_kelvin: 340 };

    fn set(features: &mut Features, feature: Feature, value: u32, keep: Keep) {
        features.set(feature, Which { nsid: 0, cdw11: value }, keep);
    }

    #[test]
    fn the_data_path_is_reported_what_it_acts_on() {
        let mut features = Features::new(SHAPE);
        set(&mut features, Feature::Arbitration, 0x0102_0305, Keep::UntilReset);
        set(&mut features, Feature::VolatileWriteCache, 0, Keep::UntilReset);
        set(&mut features, Feature::NumberOfQueues, 0x0001_0002, Keep::UntilReset);
        set(&mut features, Feature::InterruptCoalescing, 0x0a07, Keep::UntilReset);
        set(&mut features, Feature::InterruptVector, 0x0001_0002, Keep::UntilReset);
        let mut settings = Settings::new(3);
        features.apply(&mut settings);
        assert_eq!((settings.arbitration.high_z(), settings.arbitration.burst()), (1, 5));
        assert!(!settings.write_cache);
        assert_eq!(settings.queues.map(|queues| (queues.sqs(), queues.cqs())), Some((3, 2)));
        assert_eq!(settings.coalescing, Coalescing { threshold_z: 7, time_100us: 10 });
        assert_eq!(settings.uncoalesced, [false, false, true]);
    }

    #[test]
    fn after_a_reset_only_what_was_saved_is_in_force() {
        let mut features = Features::new(SHAPE);
        set(&mut features, Feature::InterruptCoalescing, 0x0203, Keep::Saved);
        set(&mut features, Feature::InterruptCoalescing, 0x0405, Keep::UntilReset);
        set(&mut features, Feature::VolatileWriteCache, 0, Keep::UntilReset);
        features.reset(SHAPE.queue_pairs);
        let mut settings = Settings::new(3);
        features.apply(&mut settings);
        assert_eq!(settings.coalescing, Coalescing { threshold_z: 3, time_100us: 2 });
        assert!(settings.write_cache);
    }

    #[test]
    fn no_more_queues_are_granted_than_there_are() {
        let features = Features::new(SHAPE);
        let grant = |sqs_z, cqs_z| {
            let granted = features.grant(NumberOfQueues::new().with_sqs_z(sqs_z).with_cqs_z(cqs_z));
            (granted.sqs_z(), granted.cqs_z())
        };
        assert_eq!(grant(0, 3), (0, 3));
        assert_eq!(grant(4, 65534), (3, 3));
    }
}
