//! Health over time: temperature, spare and wear as a scenario sets them, and the warnings that they cause.
//!
//! Left out: minutes busy with commands, and thermal management.

use nvme_spec::log::Warnings;

pub(super) const NS_PER_MINUTE: u128 = 60_000_000_000;

/// Readings of a controller's sensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    /// Composite temperature, kelvin.
    pub temperature_kelvin: u16,
    /// Available spare, percent.
    pub spare_percent: u8,
    /// Spare below which the controller warns, percent.
    pub spare_threshold_percent: u8,
    /// Part of the device's life used, percent; 255 stands for all above 254.
    pub used_percent: u8,
    /// Whether the media can be relied upon.
    pub media: Media,
}

/// Reliability of the media.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Media {
    /// As they should be.
    Reliable,
    /// Degraded by errors.
    Degraded,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            temperature_kelvin: 313,
            spare_percent: 100,
            spare_threshold_percent: 10,
            used_percent: 0,
            media: Media::Reliable,
        }
    }
}

/// Temperatures beyond which there is a warning, kelvin (feature 04h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Thresholds {
    pub(crate) over: u16,
    pub(crate) under: u16,
}

/// Health over time.
#[derive(Debug)]
pub(crate) struct Monitor {
    pub(super) health: Health,
    pub(super) warnings: Warnings,
    warning_kelvin: u16,
    critical_kelvin: u16,
    /// Time up to which the times below are counted.
    counted_ns: u64,
    pub(super) warning_ns: u64,
    pub(super) critical_ns: u64,
}

impl Monitor {
    /// `critical_kelvin` and `warning_kelvin` are those of Identify.
    pub(crate) const fn new(health: Health, warning_kelvin: u16, critical_kelvin: u16) -> Self {
        Self {
            health,
            warnings: Warnings::new(),
            warning_kelvin,
            critical_kelvin,
            counted_ns: 0,
            warning_ns: 0,
            critical_ns: 0,
        }
    }

    pub(crate) const fn health(&self) -> Health {
        self.health
    }

    /// Counts the time spent hot up to now.
    pub(super) fn pass_time(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.counted_ns);
        self.counted_ns = now_ns.max(self.counted_ns);
        if self.health.temperature_kelvin >= self.critical_kelvin {
            self.critical_ns = self.critical_ns.saturating_add(passed);
        } else if self.health.temperature_kelvin >= self.warning_kelvin {
            self.warning_ns = self.warning_ns.saturating_add(passed);
        }
    }

    /// Computes the warnings again. Returns those that are new.
    pub(crate) fn reconsider(&mut self, thresholds: Thresholds) -> Warnings {
        let Health { temperature_kelvin: kelvin, spare_percent, spare_threshold_percent, used_percent: _, media } =
            self.health;
        let warnings = Warnings::new()
            .with_spare(spare_percent < spare_threshold_percent)
            .with_temperature(kelvin >= thresholds.over || kelvin <= thresholds.under)
            .with_reliability(media == Media::Degraded);
        let fresh = warnings.into_bits() & !self.warnings.into_bits();
        self.warnings = warnings;
        Warnings::from_bits(fresh)
    }
}

pub(super) fn minutes(ns: u64) -> u32 {
    u32::try_from(u128::from(ns) / NS_PER_MINUTE).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILD: Thresholds = Thresholds { over: 343, under: 273 };

    #[test]
    fn a_warning_is_fresh_only_when_it_begins() {
        let mut monitor = Monitor::new(Health::default(), 343, 373);
        assert_eq!(monitor.reconsider(MILD), Warnings::new());
        monitor.health.temperature_kelvin = 343;
        assert_eq!(monitor.reconsider(MILD), Warnings::new().with_temperature(true));
        monitor.health.spare_percent = 9;
        assert_eq!(monitor.reconsider(MILD), Warnings::new().with_spare(true));
        monitor.health.temperature_kelvin = 300;
        assert_eq!(monitor.reconsider(MILD), Warnings::new());
        monitor.health.temperature_kelvin = 273;
        assert_eq!(monitor.reconsider(MILD), Warnings::new().with_temperature(true));
    }

    #[test]
    fn time_spent_hot_is_counted_in_minutes() {
        let mut monitor = Monitor::new(Health { temperature_kelvin: 350, ..Health::default() }, 343, 373);
        monitor.pass_time(120_000_000_000);
        monitor.health.temperature_kelvin = 373;
        monitor.pass_time(180_000_000_000);
        monitor.health.temperature_kelvin = 300;
        monitor.pass_time(900_000_000_000);
        assert_eq!((minutes(monitor.warning_ns), minutes(monitor.critical_ns)), (2, 1));
    }
}
