//! Health over time: temperature, spare and wear as a scenario sets them, and the warnings that they cause.
//!
//! Left out: minutes busy with commands, and thermal management.

use nvme_spec::feature::TemperatureThreshold;
use nvme_spec::log::Warnings;

pub(super) const NS_PER_MINUTE: u128 = 60_000_000_000;

/// Temperature sensors that there can be.
const SENSORS: usize = 8;
/// The sensor number that stands for all temperatures.
const ALL_SENSORS: u8 = TemperatureThreshold::ALL_SENSORS;

/// Readings of a controller's sensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    /// Composite temperature, kelvin.
    pub temperature_kelvin: u16,
    /// Temperature sensors 1 to 8, kelvin; 0 for one that is not there. A sensor that is not there at the start never is.
    pub sensors_kelvin: [u16; SENSORS],
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
    /// At their end: they take no writes any more.
    ReadOnly,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            temperature_kelvin: 313,
            sensors_kelvin: [313, 318, 0, 0, 0, 0, 0, 0],
            spare_percent: 100,
            spare_threshold_percent: 10,
            used_percent: 0,
            media: Media::Reliable,
        }
    }
}

/// Temperatures from which there is a warning, kelvin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Band {
    pub(crate) over: u16,
    pub(crate) under: u16,
}

/// Thresholds of all temperatures (feature 04h): the composite one first, then those of the sensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Thresholds([Band; 1 + SENSORS]);

impl Thresholds {
    /// Returns the defaults (section 5.21.1.4): no sensor warns, and none at all of cold.
    pub(crate) const fn new(warning_kelvin: u16) -> Self {
        let mut bands = [Band { over: u16::MAX, under: 0 }; 1 + SENSORS];
        bands[0].over = warning_kelvin;
        Self(bands)
    }

    /// Returns the thresholds of a sensor; 0 is the composite temperature.
    pub(crate) fn band(&self, sensor: u8) -> Band {
        self.0.get(usize::from(sensor)).copied().unwrap_or(self.0[0])
    }

    /// Returns the thresholds that a number stands for.
    pub(crate) fn bands_mut(&mut self, sensor: u8) -> impl Iterator<Item = &mut Band> {
        let is_meant = move |index: usize| sensor == ALL_SENSORS || usize::from(sensor) == index;
        self.0.iter_mut().enumerate().filter_map(move |(index, band)| is_meant(index).then_some(band))
    }

    /// Whether one of these readings, the composite one first, is beyond its thresholds. A sensor that is not there has none.
    fn are_left_by(&self, readings: impl Iterator<Item = Option<u16>>) -> bool {
        let is_beyond = |(band, reading): (&Band, Option<u16>)| {
            reading.is_some_and(|kelvin| kelvin >= band.over || kelvin <= band.under)
        };
        self.0.iter().zip(readings).any(is_beyond)
    }
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
        let Health {
            temperature_kelvin,
            sensors_kelvin,
            spare_percent,
            spare_threshold_percent,
            used_percent: _,
            media,
        } = self.health;
        let sensors = sensors_kelvin.into_iter().map(|kelvin| (kelvin != 0).then_some(kelvin));
        let readings = std::iter::once(Some(temperature_kelvin)).chain(sensors);
        let warnings = Warnings::new()
            .with_spare(spare_percent < spare_threshold_percent)
            .with_temperature(thresholds.are_left_by(readings))
            .with_reliability(media == Media::Degraded)
            .with_read_only(media == Media::ReadOnly);
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

    const MILD: Thresholds = {
        let mut mild = Thresholds::new(343);
        mild.0[0].under = 273;
        mild
    };

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
