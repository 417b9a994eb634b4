//! Health: temperature, spare and wear as a scenario sets them, the warnings that they cause, and the SMART log
//! (section 5.14.1.2).
//!
//! Left out: minutes busy with commands, and thermal management.

use nvme_spec::event::AsyncEvent;
use nvme_spec::log::{Smart, Warnings};
use zerocopy::FromZeros;

use crate::controller::Controller;
use crate::host::Host;

const NS_PER_MINUTE: u128 = 60_000_000_000;
const NS_PER_HOUR: u128 = 60 * NS_PER_MINUTE;
const SECTOR_BYTES: u64 = 512;
const SECTORS_PER_UNIT: u64 = 1000;

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
    health: Health,
    warnings: Warnings,
    warning_kelvin: u16,
    critical_kelvin: u16,
    /// Time up to which the times below are counted.
    counted_ns: u64,
    warning_ns: u64,
    critical_ns: u64,
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
    fn pass_time(&mut self, now_ns: u64) {
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

impl Controller {
    /// Sets the readings of the sensors from now on. New warnings are reported as asynchronous events, as far as the
    /// driver enabled them.
    pub fn set_health(&mut self, health: Health, host: &mut dyn Host) {
        feel(self, health);
        super::deliver_events(self, host);
        self.look_ahead();
    }
}

/// Takes readings of the sensors, and reports new warnings.
pub(crate) fn feel(controller: &mut Controller, health: Health) {
    controller.admin.monitor.pass_time(controller.clock_ns);
    controller.admin.monitor.health = health;
    warn(controller);
}

/// Computes the warnings after health or thresholds changed, and reports new ones as events.
pub(crate) fn warn(controller: &mut Controller) {
    let admin = &mut controller.admin;
    let fresh = admin.monitor.reconsider(admin.features.current().thresholds);
    let reported = Warnings::from_bits(fresh.into_bits() & admin.features.current().events.warnings());
    for (wanted, event) in [
        (reported.spare(), AsyncEvent::SPARE),
        (reported.temperature(), AsyncEvent::TEMPERATURE),
        (reported.reliability(), AsyncEvent::RELIABILITY),
    ] {
        if wanted {
            admin.events.report(event);
        }
    }
}

/// Returns the present SMART log.
pub(crate) fn smart(controller: &mut Controller) -> Smart {
    controller.admin.monitor.pass_time(controller.clock_ns);
    let (monitor, counters) = (&controller.admin.monitor, controller.counters());
    let mut smart = Smart::new_zeroed();
    smart.critical_warning = monitor.warnings.into_bits();
    smart.temperature.set(monitor.health.temperature_kelvin);
    smart.spare = monitor.health.spare_percent;
    smart.spare_threshold = monitor.health.spare_threshold_percent;
    smart.used = monitor.health.used_percent;
    smart.data_units_read.set(data_units(counters.bytes_read));
    smart.data_units_written.set(data_units(counters.bytes_written));
    smart.host_reads.set(counters.reads.into());
    smart.host_writes.set(counters.writes.into());
    smart.power_cycles.set(counters.power_cycles.into());
    smart.power_on_hours.set(u128::from(controller.clock_ns) / NS_PER_HOUR);
    smart.unsafe_shutdowns.set(counters.unsafe_shutdowns.into());
    smart.media_errors.set(counters.media_errors.into());
    smart.error_log_entries.set(controller.admin.errors.count().into());
    smart.warning_minutes.set(minutes(monitor.warning_ns));
    smart.critical_minutes.set(minutes(monitor.critical_ns));
    smart
}

/// Thousands of 512-byte units, rounded up.
fn data_units(bytes: u64) -> u128 {
    bytes.div_ceil(SECTOR_BYTES).div_ceil(SECTORS_PER_UNIT).into()
}

fn minutes(ns: u64) -> u32 {
    u32::try_from(u128::from(ns) / NS_PER_MINUTE).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILD: Thresholds = Thresholds { over: 343, under: 273 };

    #[test]
    fn data_is_counted_in_thousands_of_sectors_rounded_up() {
        assert_eq!([0, 1, 512_000, 512_001].map(data_units), [0, 1, 1, 2]);
    }

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
